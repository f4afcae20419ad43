"""Rows from documents, and documents, chunks and facts from rows: what both engines store in the same way.

Engines differ in keys, in SQL and in how they pack lists of names. Everything else that a row has is decided here.
"""

import json
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from graphrag_core.engine.analysis import pack_terms
from graphrag_core.engine.copies import signatures
from graphrag_core.errors import ChangedMeanwhile, DocumentError
from graphrag_core.filters import attributes
from graphrag_core.model import Chunk, Document, Extraction, Fact, FactSource, FactStatus, Mark, Mention, Stats
from graphrag_core.ports import Matrix, ParsedDocument, Snapshot
from graphrag_core.text import REFERS_TO, chunk_text, fact_text, label
from graphrag_core.text.markup import plain

Row = tuple[Any, ...]
ADDRESS = "→"
"""Starts the names of places that links lead to."""

LETTERS = {word: word[0] for word in (*get_args(FactSource), *get_args(FactStatus))}
"""How the sources and statuses of facts are stored."""
SOURCES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactSource)}
STATUSES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactStatus)}

Texts = tuple[str, ...]
"""The texts of the fields, body first; missing fields are empty."""

FIELDS = {"body": 1.0, "title": 0.4, "headings": 0.2, "terms": 0.5}
"""The fields of a text and the weight of a term's BM25 score in each.

The body has title and headings too: a term's score in the other fields comes on top. Measured on documentation and on
passages with titles, where 0.3 to 0.6 for the title is best.
"""

FACT_COLUMNS = (
    "f.start, f.stop, f.relation, f.weight, f.confidence, f.source, f.status, f.value, f.created, f.last_accessed, "
    "f.access_count, f.valid_from, f.valid_to"
)
"""The columns of the table of facts that have the same values in both engines."""

_TOP = 5  # entities in the statistics


# -- documents to rows


class FactRow(NamedTuple):
    """A fact as it is stored, with names instead of keys.

    Attributes
    ----------
    text
        None for the slice of the chunk's text from ``start`` to ``stop`` with spaces for newlines.
    is_plain
        Whether ``text`` is that slice without markup. Then it need not be stored.
    names
        The names of its entities. Those that no chunk of the batch mentions are left out.
    columns
        The columns from the relation to the end of its validity.
    search_text
        The text that is embedded and searched.
    """

    start: int | None
    stop: int | None
    text: str | None
    is_plain: bool
    names: list[str]
    columns: Row
    search_text: str


class ChunkRows(NamedTuple):
    """A chunk as it is stored, with names instead of keys.

    Attributes
    ----------
    subjects
        How many of the chunk's names are its subjects; they come first.
    fields
        The fields of keyword search.
    terms, near, fact_terms
        The packed terms of the chunk, its signatures, and the packed terms of its facts.
    claims, aliases
        The names, types and descriptions that the chunk gives entities; short and long names.
    """

    chunk: Chunk
    names: Mapping[str, bool]
    subjects: int
    headings: str | None
    fields: Texts
    terms: bytes
    near: Sequence[int]
    fact_terms: bytes | None
    claims: list[tuple[str, str, str]]
    aliases: list[tuple[str, str]]
    facts: list[FactRow]


def document_row(key: int, parsed: ParsedDocument, generation: int, now: float) -> Row:
    """Return the row of a document. The title of its chunks is null if it is the document's own."""
    document, heading = parsed.document, parsed.chunks[0].title
    marks = [(mark.kind, mark.start, mark.end, mark.value) for mark in document.marks]
    packed = zlib.compress(json.dumps(marks, ensure_ascii=False, separators=(",", ":")).encode()) if marks else None
    title = document.title
    own = None if heading == title else heading
    return key, document.id, title, own, parsed.metadata, parsed.digest, generation, now, packed


