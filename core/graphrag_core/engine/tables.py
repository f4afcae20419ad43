"""Reads of the tables that both engines have: documents, chunks, facts and names.

Both databases answer the same statements. What they write differently in SQL is an attribute or a method of
:class:`Tables`, from which each engine derives its own. User input is in the parameters only. :class:`SqlEngine` has
the methods that both engines share.
"""

import json
import logging
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, get_args

import numpy as np
from typing_extensions import Self

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.analysis import is_packed
from graphrag_core.engine.rows import (
    LETTERS,
    TOKEN_BYTES,
    Accesses,
    Name,
    Row,
    Texts,
    damaged,
    keyword_fields,
    statement,
    without_markup,
)
from graphrag_core.errors import GraphRAGError, IndexClosed, ReadOnlyIndex
from graphrag_core.filters import (
    DOCUMENT_ID,
    MAX_METADATA_DEPTH,
    Condition,
    Filter,
    Group,
    Hidden,
    Not,
    asked_keys,
    attributes,
    mark_unknown,
)
from graphrag_core.model import (
    Chunk,
    Document,
    Extraction,
    Fact,
    FactSource,
    FactStatus,
    FileMark,
    Mark,
    Mention,
    Stats,
)
from graphrag_core.ports import Keys, Matrix, ParsedDocument, StoredFile
from graphrag_core.text import REFERS_TO, fact_text, hash64, label, normalise
from graphrag_core.text.markup import plain

