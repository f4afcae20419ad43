"""Reads of the tables that both engines have: documents, chunks, facts and names.

Both databases answer the same statements. What their SQL writes in another way is an attribute or a method of
:class:`Tables`, from which each engine derives its own. User input is in the parameters only. :class:`TableReads` are
the reads of a snapshot, :class:`SqlEngine` is what both engines do besides.
"""

import json
import logging
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.analysis import is_packed, terms_of_names
from graphrag_core.engine.graph.snapshot import GraphReads, Name, StoreSnapshot
from graphrag_core.engine.rows import (
    LETTERS,
    Accesses,
    Row,
    Texts,
    damaged,
    keyword_fields,
    shallow,
    statement,
    without_markup,
)
from graphrag_core.errors import GraphRAGError, IndexClosed, ReadOnlyIndex
from graphrag_core.filters import (
    DOCUMENT_ID,
    Condition,
    Filter,
    Group,
    Hidden,
    Not,
    asked_keys,
    attributes,
    mark_unknown,
)
from graphrag_core.model import Chunk, Document, Extraction, Fact, FactSource, FactStatus, Mark, Mention, Stats
from graphrag_core.ports import Keys, Matrix, ParsedDocument, Scores
from graphrag_core.text import EDGE, REFERS_TO, fact_text, hash64, label, normalise, plain_runs
from graphrag_core.text.markup import plain

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

Query = tuple[str, list[Any]]
"""A statement, or a condition, and its parameters."""

Span = tuple[int, int]
"""Keys from the first up to, but not including, the second."""

