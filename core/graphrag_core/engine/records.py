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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from graphrag_core.engine.arrays import pack, unpack
from graphrag_core.engine.codes import encode
from graphrag_core.engine.rows import (
    Name,
    Row,
    Unstorable,
    check_expected,
    check_unique,
    damaged,
)
from graphrag_core.engine.schema import LISTED, WANTED, Session, listed
from graphrag_core.engine.segments import (
    FACT_BITS,
    LENGTHS,
    Accessed,
    Assigned,
    Batch,
    Stated,
    inflate,
    passage_checksum,
    unpacked,
)
from graphrag_core.engine.values import (
    RowCache,
    as_written,
    chunk_of,
    decoded,
    document_of,
    fact_of,
    from_json,
    storable,
    unpack_names,
    with_ids,
)
from graphrag_core.engine.view import Removal, Stored
from graphrag_core.errors import ExtractionError
from graphrag_core.filters import DOCUMENT_ID
from graphrag_core.key_sets import ranges
from graphrag_core.model import Chunk, Document, Extraction, Fact, FileMark, Mention
from graphrag_core.ports import Keys, Matrix, ParsedDocument, StoredFile
from graphrag_core.text import hash64, normalise, plain_runs

INTERNAL = frozenset(("generation", "token", "base", "checksum", "next_document", "next_passage", "next_name"))
"""The names in ``meta`` that are not settings of a caller."""

_PAGE = 1_000
_MOST_KEYS = 1_000  # of metadata that are listed
_CHUNK = "p.key, p.id, d.id, p.text, coalesce(d.heading, d.title), p.ordinal, p.start, d.metadata, p.headings, p.page"
_OF_DOCUMENT = "documents d CROSS JOIN passages p ON p.key >= d.first AND p.key < d.first + d.passages"
_FACTS = (
    "f.key, f.start, f.stop, f.text, f.is_plain, f.names, f.relation, f.weight, f.confidence, f.source, f.status, "
    "f.value, f.created, f.valid_from, f.valid_to, f.last_accessed, f.access_count"
)


