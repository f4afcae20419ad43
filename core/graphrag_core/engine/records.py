"""The rows of an index: the schema and all SQL.

Rows of documents, passages, facts and names are written once and never changed, but for the counters ``uses``,
``access_count`` and ``last_accessed``. Keys ascend in the order of commits and are never used again. The passages of a
document have consecutive keys from ``documents.first`` on; the key of a fact is that of its passage and its number in
the passage.

A name is what a document writes ("Auth Service"), together with the entity that it means there: ``spelling`` is the
hash of the normalised name, ``entity`` that of the name that it is short for, if it is. ``passages.names`` and
``facts.names`` are packed keys of names; the first ``passages.subjects`` names of a passage are what it is about.

``segments`` has a row for each write since the base was written: the arrays that it added, and the passages that it
removed. Other processes follow it. Each passage has a checksum, each document one of its row and facts, ``meta`` one.
"""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from graphrag_core.engine.arrays import Arrays, pack, unpack
from graphrag_core.engine.rows import (
    Name,
    Row,
    RowCache,
    checksum,
    chunk_of,
    damaged,
    decoded,
    document_of,
    fact_of,
    from_json,
    storable,
    unpack_names,
    unpacked,
)
from graphrag_core.engine.schema import LISTED, WANTED
from graphrag_core.engine.segments import FACT_BITS, LENGTHS, Accessed, Assigned, Batch, name_of
from graphrag_core.engine.view import Removal, Stored
from graphrag_core.errors import ChangedMeanwhile, IdTaken
from graphrag_core.filters import DOCUMENT_ID
from graphrag_core.key_sets import ranges
from graphrag_core.model import Chunk, Document, Extraction, Fact, FileMark, Mention
from graphrag_core.ports import Keys, Matrix, ParsedDocument, StoredFile
from graphrag_core.text import normalise, plain_runs

_T = TypeVar("_T")

INTERNAL = frozenset(("generation", "token", "base", "checksum", "next_document", "next_passage", "next_name"))
"""The names in ``meta`` that are not settings of a caller."""

_PAGE = 1_000
_MOST_CACHED = {"chunks": 10_000, "names": 50_000}
_CHUNK = "p.key, p.id, d.id, p.text, coalesce(d.heading, d.title), p.ordinal, p.start, d.metadata, p.headings, p.page"
_OF_DOCUMENT = "documents d CROSS JOIN passages p ON p.key >= d.first AND p.key < d.first + d.passages"
_FACTS = (
    "f.key, f.start, f.stop, f.text, f.is_plain, f.names, f.relation, f.weight, f.confidence, f.source, f.status, "
    "f.value, f.created, f.valid_from, f.valid_to, f.last_accessed, f.access_count"
)
_PUT = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_TAKEN = {
    "documents": "is already stored: remove it in the same write",
    "passages": "another document has a chunk of this id: change one of the two ids",
}