def chunk_rows(parsed: ParsedDocument, known: Container[str]) -> Iterator[ChunkRows]:
    """Yield the chunks of a document as they are stored. ``known`` are the names that the chunks of a batch mention."""
    heading = parsed.chunks[0].title
    for chunk, extraction, names in zip(parsed.chunks, parsed.extractions, parsed.names, strict=True):
        subjects = [name for name, is_subject in names.items() if is_subject]
        fields = keyword_fields(heading, chunk.headings, subjects, chunk.text)
        title = label(heading, chunk.headings)
        terms, fact_terms = pack_terms(fields[0], [fact.text for fact in extraction.facts])
        mentions = [mention for mention in extraction.mentions if mention.name in known]
        yield ChunkRows(
            chunk,
            names,
            len(subjects),
            json.dumps(chunk.headings, ensure_ascii=False, separators=(",", ":")) if chunk.headings else None,
            fields,
            terms,
            signatures(title, plain(chunk.text)),
            fact_terms,
            [(one.name, one.type, one.description) for one in mentions if one.type or one.description],
            [(alias, one.name) for one in mentions for alias in one.aliases if alias in known],
            [_fact_row(fact, title, chunk.text, known) for fact in extraction.facts],
        )


def _fact_row(fact: Fact, title: str, text: str, known: Container[str]) -> FactRow:
    names = [name for name in fact.entities if name in known]
    if not fact.relation:  # a triple may have the same entity at both ends
        names = [*dict.fromkeys(names)]
    start, stop = fact.span or (None, None)
    is_slice = fact.span is not None and text[start:stop].replace("\n", " ") == fact.text
    is_plain = fact.span is not None and not is_slice and without_markup(text, *fact.span) == fact.text
    columns = (
        fact.relation or None, fact.weight, fact.confidence, LETTERS.get(fact.source, fact.source),
        LETTERS.get(fact.status, fact.status), fact.value or None, fact.created, fact.last_accessed,
        fact.access_count, fact.valid_from, fact.valid_to,
    )  # fmt: skip
    search_text = fact_text(title, fact.text, fact.relation, (*fact.entities, fact.value))
    return FactRow(start, stop, None if is_slice else fact.text, is_plain, names, columns, search_text)


def without_markup(text: str, start: int, stop: int) -> str:
    """Return a slice of a text as one line of prose."""
    return " ".join(plain(text[start:stop]).split())


def keyword_fields(title: str, headings: Sequence[str], subjects: Iterable[str], text: str) -> Texts:
    """Return the fields by which keyword search finds a chunk: body, title, headings and what the chunk defines.

    What a chunk defines are its subjects besides title and headings. The addresses of sections are left out.
    """
    path = " - ".join(filter(None, (title, *headings)))
    terms = [name for name in subjects if name not in path and not name.startswith(ADDRESS)]
    return chunk_text(path, plain(text)), title, " - ".join(headings), "\n".join(terms)


# -- rows to documents


def unpack_headings(text: str | None) -> tuple[str, ...]:
    """Return the headings above a chunk as they are stored."""
    return () if text is None else tuple(json.loads(text))


def chunk_of(row: Row) -> Chunk:
    """Return the chunk of a row that ``CHUNK`` selects."""
    _, chunk_id, document_id, text, title, ordinal, start, metadata, headings, page = row
    return Chunk(
        chunk_id, document_id, text, title, ordinal, start, json.loads(metadata), unpack_headings(headings), page
    )


def text_of_fact(own: str | None, is_plain: bool, text: str, start: int, stop: int) -> str:
    """Return the text of a fact from its row and its chunk's text."""
    if own is not None:
        return own
    return without_markup(text, start, stop) if is_plain else text[start:stop].replace("\n", " ")


def fact_search_text(
    title: str, headings: str | None, text: str, relation: str | None, names: Iterable[str], value: str | None
) -> str:
    """Return the text under which a stored fact is indexed. ``title`` and ``headings`` are those of its chunk."""
    ends = [*names, value or ""] if relation else []
    return fact_text(label(title, unpack_headings(headings)), text, relation or "", ends)