if TYPE_CHECKING:
    from graphrag_core.engine.graph.snapshot import StoreSnapshot

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
FACT_COLUMNS = (
    "f.start, f.stop, f.relation, f.weight, f.confidence, f.source, f.status, f.value, f.created, f.last_accessed, "
    "f.access_count, f.valid_from, f.valid_to"
)
"""The columns of facts that have the same values in both engines, as :func:`fact_of` takes them."""

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_COMPARE = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Tables:
    """The tables of an index. Safe to use from many threads.

    Attributes
    ----------
    own
        By the alias of a table the start of a condition that selects the rows of the index; empty if there is only one.
    mark
        A parameter in a statement.
    listed, listed_texts
        Conditions that a column is one of some keys or texts; :meth:`array` makes the parameter.
    wanted
        Some keys, joined to a table: faster than ``listed`` for keys that are known to exist.
    text, ordinal
        The text of a chunk, and the number of a fact within its chunk.
    order
        The column that sorts the claims and aliases of a chunk.
    holds
        The condition that a chunk ``c`` has a fact ``f``.
    wide
        The condition that a name has characters besides ASCII.
    chunk_columns
        The columns of a chunk ``c`` and its document ``d`` as :func:`chunk_of` takes them.
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
        self.chunk_columns = (
            f"c.key, c.id, d.id, {self.text}, coalesce(d.heading, d.title) AS title, c.ordinal, c.start, d.metadata, "
            "c.headings, c.page"
        )

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a statement."""
        raise NotImplementedError

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
        rows = self.chunk_rows(f"d.id {self.listed_texts} ORDER BY d.id, c.ordinal", ids)
        extracted, rows_of = self._extracted(rows, accesses=accesses), _grouped(rows, 2)  # 2: the document
        keys = np.array([*extracted], np.int64)
        vectors_of_chunks, vectors_of_facts = self.vectors_of("chunks", keys), self.vectors_of("facts", keys)
        sql = f"SELECT c.key, c.tokens FROM chunks c WHERE {self.own['c']}c.key {self.listed}"
        tokens_of: dict[int, bytes | None] = dict(self.rows(sql, (self.array(keys),)))
        sql = (
            "SELECT d.id, d.title, d.metadata, d.marks, d.digest, d.file, d.version FROM documents d "
            f"WHERE {self.own['d']}d.id {self.listed_texts}"
        )
        documents = {row[0]: row for row in self.rows(sql, (ids,))}
        parsed = []
        for row in (documents[document_id] for document_id in document_ids if document_id in documents):
            chunks = [chunk_of(chunk) for chunk in rows_of[row[0]]]
            parts = [extracted[chunk[0]] for chunk in rows_of[row[0]]]
            chunk_vectors = _matrix(vectors_of_chunks, [chunk[0] for chunk in rows_of[row[0]]])
            tokens = [ids for chunk in rows_of[row[0]] if (ids := tokens_of[chunk[0]]) is not None]
            facts = [key for _, _, facts_of_chunk in parts for key in facts_of_chunk]
            fact_vectors = _matrix(vectors_of_facts, facts)
            if chunk_vectors is not None and not facts:
                fact_vectors = np.empty((0, chunk_vectors.shape[1]), np.float32)
            file = None if row[5] is None else FileMark(*row[5:])
            parsed.append(
                ParsedDocument(
                    replace(document_of(row[:4], chunks), file=file), shallow(row[2]), row[4], chunks,
                    [Extraction(tuple(mentions), tuple(stated.values())) for _, mentions, stated in parts],
                    [names for names, _, _ in parts], chunk_vectors, fact_vectors,
                    tokens if len(tokens) == len(chunks) else None,
                )
            )  # fmt: skip
        return parsed

    def files(self) -> list[StoredFile]:
        """Return the files that documents were read from, in order of path."""
        rows = self.rows(
            "SELECT d.file, min(d.id), count(*), min(d.version), max(d.version), min(d.digest) FROM documents d "
            f"WHERE {self.own['d']}d.file IS NOT NULL GROUP BY d.file ORDER BY d.file"
        )
        found = []
        for path, document, count, low, high, digest in rows:
            version, _, documents = high.partition(":")
            is_whole = digest and documents == str(count) and low.partition(":")[0] == version
            found.append(StoredFile(path, document, count, version if is_whole else ""))
        return found

    def documents_of_file(self, path: str) -> dict[str, str]:
        """Return the versions of a file's documents, by id."""
        sql = f"SELECT d.id, d.version FROM documents d WHERE {self.own['d']}d.file = {self.mark} ORDER BY d.id"
        return dict(self.rows(sql, (path,)))

    def _extracted(
        self, chunks: Sequence[Row], *, accesses: bool
    ) -> dict[int, tuple[dict[str, bool], list[Mention], dict[int, Fact]]]:
        """Return by chunk the names that it mentions, the mentions with a type or an alias, and the facts by key."""
        extracted: dict[int, tuple[dict[str, bool], list[Mention], dict[int, Fact]]] = {}
        extracted.update((row[0], ({}, [], {})) for row in chunks)
        keys, texts = np.array([*extracted], np.int64), {row[0]: row[3] for row in chunks}
        mentioned, stated = list(self.mentions(keys)), self.facts_of_chunks(keys)
        used = {name for _, name, _ in mentioned}.union(*(row[2] for row in stated))
        surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
        for chunk, name, is_subject in mentioned:
            extracted[chunk][0][surfaces[name]] = bool(is_subject)
        of_chunks = f"t WHERE {self.own['t']}t.chunk {self.listed} ORDER BY t.chunk, t.{self.order}"
        given = (self.array(keys),)
        for chunk, name, kind, text in self.rows(
            f"SELECT t.chunk, t.name, t.type, t.description FROM claims {of_chunks}", given
        ):
            extracted[chunk][1].append(Mention(surfaces[name], kind, text))
        for chunk, short, long in self.rows(f"SELECT t.chunk, t.short, t.long FROM aliases {of_chunks}", given):
            extracted[chunk][1].append(Mention(surfaces[long], aliases=(surfaces[short],)))
        for chunk, key, names, stored, is_plain, *fields in stated:
            text = text_of_fact(stored, is_plain, texts[chunk], fields[0], fields[1])
            extracted[chunk][2][key] = fact_of([surfaces[name] for name in names], text, fields, accesses=accesses)
        return extracted

    def facts_of_chunks(self, chunks: Keys) -> list[Row]:
        """Return the facts of chunks in order: chunk, key, names, text, whether it is plain, and ``FACT_COLUMNS``."""
        rows = self.rows(
            f"SELECT c.key, f.key, f.names, f.text, f.is_plain, {FACT_COLUMNS} FROM chunks c "
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
        for document, stored, is_plain, text, names, start, stop, relation, value, last, count in self.rows(
            f"SELECT d.id, f.text, f.is_plain, {self.text}, f.names, f.start, f.stop, f.relation, f.value, "
            f"f.last_accessed, f.access_count FROM {self.facts_of_documents} AND f.access_count > 0 ORDER BY f.key",
            (self.array(document_ids),),
        ):
            keys = self.unpack_names(names)
            known = self.names(keys)
            surfaces = tuple(known[key].surface for key in keys)
            sentence = text_of_fact(stored, is_plain, text, start, stop)
            yield statement(document, sentence, surfaces, relation, value), last, count

    # -- names

    def names(self, keys: Sequence[int]) -> dict[int, Name]:
        """Return names by key. They are cached: a row never changes."""
        cache = self._names
        if len(cache) > _MOST_CACHED:
            cache.clear()
        found = {key: name for key in keys if (name := cache.get(key)) is not None}
        if missing := [key for key in keys if key not in found]:
            sql = (
                f"SELECT n.key, n.surface, n.spelling FROM {self.wanted} names n ON {self.own['n']}n.key = wanted.value"
            )
            rows = self.rows(sql, (self.array(missing),))
            read = {key: Name(surface, normalise(surface), name_id) for key, surface, name_id in rows}
            if not read.keys() >= {*missing}:
                raise damaged("a name is missing")
            cache.update(read)
            found |= read
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
        if scope.key == DOCUMENT_ID:
            sql, parameters = self._id_condition(scope)
            return f"{everything}{sql}", parameters
        sql, parameters = ("1 = 1" if scope.operator == "exists" else "1 = 0"), []
        if scope.operator != "exists" and scope.values:
            sql, parameters = self.attribute_condition(scope, _COMPARE.get(scope.operator, ""))
        named = f"SELECT a.document FROM attributes a WHERE {self.own['a']}a.name = {self.mark} AND {sql}"
        return named, [scope.key, *parameters]

    def _id_condition(self, condition: Condition) -> Query:
        """Return the condition that the id of a document ``d`` has one of some values, or compares with one."""
        if condition.operator == "exists":
            return "1 = 1", []
        ids = [value for kind, value in condition.values if kind == "text"]
        if condition.operator == "in":
            return f"d.id {self.listed_texts}", [self.array(ids)]
        return (f"d.id {_COMPARE.get(condition.operator, '')} {self.mark}", ids) if ids else ("1 = 0", [])

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
            subjects = [row for row in self.mentions(keys) if row[2]] if only != "facts" else []
            facts = self.facts_of_chunks(keys) if only != "chunks" else []
            used = {row[1] for row in subjects}.union(*(fact[2] for fact in facts if fact[7]))  # 7: the relation
            surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
            subjects_of, facts_of = _grouped(subjects), _grouped(facts)
            for key, title, packed, text in page:
                headings = unpack_headings(packed)
                above = label(title, headings)
                texts = [(fact[1], _search_text(fact, above, text, surfaces)) for fact in facts_of[key]]
                defined = [surfaces[row[1]] for row in subjects_of[key]]
                yield key, () if only == "facts" else keyword_fields(title, headings, defined, plain(text)), texts

    # -- verification

    def content_problems(self) -> Iterator[str]:
        """Yield problems: stored names, metadata and terms that differ from those computed again from the rows."""
        wrong = [
            key
            for page in self.pages("SELECT n.key, n.surface, n.spelling FROM names n", "n")
            for key, surface, name_id in page
            if hash64(normalise(surface)) != name_id
        ]
        if wrong:
            yield f"records: {len(wrong)} names are damaged, such as key {min(wrong)}"
        held = f"(SELECT count(*) FROM facts f WHERE {self.own['f']}{self.holds})"
        wrong = [
            key
            for page in self.pages(f"SELECT c.key, c.terms, c.fact_terms, c.tokens, {held} FROM chunks c", "c")
            for key, terms, fact_terms, tokens, count in page
            if not is_packed(terms, fact_terms, count) or len(tokens or b"") % TOKEN_BYTES
        ]
        if wrong:
            yield f"records: the terms or tokens of {len(wrong)} chunks are damaged, such as key {min(wrong)}"
        for page in self.pages("SELECT d.key, d.id, d.metadata FROM documents d", "d"):
            for document_id in self._damaged_metadata(page):
                yield f"records: the metadata of document {document_id!r} is damaged"

    def _damaged_metadata(self, documents: Sequence[Row]) -> Iterator[str]:
        """Yield the ids of documents whose attributes differ from their metadata."""
        stored = _grouped(self.attributes([row[0] for row in documents]))
        for key, document_id, metadata in documents:
            if shallow(metadata) != metadata:  # some of its attributes are not read: the checksums are compared
                continue
            values = attributes(json.loads(metadata))
            if {*stored[key]} != {(key, name, kind, self.stored_value(kind, value)) for name, (kind, value) in values}:
                yield document_id

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
    """Return a filter with its unknown keys marked; the filter itself if all are known."""
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


def shallow(metadata: str) -> str:
    """Return metadata as JSON with "…" for what is nested too deeply. Earlier versions stored it.

    >>> shallow('{"a": [1, "]"]}') == '{"a": [1, "]"]}'
    True
    >>> shallow('{"a":' * 60 + "1" + "}" * 60).count("a")
    50
    """
    if metadata.count("{") + metadata.count("[") <= MAX_METADATA_DEPTH:
        return metadata
    kept, depth, at = list[str](), 0, 0
    for match in _STRING_OR_BRACKET.finditer(metadata):
        if match[0] in "[{":
            depth += 1
            if depth == MAX_METADATA_DEPTH + 1:
                kept += metadata[at : match.start()], '"…"'
        elif match[0] in "]}":
            depth -= 1
            if depth == MAX_METADATA_DEPTH:
                at = match.end()
    return "".join([*kept, metadata[at:]]) if kept else metadata


def _stored_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(f"a value cannot be decoded: {error}") from error


def text_of_fact(stored: str | None, is_plain: bool, text: str, start: int, stop: int) -> str:
    """Return the text of a fact from its row and from the text of its chunk."""
    if stored is not None:
        return stored
    return without_markup(text, start, stop) if is_plain else text[start:stop].replace("\n", " ")


def _search_text(fact: Row, title: str, text: str, surfaces: Mapping[int, str]) -> str:
    """Return the text by which keyword search finds a fact of :meth:`Tables.facts_of_chunks` in a text."""
    _, _, names, stored, is_plain, start, stop, relation, _, _, _, _, value, *_ = fact
    ends = [*(surfaces[name] for name in names), value or ""] if relation else []
    return fact_text(title, text_of_fact(stored, is_plain, text, start, stop), relation or "", ends)


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

    ``pending`` are accesses that are not stored yet (:class:`Accesses`), ``ids`` the ids of the fact and its chunk.
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


def _grouped(rows: Iterable[Row], column: int = 0) -> defaultdict[Any, list[Row]]:
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def _matrix(vectors: dict[int, Matrix], keys: Sequence[int]) -> Matrix | None:
    found = [vectors[key] for key in keys if key in vectors]
    return np.stack(found) if found else None


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

    def files(self) -> list[StoredFile]:
        return self._read(lambda tables: tables.files())

    def documents_of_file(self, path: str) -> dict[str, str]:
        return self._read(lambda tables: tables.documents_of_file(path))

    def chunks_of(self, document_id: str) -> list[Chunk]:
        return self._read(lambda tables: tables.chunks_of(document_id))

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        return self._read(lambda tables: tables.parsed(document_ids, accesses=accesses))

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        return self._read(lambda tables: tables.name_vectors(names))

    def __len__(self) -> int:
        return self._read(lambda tables: tables.count("documents"))

    def _statistics(self, snapshot: "StoreSnapshot", tables: Tables, **counts: Any) -> Stats:
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