class Records(ABC):
    """The rows, as one transaction sees them: what the sessions of both databases share.

    Statements are written for SQLite. :mod:`~graphrag_core.engine.statements` has them for PostgreSQL. A parameter that
    is a list, a set or an array of values belongs to ``LISTED`` or ``WANTED``.
    """

    shared = False
    """Whether other processes may write."""

    cache: RowCache
    _meta: dict[str, str] | None = None
    definitions: Sequence[Row] = ()
    """The definitions of the tables, if the database may lose them."""

    @abstractmethod
    def restart(self) -> None:
        """See the last commit."""

    @abstractmethod
    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a statement."""

    @abstractmethod
    def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows. Raise ``Unstorable``, now or later in the transaction, if the database cannot store a value."""

    @abstractmethod
    def base(self, name: str) -> tuple[Path | None, dict[str, Any], Arrays]:
        """Return the file of a base, its properties and its arrays."""

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Return the bytes on disk, and of rows in memory."""

    def problems(self) -> list[Row]:
        """Return what the database finds damaged."""
        return []

    def _of_keys(self, columns: str, table: str, keys: Iterable[int]) -> dict[int, Row]:
        """Return columns of the rows of a table, by key, which is the first column. All must be there."""
        wanted = {*keys}
        sql = f"SELECT {columns} FROM {WANTED} {table} ON {table[-1]}.key = wanted.value"
        found = {row[0]: row for row in self.rows(sql, wanted)}
        if len(found) < len(wanted):
            raise damaged(f"a row of {table[:-2]} is missing")
        return found

    def _cached(self, kind: str, keys: Sequence[int], read: Callable[[list[int]], dict[int, _T]]) -> dict[int, _T]:
        """Return values of rows by key, of which the unknown ones are read."""
        known: dict[int, _T] = getattr(self.cache, kind)
        found = {key: one for key in keys if (one := known.get(key)) is not None}  # another thread may clear the cache
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            new = read(missing)
            if len(known) > _MOST_CACHED[kind]:
                known.clear()
            known.update(new)
            found.update(new)
        return {key: found[key] for key in keys}

    # -- settings and generations

    def meta(self) -> dict[str, str]:
        """Return all settings, including internal ones. They are read once."""
        if self._meta is None:
            self._meta = dict(self.rows("SELECT name, value FROM meta"))
        return self._meta

    def generation(self) -> tuple[int, str]:
        """Return the number of changes, and the token of the last one."""
        meta = self.meta()
        return int(meta.get("generation", "0")), meta.get("token", "")

    def segments(self, after: int) -> list[Stored]:
        """Return the changes since a generation, oldest first. Raise ``ValueError`` if one is damaged."""
        sql = (
            "SELECT generation, previous, token, arrays, removed, checksum FROM segments WHERE generation > ? "
            "ORDER BY generation"
        )
        found = []
        for generation, previous, token, arrays, removed, expected in self.rows(sql, after):
            if zlib.crc32(removed, zlib.crc32(arrays)) != expected:
                raise ValueError(f"segment {generation} is damaged")
            removal = Removal(**unpack(removed)) if removed else Removal.none()
            found.append(Stored(generation, previous, token, unpack(arrays) if arrays else None, removal))
        return found

    def set_base(self, generation: int, name: str) -> None:
        """Name the valid base, if it has a name; drop the segments that it has."""
        if name:
            changed = {"base": name, "checksum": self.meta_checksum({**self.meta(), "base": name})}
            self.many(_PUT, [*changed.items()])
        self.rows("DELETE FROM segments WHERE generation <= ?", generation)

    def meta_checksum(self, meta: Mapping[str, str]) -> str:
        """Return the checksum of settings and of the definitions of the tables."""
        checked = sorted((name, value) for name, value in meta.items() if name != "checksum")
        return str(checksum((checked, [*self.definitions])))

    # -- writing

    def store(
        self, batch: Batch, removed: Sequence[str], name_vectors: Mapping[str, Matrix], settings: Mapping[str, str],
        expected: Mapping[str, str], accesses: Mapping[int, tuple[int, float]], token: str,
    ) -> Stored:  # fmt: skip
        """Remove documents, add a batch, store settings and accesses, and write the segment."""
        meta = self.meta()
        for name, value in expected.items():
            if meta.get(name, "") != value:
                raise ChangedMeanwhile(
                    f"another process has changed the setting {name!r} meanwhile: read it again and retry"
                )
        self.many(
            "UPDATE facts SET access_count = access_count + ?, last_accessed = "
            "CASE WHEN last_accessed > ? THEN last_accessed ELSE ? END WHERE key = ?",
            [(count, last, last, fact) for fact, (count, last) in accesses.items()],
        )
        removal, released, before = self._remove(removed) if removed else (Removal.none(), [], {})
        changed, segment = {**settings}, None
        if batch.passages:
            keys, added = self._assigned(batch)
            self._insert(batch, keys, name_vectors, before)
            segment = batch.segment(keys)
            changed |= added
        if released:
            unused = self.rows(f"SELECT key FROM names WHERE key {LISTED} AND uses <= 0", released)
            self.many("DELETE FROM name_vectors WHERE key = ?", unused)
            self.many("DELETE FROM names WHERE key = ?", unused)
        generation, previous = int(meta.get("generation", "0")) + 1, meta.get("token", "")
        if self.shared:  # no other state has it, also if a backup was restored meanwhile
            generation = max(generation, time.time_ns() // 1_000)
        changed |= {"generation": str(generation), "token": token}
        changed["checksum"] = self.meta_checksum({**meta, **changed})
        self.many(_PUT, [*changed.items()])
        arrays = pack(segment) if segment is not None else b""
        lost = pack(removal._asdict()) if len(removal.passages) else b""
        row = generation, previous, token, arrays, lost, zlib.crc32(lost, zlib.crc32(arrays))
        self.insert("segments", [row])
        return Stored(generation, previous, token, segment, removal)

    def _remove(self, document_ids: Sequence[str]) -> tuple[Removal, list[int], Accessed]:
        """Delete documents; return their passages, the names that they used, and the accesses of their facts."""
        sql = f"SELECT key, first, passages FROM documents WHERE id {LISTED} ORDER BY first"
        if not (documents := self.rows(sql, document_ids)):
            return Removal.none(), [], {}
        keys, spans = [row[0] for row in documents], [(first, first + count) for _, first, count in documents]
        accesses: defaultdict[tuple[str, str, str, str], list[tuple[float | None, int]]] = defaultdict(list)
        rows = self.rows(
            f"SELECT {_FACTS} FROM documents d CROSS JOIN facts f ON f.key >= d.first << {FACT_BITS} "
            f"AND f.key < (d.first + d.passages) << {FACT_BITS} WHERE d.key {LISTED} AND f.access_count > 0 "
            "ORDER BY f.key",
            keys,
        )
        for row, chunk in zip(rows, self.chunks([row[0] >> FACT_BITS for row in rows]), strict=True):
            fact = fact_of(row, chunk.text)
            stated = chunk.document_id, fact.text, fact.relation, fact.value
            accesses[stated].append((fact.last_accessed, fact.access_count))
        passages = self.rows(f"SELECT p.names, p.lengths FROM {_OF_DOCUMENT} WHERE d.key {LISTED}", keys)
        released = Counter(unpack_names(b"".join(row[0] for row in passages)))
        lengths = np.array([LENGTHS.unpack(row[1]) for row in passages], np.int64).sum(axis=0)
        many = self.many
        many("DELETE FROM facts WHERE key >= ? AND key < ?", [(a << FACT_BITS, b << FACT_BITS) for a, b in spans])
        many("DELETE FROM claims WHERE passage >= ? AND passage < ?", spans)
        many("DELETE FROM passages WHERE key >= ? AND key < ?", spans)
        many("DELETE FROM attributes WHERE document = ?", [(key,) for key in keys])
        many("DELETE FROM documents WHERE key = ?", [(key,) for key in keys])
        many("UPDATE names SET uses = uses - ? WHERE key = ?", [(count, key) for key, count in released.items()])
        first, count = (np.array([row[at] for row in documents], np.int64) for at in (1, 2))
        return Removal(ranges(first, count), np.asarray(lengths)), [*released], accesses

    def _assigned(self, batch: Batch) -> tuple[Assigned, dict[str, str]]:
        """Return the keys of what a batch adds, and the next ones."""
        meta = self.meta()
        document, passage, name = (int(meta.get(f"next_{kind}", "0")) for kind in ("document", "passage", "name"))
        sql = f"SELECT surface, entity, key FROM names WHERE spelling {LISTED}"
        known = {(surface, entity): key for surface, entity, key in self.rows(sql, {f.name_id for f in batch.forms})}
        names = np.array([known.get(own, -1) for own in batch.names], np.int64)
        is_new = names < 0
        names[is_new] = np.arange(name, name + int(is_new.sum()))
        counts = np.array([len(one.chunks) for one in batch.parsed], np.int64)
        following = document + len(counts), passage + len(batch.passages), name + int(is_new.sum())
        keys = Assigned(np.arange(document, following[0]), passage + counts.cumsum() - counts, names, is_new)
        kinds = ("next_document", "next_passage", "next_name")
        return keys, dict(zip(kinds, map(str, following), strict=True))

    def _insert(self, batch: Batch, keys: Assigned, name_vectors: Mapping[str, Matrix], accesses: Accessed) -> None:
        """Insert the rows of a batch. Raise ``IdTaken`` if an id comes twice, or is stored already."""
        ids = {
            "documents": [one.document.id for one in batch.parsed],
            "passages": [one.chunk.id for one in batch.passages],
        }
        sql = " UNION ALL ".join(f"SELECT '{kind}', id FROM {kind} WHERE id {LISTED}" for kind in ids)
        seen = {*self.rows(sql, *ids.values())}
        for kind, one in [(kind, one) for kind, own in ids.items() for one in own]:
            if (kind, one) in seen:
                raise IdTaken(one, _TAKEN[kind])
            seen.add((kind, one))
        for table, rows in batch.rows(keys, accesses, name_vectors).items():
            self.insert(table, rows)
        known = [(batch.uses[at], int(keys.names[at])) for at in np.flatnonzero(~keys.is_new).tolist()]
        self.many("UPDATE names SET uses = uses + ? WHERE key = ?", known)

    # -- documents

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist."""
        return dict(self.rows(f"SELECT id, digest FROM documents WHERE id {LISTED}", storable(document_ids)))

    def document_ids(self, after: str, scope: Keys | None) -> list[str]:
        """Return a page of ids of documents in order, after an id; all of a scope, which are keys of documents."""
        if scope is not None:
            sql = f"SELECT id FROM documents WHERE key {LISTED} AND id > ? ORDER BY id"
            return [row[0] for row in self.rows(sql, scope, after)]
        sql = f"SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT {_PAGE}"
        page = [row[0] for row in self.rows(sql, after)]
        if page and page[-1] <= after:
            raise damaged("documents are not in the order of their ids")
        return page

    def document(self, document_id: str) -> Document | None:
        """Return a document, put together from its passages."""
        sql = f"SELECT id, title, metadata FROM documents WHERE id {LISTED}"
        rows = self.rows(sql, storable([document_id]))
        return document_of(rows[0], self.chunks_of(document_id)) if rows else None

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's passages, in order."""
        sql = f"SELECT {_CHUNK} FROM {_OF_DOCUMENT} WHERE d.id {LISTED} ORDER BY p.key"
        return [chunk_of(row) for row in self.rows(sql, storable([document_id]))]

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors, in the order asked for."""
        rows = self.parsed_where(f"d.id {LISTED}", storable(document_ids), accesses=accesses)
        found = {one.document.id: one for _, _, one in rows}
        return [found[document_id] for document_id in document_ids if document_id in found]

    def document_pages(self, columns: str) -> Iterator[list[Row]]:
        """Yield rows of documents in order of key, in pages; the key is the first column."""
        last = -1
        while page := self.rows(f"SELECT {columns} FROM documents WHERE key > ? ORDER BY key LIMIT {_PAGE}", last):
            if page[-1][0] <= last:
                raise damaged("documents are not in the order of their keys")  # reading on might never end
            yield page
            last = page[-1][0]

    def parsed_where(
        self, where: str, *parameters: Any, accesses: bool = False
    ) -> list[tuple[int, int, ParsedDocument]]:
        """Return some documents in order of key: the key, that of the first passage, and the document."""
        columns = "d.key, d.first, d.passages, d.file, d.version, d.id, d.title, d.metadata, d.digest"
        documents = self.rows(f"SELECT {columns} FROM documents d WHERE {where} ORDER BY d.key", *parameters)
        columns = "p.subjects, p.names, p.aliases, p.vector, p.tokens, p.token_counts"
        sql = f"SELECT {_CHUNK}, {columns} FROM {_OF_DOCUMENT} WHERE {where} ORDER BY p.key"
        passages = {row[0]: (chunk_of(row[:10]), *row[10:]) for row in self.rows(sql, *parameters)}
        extracted = self._extracted(passages, accesses) if passages else {}
        found = []
        for key, first, number, file, version, *own, digest in documents:
            keys = range(first, first + number)
            chunks, _, _, _, codes, tokens, counts = (
                [*column] for column in zip(*(passages[passage] for passage in keys), strict=True)
            )
            document = document_of(own, chunks, None if file is None else FileMark(file, version))
            parts = [extracted[passage] for passage in keys]
            parsed = ParsedDocument(
                document, own[2], digest, chunks, [part for part, _ in parts], [names for _, names in parts],
                decoded("chunks", codes) if None not in codes else None,
                [unpacked(one) for one in tokens] if None not in tokens else None,
                counts if None not in counts else None,
            )  # fmt: skip
            found.append((key, first, parsed))
        return found

    def _extracted(self, passages: Mapping[int, Row], accesses: bool) -> dict[int, tuple[Extraction, dict[str, bool]]]:
        """Return for passages what was extracted, and the names that each mentions.

        A row has the passage, the number of its subjects, its names and its aliases first.
        """
        names = {key: unpack_names(row[2]) for key, row in passages.items()}
        facts = self.rows(
            f"SELECT {_FACTS} FROM {WANTED} facts f ON "
            f"f.key >= wanted.value << {FACT_BITS} AND f.key < (wanted.value + 1) << {FACT_BITS} ORDER BY f.key",
            [*passages],
        )
        held = {row[0]: unpack_names(row[5]) for row in facts}
        used = set(chain(*names.values(), *held.values()))
        surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
        stated: defaultdict[int, list[Fact]] = defaultdict(list)
        for row in facts:
            ends = [surfaces[name] for name in held[row[0]]]
            passage = row[0] >> FACT_BITS
            stated[passage].append(fact_of(row, passages[passage][0].text, ends, accesses=accesses))
        mentions: defaultdict[int, list[Mention]] = defaultdict(list)
        sql = f"SELECT passage, name, type, description FROM claims WHERE passage {LISTED} ORDER BY passage, rowid"
        for passage, name, kind, description in self.rows(sql, [*passages]):
            mentions[passage].append(Mention(surfaces[name], kind, description))
        found = {}
        for key, (_, subjects, _, aliases, *_) in passages.items():
            mentions[key] += [Mention(long, aliases=(short,)) for short, long in from_json(aliases or "[]")]
            written = {surfaces[name]: at < subjects for at, name in enumerate(names[key])}
            found[key] = Extraction(tuple(mentions[key]), tuple(stated[key])), written
        return found

    def files(self) -> list[StoredFile]:
        """Return the files that documents were read from, in order of path."""
        rows = self.rows(
            "SELECT file, min(id), count(*), min(version), max(version), min(digest) FROM documents "
            "WHERE file IS NOT NULL GROUP BY file ORDER BY file"
        )
        found = []
        for path, document, count, low, high, digest in rows:
            version, _, documents = high.partition(":")
            is_whole = digest and documents == str(count) and low.partition(":")[0] == version
            found.append(StoredFile(path, document, count, version if is_whole else ""))
        return found

    def documents_of_file(self, path: str) -> dict[str, str]:
        """Return the versions of a file's documents, by id."""
        return dict(self.rows("SELECT id, version FROM documents WHERE file = ? ORDER BY id", path))

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        """Store the files that documents were read from, by id."""
        self.many(
            "UPDATE documents SET file = ?, version = ? WHERE id = ? AND "
            "(coalesce(file, '') <> ? OR coalesce(version, '') <> ?)",
            [(*mark, document_id, *mark) for document_id, mark in marks.items()],
        )

    # -- passages, facts and names

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """Return passages in the order given."""

        def read(missing: list[int]) -> dict[int, Chunk]:
            columns = f"{_CHUNK}, t.*".replace("p.", "t.")
            sql = f"SELECT {columns} FROM {WANTED} passages t ON t.key = wanted.value "
            rows = self.rows(f"{sql} JOIN documents d ON d.key = t.document", missing)
            if len(rows) < len(missing):
                raise damaged("a passage is missing")
            if any(checksum(row[10:-1]) != row[-1] for row in rows):
                raise damaged("the row of a passage differs from its checksum")
            return {row[0]: chunk_of(row[:10]) for row in rows}

        found = self._cached("chunks", keys, read)
        return [found[key] for key in keys]

    def names(self, keys: Sequence[int]) -> dict[int, Name]:
        """Return names by key."""

        def read(missing: list[int]) -> dict[int, Name]:
            rows = self._of_keys("n.key, n.surface, n.spelling", "names n", missing)
            return {key: Name(surface, normalise(surface), spelling) for key, surface, spelling in rows.values()}

        return self._cached("names", keys, read)

    def keys_of_passages(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the keys of passages, by id."""
        return dict(self.rows(f"SELECT id, key FROM passages WHERE id {LISTED}", storable(ids)))

    def keys_in_order(self) -> Keys:
        """Return the keys of all passages, in the order of ids."""
        rows = self.rows("SELECT group_concat(key) FROM (SELECT key FROM passages ORDER BY id)")
        return np.fromstring(rows[0][0] or "", np.int64, sep=",") if rows[0][0] else np.empty(0, np.int64)

    def vectors(self, keys: Keys) -> Matrix | None:
        """Return the vectors of passages, zero for those that were deleted since; None if there are none."""
        rows = self.rows(f"SELECT key, vector FROM passages WHERE key {LISTED}", keys)
        found = {key: code for key, code in rows if code is not None}
        if not found:
            return None
        none = bytes(len(next(iter(found.values()))))
        return decoded("chunks", [found.get(key, none) for key in keys.tolist()])

    def facts(self, keys: Sequence[int]) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities and with ids, in the order given."""
        rows = self._of_keys(_FACTS, "facts f", keys)
        found = []
        for key, chunk in zip(keys, self.chunks([key >> FACT_BITS for key in keys]), strict=True):
            fact_id = f"{chunk.id}/{key & ((1 << FACT_BITS) - 1)}"
            fact = fact_of(rows[key], chunk.text, fact_id=fact_id, chunk_id=chunk.id)
            found.append((unpack_names(rows[key][5]), fact))
        return found

    def _keys_of_names(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the keys of names that passages mention: one for each entity that a name means."""
        found: dict[str, list[int]] = {name: [] for name in names}
        sql = f"SELECT surface, key FROM names WHERE spelling {LISTED}"
        for surface, key in self.rows(sql, {name_of(name).name_id for name in found}):
            if surface in found:
                found[surface].append(key)
        return found

    def new_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that no passage mentions, each once."""
        return [name for name, keys in self._keys_of_names(names).items() if not keys]

    def keys_of_name(self, name: str) -> list[int]:
        """Return the keys of a name: one for each entity that it means."""
        return self._keys_of_names([name])[name]

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of names that have one."""
        owner = {key: name for name, own in self._keys_of_names(names).items() for key in own}
        rows = self.rows(f"SELECT key, vector FROM name_vectors WHERE key {LISTED}", [*owner])
        matrix = decoded("names", [code for _, code in rows])
        return {owner[key]: vector for (key, _), vector in zip(rows, matrix, strict=True)} if matrix is not None else {}

    def all_name_vectors(self, after: int) -> tuple[Keys, Matrix | None]:
        """Return the keys of names with a vector that are greater than one, ascending, and the vectors."""
        rows = self.rows("SELECT key, vector FROM name_vectors WHERE key > ? ORDER BY key", after)
        return np.array([row[0] for row in rows], np.int64), decoded("names", [row[1] for row in rows])

    def claims(self, names: Sequence[int]) -> list[tuple[int, int, str, str]]:
        """Return the types and descriptions that passages give to names: passage, name, type, description."""
        rows: list[Any] = self.rows(f"SELECT passage, name, type, description FROM claims WHERE name {LISTED}", names)
        return rows

    def numbers_among(self, name_ids: Keys) -> Keys:
        """Return the ids of names that are numbers."""
        rows = self.rows(f"SELECT spelling, surface FROM names WHERE spelling {LISTED}", name_ids)
        return np.array([name_id for name_id, name in rows if name.isascii() and name.isdigit()], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        """Return the names whose normalised form begins with one text and contains another."""
        runs = plain_runs(f"{start} {inside}")
        has_runs = " AND ".join(["lower(surface) LIKE ?"] * len(runs or ())) or "1 = 1"
        wide = "length(surface) < length(CAST(surface AS BLOB))"
        sql = f"SELECT key, surface FROM names WHERE ({'1 = 0' if runs is None else has_runs}) OR {wide}"
        rows = self.rows(sql, *(f"%{run}%" for run in runs or ()))
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        sql = f"SELECT key FROM facts WHERE key {LISTED} AND relation {LISTED}"
        return np.array([row[0] for row in self.rows(sql, facts, relations)], np.int64)

    def ends(self, facts: Keys) -> list[tuple[int, str | None, list[int], float, float]]:
        """Return of each fact key, relation, names, confidence, and the time of its last access, in order of key."""
        rows = self.rows(
            "SELECT f.key, f.relation, f.names, f.confidence, coalesce(f.last_accessed, f.created, d.added) "
            f"FROM facts f JOIN passages p ON p.key = f.key >> {FACT_BITS} JOIN documents d ON d.key = p.document "
            f"WHERE f.key {LISTED} ORDER BY f.key",
            facts,
        )
        return [
            (key, relation, unpack_names(names), confidence, last) for key, relation, names, confidence, last in rows
        ]

    # -- metadata

    def metadata_keys(self, names: Sequence[str]) -> list[str]:
        """Return the metadata keys among some names that documents have."""
        exists = "SELECT 1 FROM attributes WHERE name = wanted.value"
        sql = f"SELECT value FROM json_each(?) AS wanted WHERE EXISTS ({exists})"
        return [row[0] for row in self.rows(sql, storable(names))]

    def attribute(self, name: str, first: int) -> list[tuple[str, Any, int, str]]:
        """Return kind, value, and number and keys of documents, in the order of values, from a document on."""
        if name == DOCUMENT_ID:
            sql = "SELECT 'text', id, 1, CAST(key AS TEXT) FROM documents WHERE key >= ? ORDER BY id"
            rows: list[Any] = self.rows(sql, first)
            return rows
        named, parameters = ("+name = ? AND document >= ?", (name, first)) if first else ("name = ?", (name,))
        rows = self.rows(  # all documents of a value in one row: SQLite makes it faster than we read rows
            f"SELECT kind, value, count(*), group_concat(document) FROM attributes WHERE {named} "
            "GROUP BY kind, value ORDER BY kind, value",
            *parameters,
        )
        return sorted(rows, key=itemgetter(0, 1))

    # -- statistics

    def __len__(self) -> int:
        return self.count("documents")

    def count(self, table: str, condition: str = "1 = 1") -> int:
        """Return the number of rows."""
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def relations(self, hidden: Keys) -> dict[str, int]:
        """Return how many facts each relation has, most first, without those that are hidden."""
        sql = f"SELECT relation, count(*) FROM facts WHERE relation IS NOT NULL AND NOT (key {LISTED}) "
        return dict(self.rows(f"{sql} GROUP BY relation ORDER BY 2 DESC, 1", hidden))