class Records:
    """The rows, as a session sees them."""

    def __init__(self, session: Session, cache: RowCache) -> None:
        self.session, self.cache = session, cache
        self._meta: dict[str, str] | None = None
        self.rows = session.rows

    def restart(self) -> None:
        """See the last commit."""
        self.session.restart()
        self._meta = None

    def _of_keys(self, columns: str, table: str, keys: Iterable[int]) -> dict[int, Row]:
        """Return columns of the rows of a table, by key, which is the first column. All must be there."""
        wanted = [*keys]
        sql = f"SELECT {columns} FROM {WANTED} {table} ON {table[-1]}.key = wanted.value"
        found = {row[0]: row for row in self.rows(sql, (listed(wanted),))}
        if len(found) < len({*wanted}):
            raise damaged(f"a row of {table[:-2]} is missing")
        return found

    # -- settings and generations

    def meta(self) -> dict[str, str]:
        """Return all settings, including internal ones. They are read once."""
        if self._meta is None:
            self._meta = self.session.settings()
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
        for generation, previous, token, arrays, removed, checksum in self.rows(sql, (after,)):
            if zlib.crc32(removed, zlib.crc32(arrays)) != checksum:
                raise ValueError(f"segment {generation} is damaged")
            removal = Removal(**unpack(removed)) if removed else Removal.none()
            found.append(Stored(generation, previous, token, unpack(arrays) if arrays else None, removal))
        return found

    def set_base(self, generation: int, name: str) -> None:
        """Name the valid base, if it has a name; drop the segments that it has."""
        if name:
            checksum = self.meta_checksum({**self.meta(), "base": name})
            self.session.put({"base": name, "checksum": checksum})
        self.rows("DELETE FROM segments WHERE generation <= ?", (generation,))

    def meta_checksum(self, meta: Mapping[str, str]) -> str:
        """Return the checksum of settings and of the definitions of the tables."""
        tables = self.session.definitions()
        checked = sorted((name, value) for name, value in meta.items() if name != "checksum")
        return str(zlib.crc32(repr((checked, tables)).encode("utf-8", "surrogatepass")))

    # -- writing

    def store(
        self, batch: Batch, removed: Sequence[str], name_vectors: Mapping[str, Matrix], settings: Mapping[str, str],
        expected: Mapping[str, str], accesses: Mapping[int, tuple[int, float]], token: str,
    ) -> Stored:  # fmt: skip
        """Remove documents, add a batch, store settings and accesses, and write the segment."""
        meta = self.meta()
        check_expected(meta, expected)
        self.session.many(
            "UPDATE facts SET access_count = access_count + ?, last_accessed = "
            "CASE WHEN last_accessed > ? THEN last_accessed ELSE ? END WHERE key = ?",
            [(count, last, last, fact) for fact, (count, last) in accesses.items()],
        )
        sql = f"SELECT key, id, first, passages FROM documents WHERE id {LISTED} ORDER BY first"
        gone = self.rows(sql, (listed(removed),)) if removed else []
        before = self._accessed(gone) if len(batch) else {}
        removal, released = self._remove(gone)
        changed, segment = {**settings}, None
        if len(batch):
            keys = self._assigned(batch, meta)
            self._insert(batch, keys, name_vectors, before)
            segment = batch.segment(keys)
            changed |= {
                "next_document": str(keys.document + len(batch.ids)),
                "next_passage": str(keys.passage + len(batch)),
                "next_name": str(int(meta.get("next_name", "0")) + int(keys.is_new.sum())),
            }
        if released:
            unused = self.rows(f"SELECT key FROM names WHERE key {LISTED} AND uses <= 0", (listed(released),))
            self.session.many("DELETE FROM name_vectors WHERE key = ?", unused)
            self.session.many("DELETE FROM names WHERE key = ?", unused)
        generation = int(meta.get("generation", "0")) + 1
        if self.session.shared:  # no other state has it, also if a backup was restored meanwhile
            generation = max(generation, time.time_ns() // 1_000)
        changed |= {"generation": str(generation), "token": token}
        changed["checksum"] = self.meta_checksum({**meta, **changed})
        self.session.put(changed)
        arrays = pack(segment) if segment is not None else b""
        lost = pack(removal._asdict()) if len(removal.passages) else b""
        row = generation, meta.get("token", ""), token, arrays, lost, zlib.crc32(lost, zlib.crc32(arrays))
        self.session.insert("segments", [row])
        return Stored(generation, meta.get("token", ""), token, segment, removal)

    def _accessed(self, documents: Sequence[Row]) -> Accessed:
        """Return last access and access count of the facts of documents, by what they state."""
        found = defaultdict[Stated, list[tuple[float | None, int]]](list)
        for _, document, first, count in documents:
            span = first << FACT_BITS, (first + count) << FACT_BITS
            sql = f"SELECT {_FACTS} FROM facts f WHERE key >= ? AND key < ? AND access_count > 0 ORDER BY key"
            for fact, _ in self._facts(self.rows(sql, span)):
                stated = document, fact.text, fact.relation, fact.value
                found[stated].append((fact.last_accessed, fact.access_count))
        return found

    def _remove(self, rows: Sequence[Row]) -> tuple[Removal, list[int]]:
        """Delete documents, given their rows; return their passages, and the names that they used."""
        if not rows:
            return Removal.none(), []
        documents, spans = [row[0] for row in rows], [(first, first + count) for *_, first, count in rows]
        sql = f"SELECT p.names, p.lengths FROM {_OF_DOCUMENT} WHERE d.key {LISTED}"
        passages = self.rows(sql, (listed(documents),))
        released = Counter(unpack_names(b"".join(row[0] for row in passages)))
        lengths = np.array([LENGTHS.unpack(row[1]) for row in passages], np.int64).sum(axis=0)
        many = self.session.many
        many("DELETE FROM facts WHERE key >= ? AND key < ?", [(a << FACT_BITS, b << FACT_BITS) for a, b in spans])
        many("DELETE FROM claims WHERE passage >= ? AND passage < ?", spans)
        many("DELETE FROM passages WHERE key >= ? AND key < ?", spans)
        many("DELETE FROM attributes WHERE document = ?", [(key,) for key in documents])
        many("DELETE FROM documents WHERE key = ?", [(key,) for key in documents])
        many("UPDATE names SET uses = uses - ? WHERE key = ?", [(count, key) for key, count in released.items()])
        _, _, first, count = zip(*rows, strict=True)
        return Removal(ranges(np.array(first, np.int64), np.array(count, np.int64)), np.asarray(lengths)), [*released]

    def _assigned(self, batch: Batch, meta: Mapping[str, str]) -> Assigned:
        """Return the keys of what a batch adds."""
        spellings = listed({hash64(norm) for norm in batch.norms})
        rows = self.rows(f"SELECT surface, entity, key FROM names WHERE spelling {LISTED}", (spellings,))
        known = {(surface, entity): key for surface, entity, key in rows}
        first = int(meta.get("next_name", "0"))
        names = np.array([known.get(name, -1) for name in batch.names], np.int64)
        is_new = names < 0
        names[is_new] = np.arange(first, first + int(is_new.sum()))
        document, passage = int(meta.get("next_document", "0")), int(meta.get("next_passage", "0"))
        return Assigned(document, passage, names, is_new)

    def _insert(
        self, batch: Batch, keys: Assigned, name_vectors: Mapping[str, Matrix],
        accesses: Accessed,
    ) -> None:  # fmt: skip
        session = self.session
        taken = defaultdict[str, list[str]](list)
        sql = " UNION ALL ".join(
            f"SELECT '{kind}', id FROM {kind} WHERE id {LISTED}" for kind in ("documents", "passages")
        )
        for kind, own in self.rows(sql, (listed(batch.ids), listed(batch.passage_ids))):
            taken[kind].append(own)
        check_unique(batch.ids, taken["documents"])
        check_unique(batch.passage_ids, taken["passages"], of_chunks=True)
        try:
            for table, rows in batch.rows(keys, accesses).items():
                session.insert(table, rows)
            session.flush()
        except Unstorable as error:
            raise ExtractionError(f"an extractor returned a value that cannot be stored ({error})") from error
        uses = [(batch.uses[at], int(keys.names[at])) for at in np.flatnonzero(~keys.is_new).tolist() if batch.uses[at]]
        session.many("UPDATE names SET uses = uses + ? WHERE key = ?", uses)
        new = [
            (key, name_vectors[name.surface])
            for name, key, is_new in zip(batch.names, keys.names.tolist(), keys.is_new.tolist(), strict=True)
            if is_new and name.surface in name_vectors
        ]
        if new:
            codes = encode("names", np.array([vector for _, vector in new], np.float32))
            session.insert("name_vectors", [(key, code.tobytes()) for (key, _), code in zip(new, codes, strict=True)])

    # -- documents

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist."""
        sql = f"SELECT id, digest FROM documents WHERE id {LISTED}"
        return dict(self.rows(sql, (listed(storable(document_ids)),)))

    def document_ids(self, after: str, scope: Keys | None) -> list[str]:
        """Return a page of ids of documents in order, after an id; all of a scope, which are keys of documents."""
        if scope is not None:
            sql = f"SELECT id FROM documents WHERE key {LISTED} AND id > ? ORDER BY id"
            return [row[0] for row in self.rows(sql, (listed(scope), after))]
        sql = f"SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT {_PAGE}"
        page = [row[0] for row in self.rows(sql, (after,))]
        if page and page[-1] <= after:
            raise damaged("documents are not in the order of their ids")
        return page

    def document(self, document_id: str) -> Document | None:
        """Return a document, put together from its passages."""
        sql = "SELECT id, title, metadata FROM documents WHERE id = ?"
        rows = self.rows(sql, storable([document_id])) if storable([document_id]) else []
        return document_of(rows[0], self.chunks_of(document_id)) if rows else None

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's passages, in order."""
        sql = f"SELECT {_CHUNK} FROM {_OF_DOCUMENT} WHERE d.id {LISTED} ORDER BY p.key"
        return [chunk_of(row) for row in self.rows(sql, (listed(storable([document_id])),))]

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors, in the order asked for."""
        where = f"d.id {LISTED}", (listed(storable(document_ids)),)
        found = {one.document.id: one for _, _, one in self.parsed_where(*where, accesses=accesses)}
        return [found[document_id] for document_id in document_ids if document_id in found]

    def document_pages(self, columns: str) -> Iterator[list[Row]]:
        """Yield rows of documents in order of key, in pages; the key is the first column."""
        last = -1
        while page := self.rows(f"SELECT {columns} FROM documents WHERE key > ? ORDER BY key LIMIT {_PAGE}", (last,)):
            if page[-1][0] <= last:
                raise damaged("documents are not in the order of their keys")  # reading on might never end
            yield page
            last = page[-1][0]

    def parsed_where(
        self, where: str, parameters: Sequence[Any], *, accesses: bool
    ) -> list[tuple[int, int, ParsedDocument]]:
        """Return some documents in order of key: the key, that of the first passage, and the document."""
        columns = "d.key, d.first, d.passages, d.file, d.version, d.id, d.title, d.metadata, d.digest"
        sql = f"SELECT {columns} FROM documents d WHERE "
        documents = self.rows(f"{sql}{where} ORDER BY d.key", parameters)
        columns = "p.subjects, p.names, p.aliases, p.vector, p.tokens, p.token_counts"
        sql = f"SELECT {_CHUNK}, {columns} FROM {_OF_DOCUMENT} WHERE {where} ORDER BY p.key"
        passages = {row[0]: row for row in self.rows(sql, parameters)}
        extracted = self._extracted({row[0]: (inflate(row[3]), *row[10:13]) for row in passages.values()}, accesses)
        found = []
        for key, first, number, file, version, *own, digest in documents:
            rows = [passages[passage] for passage in range(first, first + number)]
            chunks, parts = [chunk_of(row[:10]) for row in rows], [extracted[row[0]] for row in rows]
            codes, counts = ([row[at] for row in rows] for at in (13, 15))
            tokens = [unpacked(row[14]) for row in rows if row[14] is not None]
            document = document_of(own, chunks, None if file is None else FileMark(file, version))
            parsed = ParsedDocument(
                document, own[2], digest, chunks, [part for part, _ in parts],
                [names for _, names in parts], decoded("chunks", codes) if None not in codes else None,
                tokens or None, counts if None not in counts else None,
            )  # fmt: skip
            found.append((key, first, parsed))
        return found

    def _extracted(
        self, passages: Mapping[int, tuple[str, int, bytes, str | None]], accesses: bool
    ) -> dict[int, tuple[Extraction, dict[str, bool]]]:
        """Return for passages what was extracted, and the names that each mentions."""
        if not passages:
            return {}
        names = {key: unpack_names(packed) for key, (_, _, packed, _) in passages.items()}
        facts: defaultdict[int, list[tuple[Fact, list[int]]]] = defaultdict(list)
        rows = self.rows(
            f"SELECT {_FACTS} FROM {WANTED} facts f ON "
            f"f.key >= wanted.value << {FACT_BITS} AND f.key < (wanted.value + 1) << {FACT_BITS} ORDER BY f.key",
            (listed(passages),),
        )
        for fact, held in self._facts(rows, {key: one[0] for key, one in passages.items()}):
            facts[int(fact.id) >> FACT_BITS].append((fact, held))
        used = set(chain.from_iterable(names.values())).union(*(held for own in facts.values() for _, held in own))
        surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
        claims: defaultdict[int, list[Mention]] = defaultdict(list)
        sql = f"SELECT passage, name, type, description FROM claims WHERE passage {LISTED} ORDER BY passage, rowid"
        for passage, name, kind, description in self.rows(sql, (listed(passages),)):
            claims[passage].append(Mention(surfaces[name], kind, description))
        found = {}
        for key, (_, subjects, _, aliases) in passages.items():
            mentions = [*claims[key], *(Mention(long, aliases=(short,)) for short, long in from_json(aliases or "[]"))]
            stated = [as_written(fact, [surfaces[name] for name in held], accesses) for fact, held in facts[key]]
            written = {surfaces[name]: at < subjects for at, name in enumerate(names[key])}
            found[key] = Extraction(tuple(mentions), tuple(stated)), written
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
        return dict(self.rows("SELECT id, version FROM documents WHERE file = ? ORDER BY id", (path,)))

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        """Store the files that documents were read from, by id."""
        self.session.many(
            "UPDATE documents SET file = ?, version = ? WHERE id = ? AND "
            "(coalesce(file, '') <> ? OR coalesce(version, '') <> ?)",
            [(*mark, document_id, *mark) for document_id, mark in marks.items()],
        )

    # -- passages, facts and names

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """Return passages in the order given."""
        # Another thread may clear the cache.
        known = {key: chunk for key in keys if (chunk := self.cache.chunks.get(key)) is not None}
        if missing := {key for key in keys if key not in known}:
            columns = f"{_CHUNK}, t.*"
            sql = f"SELECT {columns.replace('p.', 't.')} FROM {WANTED} passages t ON t.key = wanted.value "
            rows = self.rows(f"{sql} JOIN documents d ON d.key = t.document", (listed(missing),))
            if len(rows) < len(missing):
                raise damaged("a passage is missing")
            if any(passage_checksum(row[10:-1]) != row[-1] for row in rows):
                raise damaged("the row of a passage differs from its checksum")
            known |= (read := {row[0]: chunk_of(row[:10]) for row in rows})
            self.cache.keep("chunks", read, 10_000)
        return [known[key] for key in keys]

    def keys_of_passages(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the keys of passages, by id."""
        return dict(self.rows(f"SELECT id, key FROM passages WHERE id {LISTED}", (listed(storable(ids)),)))

    def keys_in_order(self) -> Keys:
        """Return the keys of all passages, in the order of ids."""
        rows = self.rows("SELECT group_concat(key) FROM (SELECT key FROM passages ORDER BY id)")
        return np.fromstring(rows[0][0] or "", np.int64, sep=",") if rows[0][0] else np.empty(0, np.int64)

    def vectors(self, keys: Keys) -> Matrix | None:
        """Return the vectors of passages, zero for those that were deleted since; None if there are none."""
        rows = self.rows(f"SELECT key, vector FROM passages WHERE key {LISTED}", (listed(keys),))
        found = {key: code for key, code in rows if code is not None}
        if not found:
            return None
        none = bytes(len(next(iter(found.values()))))
        return decoded("chunks", [found.get(key, none) for key in keys.tolist()])

    def facts(self, keys: Sequence[int]) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities and with ids, in the order given."""
        rows = self._of_keys(_FACTS, "facts f", keys)
        chunks = dict(zip((k >> FACT_BITS for k in keys), self.chunks([k >> FACT_BITS for k in keys]), strict=True))
        texts = {key: chunk.text for key, chunk in chunks.items()}
        found = []
        for fact, names in self._facts([rows[key] for key in keys], texts):
            chunk = chunks[int(fact.id) >> FACT_BITS]
            ids = f"{chunk.id}/{int(fact.id) & ((1 << FACT_BITS) - 1)}", chunk.id
            found.append((names, with_ids(fact, *ids)))
        return found

    def _facts(self, rows: Sequence[Row], texts: Mapping[int, str] | None = None) -> Iterator[tuple[Fact, list[int]]]:
        """Yield facts with their key as id and no entities, and the keys of their names."""
        if texts is None:
            passages = {row[0] >> FACT_BITS for row in rows}
            texts = {key: one.text for key, one in zip(passages, self.chunks([*passages]), strict=True)}
        for row in rows:
            yield fact_of(row, texts[row[0] >> FACT_BITS])

    def names(self, keys: Sequence[int]) -> dict[int, Name]:
        """Return names by key."""
        known = {key: name for key in keys if (name := self.cache.names.get(key)) is not None}
        if missing := [key for key in keys if key not in known]:
            rows = self._of_keys("n.key, n.surface, n.spelling", "names n", missing)
            read = {key: Name(surface, normalise(surface), spelling) for key, surface, spelling in rows.values()}
            self.cache.keep("names", read)
            known.update(read)
        return {key: known[key] for key in keys}

    def new_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that no passage mentions, each once."""
        wanted = list(dict.fromkeys(names))
        known = self._surfaces(wanted)
        return [name for name in wanted if name not in known]

    def _surfaces(self, names: Sequence[str]) -> dict[str, list[int]]:
        spellings = listed({hash64(normalise(name)) for name in names})
        found: defaultdict[str, list[int]] = defaultdict(list)
        for surface, key in self.rows(f"SELECT surface, key FROM names WHERE spelling {LISTED}", (spellings,)):
            found[surface].append(key)
        return {name: found[name] for name in names if name in found}

    def keys_of_name(self, name: str) -> list[int]:
        """Return the keys of a name: one for each entity that it means."""
        return self._surfaces([name]).get(name, [])

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of names that have one."""
        keys = self._surfaces(names)
        owner = {key: name for name, own in keys.items() for key in own}
        sql = f"SELECT key, vector FROM name_vectors WHERE key {LISTED}"
        rows = self.rows(sql, (listed(owner),))
        matrix = decoded("names", [code for _, code in rows])
        return {owner[key]: vector for (key, _), vector in zip(rows, matrix, strict=True)} if matrix is not None else {}

    def all_name_vectors(self, after: int) -> tuple[Keys, Matrix | None]:
        """Return the keys of names with a vector that are greater than one, ascending, and the vectors."""
        rows = self.rows("SELECT key, vector FROM name_vectors WHERE key > ? ORDER BY key", (after,))
        return np.array([row[0] for row in rows], np.int64), decoded("names", [row[1] for row in rows])

    def claims(self, names: Sequence[int]) -> list[tuple[int, int, str, str]]:
        """Return the types and descriptions that passages give to names: passage, name, type, description."""
        sql = f"SELECT passage, name, type, description FROM claims WHERE name {LISTED}"
        return [(row[0], row[1], row[2], row[3]) for row in self.rows(sql, (listed(names),))]

    def numbers_among(self, name_ids: Keys) -> Keys:
        """Return the ids of names that are numbers."""
        rows = self.rows(f"SELECT spelling, surface FROM names WHERE spelling {LISTED}", (listed(name_ids),))
        return np.array([name_id for name_id, name in rows if name.isascii() and name.isdigit()], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        """Return the names whose normalised form begins with one text and contains another."""
        runs = plain_runs(f"{start} {inside}")
        has_runs = " AND ".join(["lower(surface) LIKE ?"] * len(runs or ())) or "1 = 1"
        wide = "length(surface) < length(CAST(surface AS BLOB))"
        sql = f"SELECT key, surface FROM names WHERE ({'1 = 0' if runs is None else has_runs}) OR {wide}"
        rows = self.rows(sql, [f"%{run}%" for run in runs or ()])
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        sql = f"SELECT key FROM facts WHERE key {LISTED} AND relation {LISTED}"
        return np.array([row[0] for row in self.rows(sql, (listed(facts), listed(relations)))], np.int64)

    def ends(self, facts: Keys) -> list[tuple[int, str | None, list[int], float, float]]:
        """Return of each fact key, relation, names, confidence, and the time of its last access, in order of key."""
        rows = self.rows(
            "SELECT f.key, f.relation, f.names, f.confidence, coalesce(f.last_accessed, f.created, d.added) "
            f"FROM facts f JOIN passages p ON p.key = f.key >> {FACT_BITS} JOIN documents d ON d.key = p.document "
            f"WHERE f.key {LISTED} ORDER BY f.key",
            (listed(facts),),
        )
        return [
            (key, relation, unpack_names(names), confidence, last) for key, relation, names, confidence, last in rows
        ]

    # -- metadata

    def metadata_keys(self, names: Sequence[str] | None = None) -> list[str]:
        """Return the metadata keys of all documents in order, at most 1,000; or those among some that exist."""
        if names is not None:
            exists = "SELECT 1 FROM attributes WHERE name = wanted.value"
            sql = f"SELECT value FROM json_each(?) AS wanted WHERE EXISTS ({exists})"
            return [row[0] for row in self.rows(sql, (listed(storable(names)),))]
        return [row[0] for row in self.rows(f"SELECT DISTINCT name FROM attributes ORDER BY name LIMIT {_MOST_KEYS}")]

    def attribute(self, name: str, first: int) -> list[tuple[str, Any, int, str]]:
        """Return kind, value, and number and keys of documents, in the order of values, from a document on."""
        if name == DOCUMENT_ID:
            sql = "SELECT 'text', id, 1, CAST(key AS TEXT) FROM documents WHERE key >= ? ORDER BY id"
            return [(row[0], row[1], row[2], row[3]) for row in self.rows(sql, (first,))]
        named, parameters = ("+name = ? AND document >= ?", (name, first)) if first else ("name = ?", (name,))
        rows = self.rows(  # all documents of a value in one row: SQLite makes it faster than we read rows
            f"SELECT kind, value, count(*), group_concat(document) FROM attributes WHERE {named} "
            "GROUP BY kind, value ORDER BY kind, value",
            parameters,
        )
        return sorted([(row[0], row[1], row[2], row[3]) for row in rows], key=itemgetter(0, 1))

    # -- statistics

    def __len__(self) -> int:
        return self.count("documents")

    def count(self, table: str, condition: str = "1 = 1") -> int:
        """Return the number of rows."""
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def relations(self, hidden: Keys) -> dict[str, int]:
        """Return how many facts each relation has, most first, without those that are hidden."""
        sql = f"SELECT relation, count(*) FROM facts WHERE relation IS NOT NULL AND NOT (key {LISTED}) "
        return dict(self.rows(f"{sql} GROUP BY relation ORDER BY 2 DESC, 1", (listed(hidden),)))