def document_of(row: Row, chunks: Iterable[Chunk]) -> Document:
    """Return a document from its id, title, metadata and marks, and from its chunks in order, which may overlap."""
    document_id, title, metadata, packed = row
    pieces, end = [], 0
    for chunk in chunks:
        pieces.append(chunk.text[end - chunk.start :])
        end += len(pieces[-1])
    marks = () if packed is None else tuple(Mark(*mark) for mark in json.loads(zlib.decompress(packed)))
    return Document(document_id, "".join(pieces), title, json.loads(metadata), marks)


class DocumentTables(NamedTuple):
    """The rows of some documents, in order, and the surfaces of their names and the vectors by key.

    ``documents`` have id, title, metadata, marks and digest, ``chunks`` the columns of :func:`chunk_of`. ``mentions``
    (name, whether it is a subject), ``claims`` (name, type, description), ``aliases`` (short, long) and ``facts`` (key,
    names, text and ``FACT_COLUMNS``) start with the key of their chunk.
    """

    documents: Sequence[Row]
    chunks: Sequence[Row]
    mentions: Sequence[Row]
    claims: Sequence[Row]
    aliases: Sequence[Row]
    facts: Sequence[Row]
    surfaces: Mapping[int, str]
    chunk_vectors: Mapping[int, Matrix]
    fact_vectors: Mapping[int, Matrix]

    def parsed(self, document_ids: Iterable[str], *, accesses: bool) -> list[ParsedDocument]:
        """Return documents as they were written, in the order given. Those without a row are left out."""
        documents = {row[0]: row for row in self.documents}
        chunks = _grouped(self.chunks, 2)
        grouped = tuple(_grouped(table, 0) for table in (self.mentions, self.claims, self.aliases, self.facts))
        return [
            self._parsed(documents[one], sorted(chunks[one], key=lambda row: row[5]), grouped, accesses=accesses)
            for one in document_ids
            if one in documents
        ]

    def _parsed(self, row: Row, chunk_rows: Sequence[Row], grouped: Sequence[Any], *, accesses: bool) -> ParsedDocument:
        mentions_of, claims_of, aliases_of, facts_of = grouped
        surfaces, names, extractions = self.surfaces, [], []
        for chunk in (row[0] for row in chunk_rows):
            names.append({surfaces[name]: bool(is_subject) for _, name, is_subject in mentions_of[chunk]})
            mentions = [Mention(surfaces[name], kind, text) for _, name, kind, text in claims_of[chunk]]
            mentions += [Mention(surfaces[long], aliases=(surfaces[short],)) for _, short, long in aliases_of[chunk]]
            facts = tuple(
                fact_of([surfaces[name] for name in own], text, columns, accesses=accesses)
                for _, _, own, text, *columns in facts_of[chunk]
            )
            extractions.append(Extraction(tuple(mentions), facts))
        chunks = [chunk_of(row) for row in chunk_rows]
        fact_keys = [fact[1] for row in chunk_rows for fact in facts_of[row[0]]]
        chunk_vectors = _matrix(self.chunk_vectors, [row[0] for row in chunk_rows])
        fact_vectors = _matrix(self.fact_vectors, fact_keys)
        if chunk_vectors is not None and not fact_keys:
            fact_vectors = np.empty((0, chunk_vectors.shape[1]), np.float32)
        return ParsedDocument(
            document_of(row[:4], chunks), row[2], row[4], chunks, extractions, names, chunk_vectors, fact_vectors
        )


def fact_of(
    names: Iterable[str],
    text: str,
    columns: Sequence[Any],
    *,
    accesses: bool = True,
    pending: tuple[int, float] | None = None,
    ids: tuple[str, str] = ("", ""),
) -> Fact:
    """Return a fact from its names, its text and ``FACT_COLUMNS``; without ``accesses`` as if it was never used.

    ``pending`` are accesses that are not stored yet (:class:`Accesses`), ``ids`` those of the fact and of its chunk.
    """
    start, stop, relation, weight, confidence, source, status, value, created, last, count, *valid = columns
    if pending is not None:
        more, last = pending
        count += more
    return Fact(
        tuple(names), text, relation or "", weight, confidence, SOURCES.get(source, source),
        STATUSES.get(status, status), value or "", created, last if accesses or not count else None,
        count if accesses else 0, None if start is None else (start, stop), *ids, *valid,
    )  # fmt: skip