_PAGE = 1_000
_ALL_KEYS = -1 << 63, (1 << 63) - 1
_MOST_KEYS = 1_000  # of metadata that are listed
_MOST_CACHED = 50_000  # names that are kept in memory
_TOP = 5  # entities in the statistics
_SOURCES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactSource)}
_STATUSES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactStatus)}
_FACT = (
    "f.start, f.stop, f.relation, f.weight, f.confidence, f.source, f.status, f.value, f.created, f.last_accessed, "
    "f.access_count, f.valid_from, f.valid_to"
)  # the columns of facts that have the same values in both engines
_COMPARE = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Tables:
    """The tables of an index. Safe to use from many threads.

    Attributes
    ----------
    own
        By the alias of a table the start of a condition: that its rows are those of the index. Empty if there is one.
    mark
        A parameter in a statement.
    listed, listed_texts
        Conditions that a column is one of some keys, or one of some texts; :meth:`array` makes the parameter.
    wanted
        Some keys, joined to a table: faster than ``listed`` for keys that are known to exist.
    text, ordinal
        The text of a chunk, and the number of a fact within its chunk.
    order
        The column by which the rows that belong to a chunk are in order.
    holds
        The condition that a chunk ``c`` has a fact ``f``.
    wide
        The condition that a name has characters besides ASCII.
    """

    own: Mapping[str, str]
    mark: ClassVar[str]
    listed: ClassVar[str]
    wanted: ClassVar[str]
    listed_texts: ClassVar[str]
    text: ClassVar[str]
    ordinal: ClassVar[str]
    order: ClassVar[str]
    holds: ClassVar[str]
    wide: ClassVar[str]

    def __init__(self) -> None:
        self.own = defaultdict(str)
        self._names: dict[int, Name] = {}

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a statement."""
        raise NotImplementedError

    def committed(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a statement as of the last commit."""
        return self.rows(sql, parameters)

    def keys(self, sql: str, parameters: Sequence[Any] = ()) -> Keys:
        """Return the only column of a statement."""
        raise NotImplementedError

    def array(self, values: Iterable[Any]) -> Any:
        """Return a list of keys or texts as a parameter."""
        raise NotImplementedError

    def unpack_names(self, stored: Any) -> list[int]:
        """Return the keys of the names of a fact."""
        raise NotImplementedError

    def mentions(self, chunks: Keys) -> Iterable[tuple[int, int, bool]]:
        """Return the names of chunks, in order, and whether each is a subject of its chunk."""
        raise NotImplementedError

    def name_keys(self, names: Sequence[str]) -> dict[str, int]:
        """Return the keys of the names that exist."""
        raise NotImplementedError

    def vectors_of(self, kind: str, owners: Keys) -> dict[int, Matrix]:
        """Return the vectors of chunks or of names, or of the facts of chunks, by key."""
        raise NotImplementedError

    def attribute_condition(self, condition: Condition, operator: str) -> Query:
        """Return the condition that an attribute has one of the values of a filter, or compares with one."""
        raise NotImplementedError

    def pages(self, sql: str, alias: str, span: Span = _ALL_KEYS) -> Iterator[list[Row]]:
        """Yield the rows whose key, which is the first column, lies in a span, in order, in pages."""
        start, stop = span
        inside = f"{self.own[alias]}{alias}.key >= {self.mark} AND {alias}.key < {self.mark}"
        while page := self.rows(f"{sql} WHERE {inside} ORDER BY {alias}.key LIMIT {_PAGE}", (start, stop)):
            yield page
            if len(page) < _PAGE:
                return
            start = page[-1][0] + 1

    def count(self, table: str) -> int:
        """Return the number of documents, chunks or facts."""
        return int(self.rows(f"SELECT count(*) FROM {table} t WHERE {self.own['t']}1 = 1")[0][0])

    def relations(self, hidden: Keys) -> dict[str, int]:
        """Return how many facts each relation has, most first, without those that are hidden."""
        return dict(
            self.rows(
                f"SELECT f.relation, count(*) FROM facts f WHERE {self.own['f']}f.relation IS NOT NULL "
                f"AND NOT (f.key {self.listed}) GROUP BY f.relation ORDER BY 2 DESC, 1",
                (self.array(hidden),),
            )
        )

    # -- documents

    def stored(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist, as of the last commit."""
        sql = f"SELECT d.id, d.digest FROM documents d WHERE {self.own['d']}d.id {self.listed_texts}"
        return dict(self.committed(sql, (self.array(storable(ids)),)))

    def document_ids(self, after: str, scope: Filter | None) -> list[str]:
        """Return a page of ids of the documents that match a filter, in order of id, after an id."""
        inside, parameters = "", list[Any]()
        if scope is not None:
            sql, parameters = self.filter_sql(self.marked(scope))
            inside = f"AND d.key IN ({sql})"
        sql = (
            f"SELECT d.id FROM documents d WHERE {self.own['d']}d.id > {self.mark} {inside} ORDER BY d.id LIMIT {_PAGE}"
        )
        return [row[0] for row in self.rows(sql, (after, *parameters))]

    def document(self, document_id: str) -> Document | None:
        """Return a document, put together from its chunks."""
        rows = self.rows(
            f"SELECT d.id, d.title, d.metadata, d.marks FROM documents d WHERE {self.own['d']}d.id {self.listed_texts}",
            (self.array(storable([document_id])),),
        )
        return document_of(rows[0], self.chunks_of(document_id)) if rows else None

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        ids = self.array(storable([document_id]))
        return [chunk_of(row) for row in self.chunk_rows(f"d.id {self.listed_texts} ORDER BY c.ordinal", ids)]

    @property
    def chunk_columns(self) -> str:
        """The columns of a chunk ``c`` and its document ``d`` as :func:`chunk_of` takes them."""
        return (
            f"c.key, c.id, d.id, {self.text}, coalesce(d.heading, d.title) AS title, c.ordinal, c.start, d.metadata, "
            "c.headings, c.page"
        )

    def chunk_rows(self, condition: str, *parameters: Any) -> list[Row]:
        """Return the rows of chunks as :func:`chunk_of` takes them."""
        return self.rows(
            f"SELECT {self.chunk_columns} FROM chunks c JOIN documents d ON d.key = c.document "
            f"WHERE {self.own['c']}{self.own['d']}{condition}",
            parameters,
        )

    def parsed(self, document_ids: Sequence[str], *, accesses: bool) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors."""
        ids = self.array(storable(document_ids))
        chunks: defaultdict[str, list[Row]] = defaultdict(list)
        texts: dict[int, str] = {}
        for row in self.chunk_rows(f"d.id {self.listed_texts} ORDER BY d.id, c.ordinal", ids):
            chunks[row[2]].append(row)
            texts[row[0]] = row[3]
        keys = np.array([*texts], np.int64)
        names: dict[int, dict[str, bool]] = {key: {} for key in texts}
        mentions: dict[int, list[Mention]] = {key: [] for key in texts}
        facts: dict[int, dict[int, Fact]] = {key: {} for key in texts}
        mentioned = list(self.mentions(keys))
        stated = self.facts_of_chunks(keys)
        used = {name for _, name, _ in mentioned}.union(*(row[2] for row in stated))
        surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
        for chunk, name, is_subject in mentioned:
            names[chunk][surfaces[name]] = bool(is_subject)
        claims, aliases = (
            self.rows(
                f"SELECT t.chunk, {columns} FROM {table} t WHERE {self.own['t']}t.chunk {self.listed} "
                f"ORDER BY t.chunk, t.{self.order}",
                (self.array(keys),),
            )
            for table, columns in (("claims", "name, type, description"), ("aliases", "short, long"))
        )
        for chunk, name, kind, description in claims:
            mentions[chunk].append(Mention(surfaces[name], kind, description))
        for chunk, short, long in aliases:
            mentions[chunk].append(Mention(surfaces[long], aliases=(surfaces[short],)))
        for chunk, key, own, stored, is_plain, *fields in stated:
            text = text_of_fact(stored, is_plain, texts[chunk], fields[0], fields[1])
            facts[chunk][key] = fact_of([surfaces[name] for name in own], text, fields, accesses=accesses)
        chunk_vectors, fact_vectors = (self.vectors_of(kind, keys) for kind in ("chunks", "facts"))
        documents = {
            row[0]: row
            for row in self.rows(
                "SELECT d.id, d.title, d.metadata, d.marks, d.digest FROM documents d "
                f"WHERE {self.own['d']}d.id {self.listed_texts}", (ids,)
            )
        }  # fmt: skip
        found = []
        for row in (documents[one] for one in document_ids if one in documents):
            own_keys = [chunk[0] for chunk in chunks[row[0]]]
            own_chunks = [chunk_of(chunk) for chunk in chunks[row[0]]]
            own_facts = [key for chunk in own_keys for key in facts[chunk]]
            of_document = _matrix(chunk_vectors, own_keys)
            of_facts = _matrix(fact_vectors, own_facts)
            if of_document is not None and not own_facts:
                of_facts = np.empty((0, of_document.shape[1]), np.float32)
            extractions = [Extraction(tuple(mentions[key]), tuple(facts[key].values())) for key in own_keys]
            found.append(
                ParsedDocument(
                    document_of(row[:4], own_chunks), shallow(row[2]), row[4], own_chunks, extractions,
                    [names[key] for key in own_keys], of_document, of_facts,
                )
            )  # fmt: skip
        return found

    def facts_of_chunks(self, chunks: Keys) -> list[Row]:
        """Return the facts of chunks in order: chunk, key, names, text, whether it is plain, and the other columns."""
        rows = self.rows(
            f"SELECT c.key, f.key, f.names, f.text, f.is_plain, {_FACT} FROM chunks c "
            f"JOIN facts f ON {self.holds} WHERE {self.own['c']}{self.own['f']}c.key {self.listed} ORDER BY f.key",
            (self.array(chunks),),
        )
        return [(*row[:2], self.unpack_names(row[2]), *row[3:]) for row in rows]

    @property
    def facts_of_documents(self) -> str:
        """A join of the documents ``d`` with some ids, which are the parameter, their chunks ``c`` and facts ``f``."""
        return (
            f"documents d JOIN chunks c ON c.document = d.key JOIN facts f ON {self.holds} "
            f"WHERE {self.own['d']}{self.own['c']}{self.own['f']}d.id {self.listed_texts}"
        )

    def accesses(self, document_ids: Sequence[str]) -> Iterator[Row]:
        """Yield what the facts of documents state that were accessed, with last access and access count."""
        for document, own, is_plain, text, names, start, stop, relation, value, last, count in self.rows(
            f"SELECT d.id, f.text, f.is_plain, {self.text}, f.names, f.start, f.stop, f.relation, f.value, "
            f"f.last_accessed, f.access_count FROM {self.facts_of_documents} AND f.access_count > 0 ORDER BY f.key",
            (self.array(document_ids),),
        ):
            keys = self.unpack_names(names)
            known = self.names(keys)
            surfaces = tuple(known[key].surface for key in keys)
            whole = text_of_fact(own, is_plain, text, start, stop)
            yield statement(document, whole, surfaces, relation, value), last, count

    # -- names

    def names(self, keys: Sequence[int]) -> dict[int, Name]:
        """Return names by key. They are cached: a row never changes."""
        cache = self._names
        if len(cache) > _MOST_CACHED:
            cache.clear()
        found = {key: name for key in keys if (name := cache.get(key)) is not None}
        if missing := [key for key in keys if key not in found]:
            of_key = f"{self.wanted} names n ON {self.own['n']}n.key = wanted.value"
            sql = f"SELECT n.key, n.surface, n.spelling FROM {of_key}"
            rows = self.rows(sql, (self.array(missing),))
            fresh = {key: Name(surface, normalise(surface), spelling) for key, surface, spelling in rows}
            if not fresh.keys() >= {*missing}:
                raise damaged("a name is missing")
            cache.update(fresh)
            found |= fresh
        return found

    def new_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that do not exist, each once."""
        wanted = list(dict.fromkeys(names))
        known = self.name_keys(wanted)
        return [name for name in wanted if name not in known]

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of names that have one."""
        keys = self.name_keys(names)
        found = self.vectors_of("names", np.array([*keys.values()], np.int64))
        return {name: found[key] for name, key in keys.items() if key in found}

    # -- filters

    def filter_sql(self, scope: Filter) -> Query:
        """Return a query for the keys of the documents that match a filter."""
        everything = f"SELECT d.key FROM documents d WHERE {self.own['d']}"
        if isinstance(scope, Not):
            inner, parameters = self.filter_sql(scope.part)
            return f"{everything}d.key NOT IN ({inner})", parameters
        if isinstance(scope, Group):
            if not scope.parts:
                return f"{everything}{'1 = 1' if scope.all else '1 = 0'}", []
            queries = [self.filter_sql(part) for part in scope.parts]
            joint = " INTERSECT " if scope.all else " UNION "
            sql = joint.join(f"SELECT * FROM ({query}) AS part" for query, _ in queries)
            return sql, [value for _, parameters in queries for value in parameters]
        operator = _COMPARE.get(scope.operator, "")
        sql, parameters = "1 = 0", list[Any]()
        if scope.operator == "exists":
            sql = "1 = 1"
        elif scope.key == DOCUMENT_ID:
            ids = [value for kind, value in scope.values if kind == "text"]
            if scope.operator == "in":
                sql, parameters = f"d.id {self.listed_texts}", [self.array(ids)]
            elif ids:
                sql, parameters = f"d.id {operator} {self.mark}", [*ids]
        elif scope.values:
            sql, parameters = self.attribute_condition(scope, operator)
        if scope.key == DOCUMENT_ID:
            return f"{everything}{sql}", parameters
        named = f"SELECT a.document FROM attributes a WHERE {self.own['a']}a.name = {self.mark} AND {sql}"
        return named, [scope.key, *parameters]

    def marked(self, scope: Filter) -> Filter:
        """Return a filter whose comparisons with keys that no document has are marked, so that they match nothing."""
        exists, names = self.known_keys(scope)
        return mark_missing(scope, names, self.rows(f"SELECT {', '.join(exists)}", names)[0]) if names else scope

    def known_keys(self, scope: Filter) -> tuple[list[str], list[str]]:
        """Return what to select to learn whether any document has each key of a filter, and the keys."""
        names = asked_keys(scope)
        return [f"EXISTS (SELECT 1 FROM attributes a WHERE {self.own['a']}a.name = {self.mark})"] * len(names), names

    def metadata_keys(self) -> list[str]:
        """Return the metadata keys of all documents in order, at most 1,000. One lookup in an index for each."""
        least = f"SELECT min(a.name) FROM attributes a WHERE {self.own['a']}"
        rows = self.rows(
            f"WITH RECURSIVE k(name, number) AS (SELECT ({least}1 = 1), 1 UNION ALL "
            f"SELECT ({least}a.name > k.name), k.number + 1 FROM k "
            f"WHERE k.name IS NOT NULL AND k.number < {_MOST_KEYS}) "
            "SELECT k.name FROM k WHERE k.name IS NOT NULL"
        )
        return [row[0] for row in rows]

    # -- what the search indexes are built from

    def keyword_texts(self, span: Span = _ALL_KEYS, *, only: str = "") -> Iterator[tuple[int, Texts, list[Row]]]:
        """Yield the chunks in a span with their fields of keyword search, and keys and texts of their facts.

        ``only`` chunks have no facts, ``only`` facts no fields.
        """
        sql = (
            f"SELECT c.key, coalesce(d.heading, d.title) AS title, c.headings, {self.text} FROM chunks c "
            f"JOIN documents d ON {self.own['d']}d.key = c.document"
        )
        for page in self.pages(sql, "c", span):
            keys = np.array([row[0] for row in page], np.int64)
            subjects: defaultdict[int, list[int]] = defaultdict(list)
            facts: defaultdict[int, list[Row]] = defaultdict(list)
            for chunk, name, is_subject in self.mentions(keys) if only != "facts" else ():
                if is_subject:
                    subjects[chunk].append(name)
            for chunk, *fact in self.facts_of_chunks(keys) if only != "chunks" else ():
                facts[chunk].append(tuple(fact))
            used = {name for own in subjects.values() for name in own}
            used.update(name for own in facts.values() for fact in own if fact[6] for name in fact[1])
            names = self.names(sorted(used))
            for key, title, packed, text in page:
                texts = []
                headings = unpack_headings(packed)
                for fact, own, stored, is_plain, start, stop, relation, _, _, _, _, value, *_ in facts[key]:
                    ends = [*(names[name].surface for name in own), value or ""] if relation else []
                    sentence = text_of_fact(stored, is_plain, text, start, stop)
                    texts.append((fact, fact_text(label(title, headings), sentence, relation or "", ends)))
                fields: Texts = ()
                if only != "facts":
                    called = [names[name].surface for name in subjects[key]]
                    fields = keyword_fields(title, headings, called, plain(text))
                yield key, fields, texts

    # -- verification

    def content_problems(self) -> Iterator[str]:
        """Yield problems: stored names, metadata and terms that differ from those computed again from the rows."""
        wrong = [
            key
            for page in self.pages("SELECT n.key, n.surface, n.spelling FROM names n", "n")
            for key, surface, spelling in page
            if hash64(normalise(surface)) != spelling
        ]
        if wrong:
            yield f"records: {len(wrong)} names are damaged, such as key {min(wrong)}"
        held = f"(SELECT count(*) FROM facts f WHERE {self.own['f']}{self.holds})"
        without = [
            key
            for page in self.pages(f"SELECT c.key, c.terms, c.fact_terms, {held} FROM chunks c", "c")
            for key, terms, fact_terms, count in page
            if not is_packed(terms, fact_terms, count)
        ]
        if without:
            yield f"records: {len(without)} chunks lack the terms of their facts, such as key {min(without)}"
        for page in self.pages("SELECT d.key, d.id, d.metadata FROM documents d", "d"):
            stored: defaultdict[int, set[Row]] = defaultdict(set)
            for document, *attribute in self.attributes([row[0] for row in page]):
                stored[document].add(tuple(attribute))
            for key, document_id, metadata in page:
                if shallow(metadata) != metadata:  # some of its attributes are not read: the checksums are compared
                    continue
                wanted = {(name, kind, self.stored_value(kind, value))
                          for name, (kind, value) in attributes(json.loads(metadata))}  # fmt: skip
                if stored[key] != wanted:
                    yield f"records: the metadata of document {document_id!r} is damaged"

    def attributes(self, documents: Sequence[int]) -> list[Row]:
        """Return document, name, kind and value of the attributes of documents."""
        return self.rows(
            "SELECT a.document, a.name, a.kind, a.value FROM attributes a "
            f"WHERE {self.own['a']}a.document {self.listed}",
            (self.array(documents),),
        )

    def stored_value(self, kind: str, value: Any) -> Any:  # noqa: ARG002 - PostgreSQL needs it
        """Return the value of an attribute as it is stored."""
        return value


def mark_missing(scope: Filter, names: Sequence[str], known: Sequence[bool]) -> Filter:
    """Return a filter with those of its keys marked that are not known; the filter itself if all are."""
    unknown = {name for name, is_known in zip(names, known, strict=True) if not is_known}
    return mark_unknown(scope, unknown) if unknown else scope


def unpack_headings(text: str | None) -> tuple[str, ...]:
    """Return the headings above a chunk as they are stored."""
    return () if text is None else tuple(_stored_json(text))


def chunk_of(row: Row) -> Chunk:
    """Return a chunk from key, id, document, text, title, ordinal, start, metadata, headings and page."""
    _, chunk_id, document_id, text, title, ordinal, start, metadata, headings, page = row
    values = _stored_json(shallow(metadata))
    return Chunk(chunk_id, document_id, text, title, ordinal, start, values, unpack_headings(headings), page)


def _stored_json(text: str | bytes) -> Any:
    """Return a value that is stored as JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(f"a value cannot be decoded: {error}") from error


def _in_order(rows: Sequence[Row], keys: Keys) -> list[Row]:
    """Return rows, which start with their key, in the order of the keys."""
    by_key = {row[0]: row for row in rows}
    wanted = keys.tolist()
    if not by_key.keys() >= {*wanted}:
        raise damaged("a row is missing")
    return [by_key[key] for key in wanted]


def text_of_fact(own: str | None, is_plain: bool, text: str, start: int, stop: int) -> str:
    """Return the text of a fact from its row and its chunk's text."""
    if own is not None:
        return own
    return without_markup(text, start, stop) if is_plain else text[start:stop].replace("\n", " ")


def document_of(row: Row, chunks: Iterable[Chunk]) -> Document:
    """Return a document from its id, title, metadata and marks, and from its chunks in order, which may overlap."""
    document_id, title, metadata, packed = row
    pieces, end = [], 0
    for chunk in chunks:
        pieces.append(chunk.text[end - chunk.start :])
        end += len(pieces[-1])
    try:
        marks = () if packed is None else tuple(Mark(*mark) for mark in _stored_json(zlib.decompress(packed)))
    except zlib.error as error:
        raise damaged(f"the marks of {document_id!r} cannot be decoded: {error}") from error
    return Document(document_id, "".join(pieces), title, _stored_json(shallow(metadata)), marks)


def fact_of(
    names: Iterable[str],
    text: str,
    columns: Sequence[Any],
    *,
    accesses: bool = True,
    pending: tuple[int, float] | None = None,
    ids: tuple[str, str] = ("", ""),
) -> Fact:
    """Return a fact from its names, its text and its columns; without ``accesses`` as if it was never used.

    ``pending`` are accesses that are not stored yet (:class:`Accesses`), ``ids`` those of the fact and of its chunk.
    """
    start, stop, relation, weight, confidence, source, status, value, created, last, count, *valid = columns
    if pending is not None:
        more, last = pending
        count += more
    return Fact(
        tuple(names), text, relation or "", weight, confidence, _SOURCES.get(source, source),
        _STATUSES.get(status, status), value or "", created, last if accesses or not count else None,
        count if accesses else 0, None if start is None else (start, stop), *ids, *valid,
    )  # fmt: skip


def storable(texts: Iterable[str]) -> list[str]:
    """Return the texts that a database can store."""
    return [text for text in texts if "\x00" not in text and text.encode("utf-8", "replace").decode() == text]


def parts_of(scope: Filter | None) -> tuple[Filter | None, Filter | None]:
    """Return what a caller chose, and what is hidden from every query."""
    if isinstance(scope, Hidden):
        return None, scope.part
    if isinstance(scope, Group) and scope.all and len(scope.parts) == 2 and isinstance(scope.parts[1], Hidden):
        return scope.parts[0], scope.parts[1].part
    return scope, None


def _matrix(vectors: dict[int, Matrix], keys: Sequence[int]) -> Matrix | None:
    found = [vectors[key] for key in keys if key in vectors]
    return np.stack(found) if found else None


class TableReads:
    """The reads of rows that a snapshot needs, of one generation and restricted to a scope.

    Attributes
    ----------
    edits
        The edits of the graph, as they are stored.
    graph
        The rows of the graph in scope.
    names
        Returns names by key.
    _chunk_keys, _chunk_numbers, _fact_keys, _fact_numbers
        Return the keys of rows for the numbers that the snapshot has for chunks and facts, and the other way round.
    unknown_keys
        The keys of the scope's filter that no document has.
    _sees
        Returns which chunks, given by key, are in scope; None if all are.
    """

    edits: str
    graph: GraphReads
    names: Callable[[Sequence[int]], dict[int, Name]]
    unknown_keys: tuple[str, ...] = ()
    _tables: Tables
    _accesses: Accesses
    _chunk_keys: Callable[[Keys], Keys]
    _chunk_numbers: Callable[[Keys], Keys]
    _fact_keys: Callable[[Keys], Keys]
    _fact_numbers: Callable[[Keys], Keys]
    _sees: Callable[[Keys], npt.NDArray[np.bool_]] | None

    def metadata_keys(self) -> list[str]:
        """Return the metadata keys of all documents, as far as there are not too many."""
        return self._tables.metadata_keys()

    def chunk_keys(self, chunks: Keys) -> Keys:
        """Return the keys of chunks."""
        return self._chunk_keys(chunks)

    def fact_keys(self, facts: Keys) -> Keys:
        """Return the keys of facts."""
        return self._fact_keys(facts)

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]:
        """Return the packed terms of chunks and of their facts."""
        rows = self._by_key("c.terms, c.fact_terms", "chunks c", chunks)
        return [(terms, facts or b"") for _, terms, facts in rows]

    def chunks(self, chunks: Keys) -> list[Chunk]:
        """Return chunks in the order given."""
        if len(chunks) == 0:
            return []
        keys, tables = self._chunk_keys(chunks), self._tables
        rows = tables.chunk_rows(f"c.key {tables.listed}", tables.array(keys))
        return [chunk_of(row) for row in _in_order(rows, keys)]

    def texts(self, chunks: Keys, length: int | None = None) -> list[str]:
        """Return the texts of chunks, or their first ``length`` characters."""
        text = self._tables.text if length is None else f"substr({self._tables.text}, 1, {length})"
        return [text for _, text in self._by_key(text, "chunks c", chunks)]

    def facts_in(self, chunks: Keys) -> Keys:
        """Return the facts of chunks."""
        tables = self._tables
        sql = (
            f"SELECT f.key FROM chunks c JOIN facts f ON {tables.holds} "
            f"WHERE {tables.own['c']}{tables.own['f']}c.key {tables.listed}"
        )
        return self._fact_numbers(tables.keys(sql, (tables.array(self._chunk_keys(chunks)),)))

    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities."""
        tables, found = self._tables, []
        wanted = f"f.names, f.text, f.is_plain, {tables.text}, c.id, {tables.ordinal}, {_FACT}"
        joined = f"JOIN chunks c ON {tables.own['c']}c.key = f.chunk"
        for key, names, own, is_plain, whole, chunk_id, ordinal, *columns in self._by_key(
            wanted, "facts f", facts, joined
        ):
            text = text_of_fact(own, is_plain, whole, columns[0], columns[1])
            ids, pending = (f"{chunk_id}/{ordinal}", chunk_id), self._accesses.pending.get(key)
            found.append((tables.unpack_names(names), fact_of((), text, columns, pending=pending, ids=ids)))
        return found

    def _by_key(self, columns: str, table: str, numbers: Keys, joined: str = "") -> list[Row]:
        """Return key and columns of chunks or facts, in the order given."""
        tables, alias = self._tables, table[-1]
        keys = (self._chunk_keys if alias == "c" else self._fact_keys)(numbers)
        of_key = f"{tables.wanted} {table} ON {tables.own[alias]}{alias}.key = wanted.value {joined}"
        return _in_order(tables.rows(f"SELECT {alias}.key, {columns} FROM {of_key}", (tables.array(keys),)), keys)

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        tables, keys = self._tables, self._fact_keys(facts)
        related = tables.keys(
            f"SELECT f.key FROM facts f WHERE {tables.own['f']}f.key {tables.listed} "
            f"AND f.relation {tables.listed_texts}",
            (tables.array(keys), tables.array(relations)),
        )
        return facts[np.isin(keys, related)]

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return the facts whose subject is an entity, given by its names, with confidence and last access time."""
        tables, pending, subjects = self._tables, self._accesses.pending, set(names.tolist())
        both_ways = tables.name_keys([EDGE]).get(EDGE) if self.graph.has_edges else None
        rows = []
        for key, relation, packed, confidence, last in tables.rows(
            "SELECT f.key, f.relation, f.names, f.confidence, coalesce(f.last_accessed, f.created, d.added) "
            "FROM facts f JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
            f"WHERE {tables.own['f']}{tables.own['c']}{tables.own['d']}f.key {tables.listed} ORDER BY f.key",
            (tables.array(self._fact_keys(facts)),),
        ):
            ends = tables.unpack_names(packed) or [-1]
            if relation is None or ends[0] in subjects or ends[-1] == both_ways:
                rows.append((key, confidence, pending[key][1] if key in pending else last))
        keys = np.array([row[0] for row in rows], np.int64)
        confidences, times = (
            np.array([row[1] for row in rows], np.float32),
            np.array([row[2] for row in rows], np.float64),
        )
        return self._fact_numbers(keys), confidences, times

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Return the terms of names as hashes: how many each has, and which."""
        known = self.names(names.tolist())
        owners, numbers = terms_of_names([known[name].norm for name in names.tolist()])
        return np.bincount(owners, minlength=len(names)), numbers

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return the types and descriptions that chunks in scope give to names."""
        tables = self._tables
        rows = tables.rows(
            "SELECT t.name, t.type, t.description, t.chunk FROM claims t "
            f"WHERE {tables.own['t']}t.name {tables.listed}",
            (tables.array(names),),
        )
        if self._sees is None or not rows:
            return [row[:3] for row in rows]
        seen = self._sees(np.array([row[3] for row in rows], np.int64)).tolist()
        return [row[:3] for row, is_seen in zip(rows, seen, strict=True) if is_seen]

    def digits(self, spellings: Keys) -> Keys:
        """Return the spellings, given by hash, that are numbers."""
        tables = self._tables
        sql = f"SELECT n.spelling, n.surface FROM names n WHERE {tables.own['n']}n.spelling {tables.listed}"
        rows = tables.rows(sql, (tables.array(spellings),))
        return np.array([spelling for spelling, name in rows if name.isascii() and name.isdigit()], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        """Return the names whose normalised form begins with one text and contains another."""
        runs = plain_runs(f"{start} {inside}")
        tables = self._tables
        plain = (
            "1 = 0" if runs is None else " AND ".join([f"lower(n.surface) LIKE {tables.mark}"] * len(runs)) or "1 = 1"
        )
        rows = tables.rows(
            f"SELECT n.key, n.surface FROM names n WHERE {tables.own['n']}(({plain}) OR {tables.wide})",
            [f"%{run}%" for run in runs or ()],
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the chunks in scope with some ids."""
        tables = self._tables
        sql = f"SELECT c.key, c.id FROM chunks c WHERE {tables.own['c']}c.id {tables.listed_texts}"
        rows = tables.rows(sql, (tables.array(storable(ids)),))
        return {rows[at][1]: number for at, number in self._in_scope(rows)}

    def _in_scope(self, rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
        """Return which rows, whose first column is the key of a chunk, are in scope, and the numbers of the chunks."""
        keys = np.array([row[0] for row in rows], np.int64)
        seen = np.arange(len(keys)) if self._sees is None else np.flatnonzero(self._sees(keys))
        return zip(seen.tolist(), self._chunk_numbers(keys[seen]).tolist(), strict=True)

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact."""
        self._accesses.note(self._fact_keys(facts).tolist(), now)


class SqlEngine:
    """An engine whose documents, chunks, facts and names are rows of a database."""

    path: Any
    read_only: bool
    accesses: Accesses
    _closed: bool
    _inherited = False  # from the process that forked this one, and not opened here yet

    @property
    def read_only_reason(self) -> str:
        raise NotImplementedError

    def settings(self) -> dict[str, str]:
        raise NotImplementedError

    def _read(self, read: Callable[[Tables], _T]) -> _T:
        """Return what a function reads from the tables in one state."""
        raise NotImplementedError

    def _add_accesses(self, accesses: Mapping[int, tuple[int, float]]) -> None:
        """Add access counts to facts; deleted facts are ignored."""
        raise NotImplementedError

    def _check(self, *, writable: bool = False) -> None:
        if self._closed:
            raise IndexClosed(f"{self.path or 'the index in memory'} was closed: open it again")
        if writable and self.read_only:
            raise ReadOnlyIndex(self.read_only_reason)
        if self._inherited:
            self._reopen()

    def _reopen(self) -> None:
        """Open what was inherited from the process that forked this one."""

    def _write_accesses(self) -> None:
        """Store the accesses that were counted. Failure is logged only."""
        if self.read_only or not self.accesses.pending:
            return
        try:
            self._add_accesses(self.accesses.take())
        except GraphRAGError as error:
            _log.warning("the access counts of facts could not be written: %s", error)

    def document(self, document_id: str) -> Document | None:
        return self._read(lambda tables: tables.document(document_id))

    def document_ids(self, scope: Filter | None = None) -> Iterator[str]:
        last = ""
        while page := self._read(lambda tables, after=last: tables.document_ids(after, scope)):  # type: ignore[misc]
            yield from page
            check_deadline()
            last = page[-1]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        return self._read(lambda tables: tables.chunks_of(document_id))

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        return self._read(lambda tables: tables.parsed(document_ids, accesses=accesses))

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        return self._read(lambda tables: tables.name_vectors(names))

    def __len__(self) -> int:
        return self._read(lambda tables: tables.count("documents"))

    def _statistics(self, snapshot: StoreSnapshot, tables: Tables, **counts: Any) -> Stats:
        """Return the statistics of the index. ``counts`` are the values of further fields."""
        hidden = snapshot.hidden_facts()
        relations, settings = tables.relations(hidden), self.settings()
        top = snapshot.entities(snapshot.top_entities(_TOP))
        return Stats(
            documents=tables.count("documents"),
            chunks=tables.count("chunks"),
            facts=tables.count("facts") - len(hidden),
            relations={name: count for name, count in relations.items() if name != REFERS_TO},
            links=relations.get(REFERS_TO, 0),
            dim=int(settings.get("dim", "0")),
            embedder=settings.get("embedder", ""),
            generation=snapshot.generation,
            top_entities=tuple((entity.name, entity.mentions) for entity in top),
            **counts,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path or 'in memory'}{', closed' if self._closed else ''}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        opened, arguments = cast("tuple[Any, ...]", self.__reduce__())
        return cast("Self", opened(*arguments))
