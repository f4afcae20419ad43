"""Writing to the records: whole documents in, whole documents out, one generation a time."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from graphrag_core.errors import DocumentError, ExtractionError
from graphrag_core.ports import Keys, Matrix
from graphrag_core.stores.batch import Batch, Written
from graphrag_core.stores.change import Change, no_keys, unpack
from graphrag_core.stores.entry import Entry
from graphrag_core.stores.records import Records
from graphrag_core.stores.statements import Row, add_uses, insert, name_keys


def unknown_names(records: Records, names: Iterable[str]) -> list[str]:
    """Return the names that the records do not have, in order."""
    wanted = list(dict.fromkeys(names))
    with records.reading() as db:
        known = name_keys(db, wanted)
    return [name for name in wanted if name not in known]


def write(
    records: Records,
    entries: Sequence[Entry] = (),
    gone: Sequence[int] = (),
    name_vectors: Mapping[str, Matrix] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Written:
    """Take documents out, by key, put documents in and note settings; return what that changed."""
    with records.writing() as db:
        generation = records.generation + 1
        chunks_gone, facts_gone, released = _remove(db, gone)
        first = {what: int(records.meta(f"next_{what}", "0")) for what in ("document", "chunk", "fact", "name")}
        batch = Batch(entries, first, generation, name_vectors or {})
        known = name_keys(db, batch.uses)
        batch.gather(known)
        add_uses(db, [(batch.uses[name], key) for name, key in known.items()])
        _insert(db, batch.rows, first["chunk"])
        names_gone = _drop_unused(db, released)
        spans = (batch.span("chunk"), batch.span("fact"), batch.span("name"))
        change = Change(generation, *spans, chunks_gone, facts_gone, names_gone)
        db.execute(f"INSERT INTO journal VALUES ({', '.join('?' * 10)})", change.row())
        following = {f"next_{what}": str(key) for what, key in batch.next.items()}
        records.set_meta(generation=str(generation), **following, **(notes or {}))
    return Written(change, batch.graph_rows, batch.texts, batch.vectors)


def _insert(db: sqlite3.Connection, tables: Mapping[str, Sequence[Row]], first_chunk: int) -> None:
    for table, rows in tables.items():
        try:
            if rows:
                insert(db, table, rows)
        except sqlite3.IntegrityError as error:
            raise _collision(db, error, [row[1] for row in tables["chunks"]], first_chunk) from error


def _remove(db: sqlite3.Connection, documents: Sequence[int]) -> tuple[Keys, Keys, Counter[int]]:
    if not documents:
        return no_keys(), no_keys(), Counter()
    wanted = (json.dumps(list(documents)),)
    inside = "IN (SELECT value FROM json_each(?))"
    chunks = db.execute(f"SELECT key, names FROM chunks WHERE document {inside} ORDER BY key", wanted).fetchall()
    facts = db.execute(
        f"SELECT key FROM facts WHERE chunk IN (SELECT key FROM chunks WHERE document {inside}) ORDER BY key", wanted
    ).fetchall()
    released = Counter(unpack(b"".join(row[1] for row in chunks)).tolist())
    db.execute(f"DELETE FROM documents WHERE key {inside}", wanted)
    db.executemany("UPDATE names SET uses = uses - ? WHERE key = ?", ((n, key) for key, n in released.items()))
    gone = np.array([row[0] for row in chunks], np.int64), np.array([row[0] for row in facts], np.int64)
    return *gone, released


def _drop_unused(db: sqlite3.Connection, released: Iterable[int]) -> Keys:
    wanted = (json.dumps(list(released)),)
    unused = "uses <= 0 AND key IN (SELECT value FROM json_each(?))"
    rows = db.execute(f"SELECT key FROM names WHERE {unused} ORDER BY key", wanted).fetchall()
    db.execute(f"DELETE FROM names WHERE {unused}", wanted)
    return np.array([row[0] for row in rows], np.int64)


def _collision(db: sqlite3.Connection, error: sqlite3.IntegrityError, ids: list[str], first_chunk: int) -> Exception:
    """Name the document whose chunk would take the id of another document's."""
    if "chunks.id" not in str(error):
        return ExtractionError(f"an extractor gave a value that cannot be stored ({error})")
    taken = db.execute(
        "SELECT id FROM chunks WHERE key < ? AND id IN (SELECT value FROM json_each(?))", (first_chunk, json.dumps(ids))
    )
    twice = [chunk for chunk, count in Counter([*ids, *(row[0] for row in taken)]).items() if count > 1]
    return DocumentError(twice[0], "another document has a passage of this id: give one of them another id")