def _grouped(rows: Iterable[Row], column: int) -> defaultdict[Any, list[Row]]:
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found


def _matrix(vectors: Mapping[int, Matrix], keys: Sequence[int]) -> Matrix | None:
    found = [vectors[key] for key in keys if key in vectors]
    return np.stack(found) if found else None


# -- writing


def check_expected(stored: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise if a setting has not the value that a writer expects."""
    for name, value in expected.items():
        if stored.get(name, "") != value:
            raise ChangedMeanwhile(
                f"another process has changed the setting {name!r} meanwhile: read it again and retry"
            )


def check_unique(ids: Sequence[str], stored: Iterable[str], *, of_chunks: bool = False) -> None:
    """Raise if an id of a document or a chunk comes twice in a batch, or is stored already."""
    seen = set(stored)
    for one in ids:
        if one in seen:
            if of_chunks:
                raise DocumentError(one, "another document has a chunk of this id: change one of the two ids")
            raise DocumentError(one, "is already stored: remove it in the same write")
        seen.add(one)


class Accesses:
    """Access counts of facts, kept in memory until the next write, so that no query writes to disk.

    A process that crashes loses the counts it has not written; a read-only engine never writes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.pending: dict[int, tuple[int, float]] = {}  # count and last access by fact

    def note(self, facts: Iterable[int], now: float) -> None:
        """Count an access of each fact, given by key."""
        with self._lock:
            for fact in facts:
                count, last = self.pending.get(fact, (0, now))
                self.pending[fact] = (count + 1, max(last, now))

    def take(self) -> dict[int, tuple[int, float]]:
        """Return the counts that were not written yet, and forget them."""
        with self._lock:
            pending, self.pending = self.pending, {}
        return pending


def statement(document: str, text: Hashable, names: Hashable, relation: str | None, value: str | None) -> Hashable:
    """Return what a fact of a document states: equal for a sentence of the same text, and for the same triple."""
    return (document, names, relation, value or "") if relation else (document, text)


def kept_accesses(
    before: Iterable[tuple[Hashable, float | None, int]], after: Iterable[tuple[int, Hashable]]
) -> dict[int, tuple[int, float]]:
    """Return the accesses of facts of replaced documents that are stated again, as :meth:`Accesses.take` does.

    ``before`` are statements with their last access and access count, ``after`` keys of new facts with their statement.
    """
    accesses: defaultdict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for stated, last, count in before:
        accesses[stated].append((count, last or 0.0))
    return {key: accesses[stated].pop(0) for key, stated in after if accesses.get(stated)}


# -- statistics and checks


def statistics(snapshot: Snapshot, settings: Mapping[str, str], relations: Mapping[str, int], **counts: Any) -> Stats:
    """Return the statistics of an index. ``relations`` counts all triples, ``counts`` are the other fields."""
    top = snapshot.entities(snapshot.top_entities(_TOP))
    return Stats(
        relations={name: count for name, count in relations.items() if name != REFERS_TO},
        links=relations.get(REFERS_TO, 0),
        dim=int(settings.get("dim", "0")),
        embedder=settings.get("embedder", ""),
        generation=snapshot.generation,
        top_entities=tuple((entity.name, entity.mentions) for entity in top),
        **counts,
    )


def metadata_problems(
    documents: Iterable[Row], stored: Iterable[Row], as_stored: Callable[[str, Any], Any]
) -> Iterator[str]:
    """Yield the documents whose rows of attributes are not those of their metadata.

    ``documents`` have key, id and metadata, ``stored`` the key of the document, name, kind and value of an attribute.
    ``as_stored`` returns a value, given its kind, as it is stored.
    """
    found = _grouped(stored, 0)
    for key, document_id, metadata in documents:
        wanted = {(name, kind, as_stored(kind, value)) for name, (kind, value) in attributes(json.loads(metadata))}
        if {row[1:] for row in found[key]} != wanted:
            yield f"records: the metadata of document {document_id!r} is damaged"
