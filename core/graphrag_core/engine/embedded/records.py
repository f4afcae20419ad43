"""The records: documents, chunks, facts, names and their vectors in one SQLite database.

The records are the truth. The search indexes are derived from them and can be built again.
"""

import json
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from graphrag_core import forks
from graphrag_core.engine.codes import Codes, are_damaged, code_size, decode
from graphrag_core.engine.embedded import schema
from graphrag_core.engine.embedded.schema import FORMAT, KINDS, Change, document_checksums, unpack
from graphrag_core.engine.rows import Row, Texts, damaged
from graphrag_core.engine.tables import Query, Span, Tables, storable, text_of_fact
from graphrag_core.errors import DamagedIndex, DiskError, FilterError, GraphRAGError, NotAnIndex, UnsupportedFormat
from graphrag_core.filters import Condition
from graphrag_core.model import FileMark
from graphrag_core.ports import Keys, Matrix
from graphrag_core.text import hash64, normalise

_log = logging.getLogger(__name__)

_COLUMN_TYPES = schema.column_types()
_PAGE_BYTES = 8_192  # most rows are about a thousand bytes long, and small pages would be filled badly
_GRAPH_PAGE = 1_000
_KEY_BYTES = 8  # of a removed key in the journal
_BUSY_TIMEOUT = 10_000  # milliseconds to wait for another process
CHECKSUM = "checksum"
"""The setting with the checksum of the others."""
_MANY_LOG_BYTES = 4_000_000  # of the write-ahead log, from which on it is emptied after a change
_INTERNAL = (CHECKSUM, "generation", "next_chunk", "next_document", "next_fact", "next_name")

_SIGNS_OF_DAMAGE = (
    "malformed", "no such table", "no such column", "no such collation", "has no column", "Could not decode",
    "user-defined function raised", "unsupported file format", "values were supplied", "datatype mismatch",
)  # fmt: skip
_FUNCTION_RAISED = "user-defined function raised"
_SIGNS_OF_SIZE = (
    "parser stack overflow", "too many terms in compound SELECT", "too many SQL variables", "Expression tree is too",
    "too many columns",
)  # fmt: skip
_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter if a message of SQLite quotes damaged text
GRAPH_COLUMNS = {
    "chunks": "key, id, document, ordinal, start, inflate(text), subjects, names, "
    "(SELECT coalesce(heading, title) FROM documents d WHERE d.key = document) AS title",
    "facts": "*",
    "aliases": "*",
}
"""The columns that the graph is built from, by table."""
ADD_ACCESSES = """
UPDATE facts SET access_count = access_count + ?, last_accessed = max(coalesce(last_accessed, 0), ?) WHERE key = ?
"""
LISTED = "IN (SELECT value FROM json_each(?))"
"""A condition on a column; its parameter is a JSON list."""
_VECTORS = {
    "chunks": "SELECT v.key, v.vector, v.key FROM chunk_vectors v",
    "facts": "SELECT v.key, v.vector, (SELECT min(key) FROM facts WHERE chunk = v.key) AS key FROM fact_vectors v",
    "names": "SELECT v.key, v.vector, v.key FROM name_vectors v",
}  # with the key of the first: the facts of a chunk have consecutive keys, and their vectors are in one row
# One row with all keys: sqlite3 releases and takes the GIL once per row.
_NAME_KEYS = """
SELECT json_group_array(
    (SELECT key FROM names
     WHERE spelling = json_extract(wanted.value, '$[1]') AND surface = json_extract(wanted.value, '$[0]'))
) FROM json_each(?) AS wanted
"""


class Records(Tables):
    """The database of an index, in a file or in memory. Safe to use from many threads.

    A read-only database stays on the generation it first saw until :meth:`refresh`.
    """

    mark = "?"
    listed = listed_texts = LISTED
    wanted = "json_each(?) AS wanted CROSS JOIN"
    text = "inflate(c.text)"
    ordinal = "f.ordinal"
    order = "rowid"
    holds = "f.chunk = c.key"
    wide = "length(n.surface) < length(CAST(n.surface AS BLOB))"

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        super().__init__()
        self.path = path
        self.read_only = read_only
        self.lock = threading.RLock()
        self._meta: dict[str, str] | None = None  # as it was read since the last change
        self.has_claims = -1, False  # a generation, and whether it has claims
        self._side_lock = threading.Lock()
        self._side: sqlite3.Connection | None = None  # reads committed rows while the other one writes
        self._immutable = False
        self._seen = 0  # when the file was last changed, as of the last refresh
        self.has_deleted_text = path is not None  # in the write-ahead log, which a crash may have left
        self._held = False  # by a thread that forks
        forks.watch(self)
        try:
            with self.lock:
                self._open()
        except BaseException as error:
            self._close_connections()
            if isinstance(error, _ERRORS):
                raise self._translated(error) from error
            raise

    def _open(self) -> None:
        try:
            self._db = self._connect("ro" if self.read_only else "rwc")
            self._prepare()
        except sqlite3.OperationalError:
            if not self.read_only or self.path is None or Path(f"{self.path}-wal").exists():
                raise
            # SQLite creates files beside the database, which a read-only folder does not allow.
            self._immutable = True
            self._db = self._connect("ro&immutable=1")
            self._prepare()

    def _connect(self, mode: str) -> sqlite3.Connection:
        name = ":memory:" if self.path is None else f"{self.path.resolve().as_uri()}?mode={mode}"
        db = sqlite3.connect(name, uri=self.path is not None, check_same_thread=False, isolation_level=None)
        db.create_function("inflate", 1, schema.inflate, deterministic=True)
        return db

    def _prepare(self) -> None:
        run = self._db.execute
        run("PRAGMA foreign_keys = ON")
        run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        run("PRAGMA cache_size = -8000")
        # First, because a process that creates the index writes the tables before the search indexes.
        had_content = self.path is not None and any(
            any(self.path.parent.glob(files)) for files in ("keywords/*/state.json", "derived/*/manifest.json")
        )
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and self.path is not None:
            self._check_new(self.path.parent, had_content=had_content)
        if empty and not self.read_only:
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA journal_mode = WAL")
            numbers = f"PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
            self._db.executescript(f"BEGIN; {schema.TABLES} {numbers} COMMIT;")
        elif run("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
            raise NotAnIndex(f"{self.path} is an SQLite file, but not an index: choose another folder")
        found = run("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            again = "index the documents again into another folder"
            advice = "upgrade hybrid-graphrag" if found > FORMAT else again
            raise UnsupportedFormat(f"{self.path} has format {found}, this release reads format {FORMAT}: {advice}")
        if self.read_only:
            self.refresh()
        else:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        meta = dict(run("SELECT name, value FROM meta").fetchall())
        if _is_damaged(self._db, meta):
            raise DamagedIndex(
                f"{self.path}: the settings of the index are damaged: restore a backup, or index the documents again "
                "into another folder"
            )

    def _check_new(self, folder: Path, *, had_content: bool) -> None:
        """Raise if a database without tables does not belong to a new index, or cannot be created by a reader."""
        if had_content:
            raise DamagedIndex(
                f"{self.path} is empty, but was the database of an index: restore a backup, or delete the folder "
                f"{folder} and index the documents again"
            )
        if self.read_only:
            raise NotAnIndex(
                f"creating the index in {folder} was interrupted: nothing was stored yet. Repeat the call or the "
                "command that created it"
            )

    def _translated(self, error: Exception, *, in_transaction: bool = False) -> Exception:
        """Return the library's error for an error of SQLite. A transaction was rolled back."""
        text, index_again = str(error), "restore a backup, or index the documents again into another folder"
        if "not a database" in text:
            return NotAnIndex(
                f"{self.path} is not an index, or is damaged ({text}): restore a backup or choose another folder"
            )
        if isinstance(error, UnicodeError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return DamagedIndex(f"{self.path} is damaged ({text}): {index_again}")
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            return error
        if any(sign in text for sign in _SIGNS_OF_SIZE):
            return FilterError(
                f"the filter is nested too deeply or has too many parts ({text}): combine values with in"
            )
        unchanged = "; nothing was changed" if in_transaction else ""
        return DiskError(
            f"{self.path}: {text}{unchanged}: free disk space, or check the folder's permissions, and retry"
        )

    # -- forks

    def before_fork(self) -> None:
        """Wait until no thread uses the database, so that a child inherits no lock of SQLite."""
        self._held = self.lock.acquire(timeout=forks.PATIENCE)
        if self._held and not self._side_lock.acquire(timeout=forks.PATIENCE):
            self.lock.release()
            self._held = False

    def after_fork_in_parent(self) -> None:
        """Let other threads go on."""
        if self._held:
            self._held = False
            self._side_lock.release()
            self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close the connections to the file, which are the parent's; the parent's stay open.

        A connection that may be in use is not touched. A database in memory is the child's own copy.
        """
        held, self._held = self._held, False
        self.lock, self._side_lock = threading.RLock(), threading.Lock()
        for connection in (self._side, getattr(self, "_db", None)) if self.path is not None else ():
            if connection is not None and held:
                with suppress(sqlite3.Error):
                    connection.close()
            forks.leak(connection)

    # -- statements and transactions

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run statements in one transaction: all or nothing."""
        with self.lock:
            self._meta = None
            try:
                try:
                    if self._db.in_transaction:  # which an interrupt left open
                        self._db.execute("ROLLBACK")
                    self._db.execute("BEGIN IMMEDIATE")
                    yield self._db
                    self._db.execute("COMMIT")
                finally:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
            except BaseException as error:
                if self._db.in_transaction:  # the interrupt came before the first rollback
                    self._db.execute("ROLLBACK")
                if isinstance(error, _ERRORS):
                    raise self._translated(error, in_transaction=True) from error
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self.lock:
            return self._fetch(self._db, sql, parameters)

    def stored(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist, as of the last commit. No transaction in a file delays it."""
        read = self.rows if self.path is None or self.read_only else self._newest_rows
        return dict(read(f"SELECT id, digest FROM documents WHERE id {LISTED}", (self.array(storable(ids)),)))

    def _newest_rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._side_lock:
            try:
                self._side = self._side or self._connect("ro")
            except _ERRORS as error:
                raise self._translated(error) from error
            return self._fetch(self._side, sql, parameters)

    def _fetch(self, db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement. A column of a table must have values of its type.

        SQLite reports any exception in one of our functions with the same words. A value that is damaged raises again;
        if nothing does, the exception was an interrupt.
        """
        try:
            cursor = db.execute(sql, parameters)
            rows = cursor.fetchall()
        except _ERRORS as error:
            if _FUNCTION_RAISED in str(error):
                with suppress(*_ERRORS):
                    db.execute(sql, parameters).fetchall()
                    raise KeyboardInterrupt from error
            raise self._translated(error) from error
        for at, (name, *_) in enumerate(cursor.description or ()):
            types = _COLUMN_TYPES.get(name)
            if types is not None and not types.issuperset(map(type, map(itemgetter(at), rows))):
                raise damaged(f"a value of {name!r} has another type")
        return rows

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row."""
        return self.rows(sql, parameters)[0][0]

    def keys(self, sql: str, parameters: Sequence[Any] = ()) -> Keys:
        rows = self.rows(sql, parameters)
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    def array(self, values: Iterable[Any]) -> str:
        return json.dumps(values.tolist() if isinstance(values, np.ndarray) else [*values])

    def refresh(self) -> None:
        """Let a read-only database see the newest generation."""
        if self.read_only:
            with self.lock:
                self._seen = self._file_time()
                self._meta = None
                if self._db.in_transaction:
                    self.rows("COMMIT")
                self.rows("BEGIN")
                self.rows("SELECT count(*) FROM meta")

    def leave_log(self) -> None:
        """Let a read-only database read from the file what a writer has moved there from the write-ahead log.

        The writer cannot empty the log before.
        """
        if self.read_only and self._file_time() != self._seen:
            self.refresh()

    def _file_time(self) -> int:
        try:
            return 0 if self.path is None else self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def newest(self) -> int:
        """Return the generation of the last commit of any process, which a read-only database may not see yet."""
        if self.path is None or self._immutable:
            return self.generation
        rows = self._newest_rows("SELECT value FROM meta WHERE name = 'generation'")
        return int(rows[0][0]) if rows else 0  # the index is being created

    def shorten_log(self) -> None:
        """Empty the write-ahead log if it has deleted text, or is long."""
        if self.path is not None and not self.read_only:
            try:
                size = Path(f"{self.path}-wal").stat().st_size
            except OSError:
                size = 0
            if size and (self.has_deleted_text or size > _MANY_LOG_BYTES):
                self.truncate_log()

    def truncate_log(self) -> bool:
        """Checkpoint and empty the write-ahead log, so that deleted text is in no file; return whether that succeeded.

        It does not while another process reads what was deleted since, nor if the disk is full. The log keeps its
        content then, and the next change tries again.
        """
        try:
            with self.lock:
                self.rows("PRAGMA busy_timeout = 0")
                try:
                    busy = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
                finally:
                    self.rows(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        except GraphRAGError as error:
            _log.warning("the write-ahead log could not be emptied: %s", error)
            return False
        self.has_deleted_text = self.has_deleted_text and bool(busy)
        return not busy

    def copy_to(self, path: Path) -> None:
        """Copy the last committed generation to a new file, without waiting for a transaction in a file."""
        target = sqlite3.connect(path, isolation_level=None)
        try:
            if self.path is None or self._immutable:
                with self.lock:
                    self._db.backup(target)
            else:
                source = self._connect("ro")
                try:
                    source.backup(target)
                finally:
                    source.close()
            target.execute("PRAGMA journal_mode = WAL")
            found = target.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise DamagedIndex(f"{self.path} is damaged ({found}): the backup was not written")
        except _ERRORS as error:
            raise self._translated(error) from error
        finally:
            target.close()

    def close(self) -> None:
        """Close the database; a writer checkpoints its log first. Closing twice does nothing."""
        with self.lock:
            try:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if not self.read_only and self.path is not None:
                    self.truncate_log()
            except sqlite3.ProgrammingError:
                pass  # closed before
            except _ERRORS as error:
                raise self._translated(error) from error
            finally:
                self._close_connections()

    def _close_connections(self) -> None:
        for connection in (self._side, getattr(self, "_db", None)):
            if connection is not None:
                connection.close()

    # -- generation, settings, changes

    @property
    def generation(self) -> int:
        """The number of changes the records have seen."""
        return int(self.meta.get("generation", "0"))

    @property
    def meta(self) -> Mapping[str, str]:
        """All settings, including the internal ones."""
        found = self._meta
        if found is None:
            with self.lock:
                found = dict(self.rows("SELECT name, value FROM meta"))
                if not self._db.in_transaction or self.read_only:  # else they may change or be rolled back
                    self._meta = found
        return found

    def settings(self) -> dict[str, str]:
        """Return the settings that a caller of :meth:`~graphrag_core.ports.Engine.write` stored."""
        return {name: value for name, value in self.meta.items() if name not in _INTERNAL}

    def since(self, generation: int) -> Change | None:
        """Return what changed since a generation, or None if the journal no longer reaches back to it."""
        rows = self.rows("SELECT * FROM journal WHERE generation > ? ORDER BY generation", (generation,))
        if not rows:
            same = generation == self.generation
            return Change(generation, generation, dict.fromkeys(KINDS, (0, 0)), _no_keys()) if same else None
        if rows[0][0] != generation + 1:
            return None
        first, last = rows[0], rows[-1]
        added = {kind: (first[1 + 2 * i], last[2 + 2 * i]) for i, kind in enumerate(KINDS)}
        if any(len(packed) % _KEY_BYTES for row in rows for packed in row[7:]):
            raise damaged("the removed keys of a generation have another length")
        removed = {kind: np.frombuffer(b"".join(row[7 + i] for row in rows), "<i8") for i, kind in enumerate(KINDS)}
        return Change(generation, last[0], added, removed)

    def everything(self) -> Change:
        """Return the change from an empty index to the current generation."""
        meta = self.meta
        added = {kind: (0, int(meta.get(f"next_{kind.removesuffix('s')}", "0"))) for kind in KINDS}
        return Change(0, int(meta.get("generation", "0")), added, _no_keys())

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        """Store the files that documents were read from, by id."""
        rows = [(*mark, document_id, *mark) for document_id, mark in marks.items()]
        with self.transaction() as db:
            sql = "UPDATE documents SET file = ?, version = ? WHERE id = ? AND (file, version) IS NOT (?, ?)"
            db.executemany(sql, rows)

    def trim_journal(self, generation: int) -> None:
        """Delete the journal up to a generation."""
        with self.transaction() as db:
            db.execute("DELETE FROM journal WHERE generation <= ?", (generation,))

    # -- rows

    def unpack_names(self, stored: bytes) -> list[int]:
        names: list[int] = unpack(stored).tolist()
        return names

    def mentions(self, chunks: Keys) -> Iterator[tuple[int, int, bool]]:
        sql = f"SELECT key, subjects, names FROM chunks WHERE key {LISTED} ORDER BY key"
        for chunk, subjects, names in self.rows(sql, (self.array(chunks),)):
            for at, name in enumerate(unpack(names).tolist()):
                yield chunk, name, at < subjects

    def attribute_condition(self, condition: Condition, operator: str) -> Query:
        parameters = [item for value in condition.values for item in value]
        if operator:
            return f"kind = ? AND value {operator} ?", parameters
        return f"(kind, value) IN (VALUES {', '.join(['(?, ?)'] * len(condition.values))})", parameters

    def successors(self, spans: Iterable[Span]) -> list[tuple[int, int]]:
        """Return the chunks in some spans, in the order of ids, each with the next one in no span; -1 for none."""
        own: list[Row] = []
        for span in spans:
            own += self.rows("SELECT id, key FROM chunks WHERE key >= ? AND key < ?", span)
        keys, after, found = {key for _, key in own}, -1, list[tuple[int, int]]()
        for chunk_id, key in sorted(own, key=lambda row: row[0].encode("utf-8", "surrogatepass"), reverse=True):
            following = self.rows("SELECT key FROM chunks WHERE id > ? ORDER BY id LIMIT 1", (chunk_id,))
            after = -1 if not following else after if following[0][0] in keys else following[0][0]
            found.append((key, after))
        return found[::-1]

    def name_keys(self, names: Iterable[str]) -> dict[str, int]:
        return self.keys_of_names({name: hash64(normalise(name)) for name in names})

    def keys_of_names(self, spellings: Mapping[str, int]) -> dict[str, int]:
        """Return the keys of the names that exist; each is given with its spelling."""
        found = json.loads(self.rows(_NAME_KEYS, (json.dumps([*spellings.items()]),))[0][0])
        return {name: key for name, key in zip(spellings, found, strict=True) if key is not None}

    def texts_of(self, kind: str, span: Span) -> Iterator[tuple[int, Texts]]:
        """Yield key and fields for keyword search of the chunks in a span, or of their facts, in order."""
        for chunk, fields, facts in self.keyword_texts(span, only=kind):
            if kind == "chunks":
                yield chunk, fields
            for fact, text in facts:
                yield fact, (text,)

    # -- vectors

    def vectors(self, kind: str, span: Span) -> Iterator[tuple[Keys, Matrix]]:
        """Yield keys and vectors of the chunks, facts or names in a span, in order, in pages."""
        if kind == "facts":
            # Facts are numbered chunk by chunk: a span of facts is the facts of a span of chunks.
            ends = self.rows("SELECT min(key), max(key) FROM facts WHERE key >= ? AND key < ?", span)[0]
            if ends[0] is None:
                return
            first, last = (self.value("SELECT chunk FROM facts WHERE key = ?", (key,)) for key in ends)
            span = first, last + 1
        for page in self.pages(_VECTORS[kind], "v", span):
            yield self._decoded(kind, page)

    def vectors_of(self, kind: str, owners: Keys) -> dict[int, Matrix]:
        rows = self.rows(f"{_VECTORS[kind]} WHERE v.key {LISTED} ORDER BY v.key", (self.array(owners),))
        return dict(zip(*self._decoded(kind, rows), strict=True)) if rows else {}

    def _decoded(self, kind: str, rows: Sequence[Row]) -> tuple[Keys, Matrix]:
        keys, codes = self._codes(kind, rows)
        return keys, decode(kind, codes, int(self.meta.get("dim", "1")))

    def _codes(self, kind: str, rows: Sequence[Row]) -> tuple[Keys, Codes]:
        """Return keys and codes of rows as :data:`_VECTORS` selects them."""
        size = code_size(kind, int(self.meta.get("dim", "1")))
        if any(len(data) % size for _, data, _ in rows):
            raise damaged(f"a vector of {kind} has another length")
        codes = np.frombuffer(b"".join(row[1] for row in rows), np.uint8).reshape(-1, size)
        keys = np.concatenate([np.arange(first, first + len(data) // size) for _, data, first in rows])
        _check_ascending(f"{kind}_vectors", keys)
        return keys, codes

    def vector_count(self, kind: str) -> int:
        """Return how many chunks, facts or names have a vector."""
        size = code_size(kind, int(self.meta.get("dim", "1")))
        return int(self.value(f"SELECT total(length(vector)) FROM {kind.removesuffix('s')}_vectors")) // size

    def graph_rows(self, change: Change) -> Iterator[dict[str, list[Row]]]:
        """Yield the added rows that the graph is built from, by table, in pages: names, then whole documents."""
        for page in self.pages("SELECT n.key, n.surface, n.spelling, n.uses FROM names n", "n", change.added["names"]):
            _check_ascending("names", [row[0] for row in page])
            yield {"names": [(*row[:2], normalise(row[1]), *row[2:]) for row in page]}
        start, stop = change.added["chunks"]
        while start < stop:
            last = "SELECT document FROM chunks WHERE key < ? ORDER BY key DESC LIMIT 1"
            ends = self.rows(f"SELECT max(key) FROM chunks WHERE document = ({last})", (start + _GRAPH_PAGE,))[0][0]
            span = start, max(min(start + _GRAPH_PAGE, stop), 1 + (ends or 0))
            rows = {
                table: self.rows(
                    f"SELECT {GRAPH_COLUMNS[table]} FROM {table} WHERE {column} >= ? AND {column} < ? ORDER BY 1", span
                )
                for table, column in (("chunks", "key"), ("facts", "chunk"), ("aliases", "chunk"))
            }
            texts = {row[0]: row[5] for row in rows["chunks"]}
            for table in ("chunks", "facts"):
                _check_ascending(table, [row[0] for row in rows[table]])
            if not texts.keys() >= {row[1] for row in rows["facts"]} | {row[0] for row in rows["aliases"]}:
                raise damaged("a chunk is missing")
            rows["facts"] = [
                (*row[:5], text_of_fact(None, True, texts[row[1]], *row[3:5]), *row[6:]) if row[-1] else row
                for row in rows["facts"]
            ]
            yield rows
            start = span[1]

    def problems(self) -> Iterator[str]:
        """Yield what is damaged or inconsistent within the records. Raises nothing."""
        for check in (self._structure_problems, self.content_problems, self._checksum_problems, self._name_problems):
            yield from reported("records", check)

    def _structure_problems(self) -> Iterator[str]:
        yield from (f"records: {row[0]}" for row in self.rows("PRAGMA integrity_check") if row[0] != "ok")
        yield from (f"records: {row[0]} refers to a missing row" for row in self.rows("PRAGMA foreign_key_check"))
        meta: dict[str, str] = dict(self.rows("SELECT name, value FROM meta"))
        if _is_damaged(self._db, meta):
            yield "records: the settings differ from their checksum"

    def _checksum_problems(self) -> Iterator[str]:
        for page in self.pages("SELECT d.key, d.id FROM documents d", "d"):
            span = page[0][0], page[-1][0] + 1
            stored: dict[int, int] = dict(
                self.rows("SELECT * FROM checksums WHERE document >= ? AND document < ?", span)
            )
            found = self._document_checksums(span)
            for key, document_id in page:
                if stored.get(key) != found[key]:
                    yield f"records: document {document_id!r} is damaged: its rows differ from their checksum"

    def _document_checksums(self, span: Span) -> dict[int, int]:
        """Return the checksums of the documents whose keys lie in a span, computed from their rows."""
        inside = "document >= ? AND document < ?"
        of_chunks = f"IN (SELECT key FROM chunks WHERE {inside})"
        with self.lock:  # texts are compressed: their column has another type
            chunks = self._db.execute(f"SELECT * FROM chunks WHERE {inside} ORDER BY key", span).fetchall()
        surfaces: dict[int, str] = dict(
            self.rows(
                f"SELECT key, surface FROM names WHERE key {LISTED}",
                (self.array(np.unique(unpack(b"".join(row[7] for row in chunks)))),),
            )
        )
        return document_checksums(
            self.rows("SELECT * FROM documents WHERE key >= ? AND key < ?", span),
            ((row, [surfaces.get(name, "") for name in unpack(row[7]).tolist()]) for row in chunks),
            self.rows(f"SELECT * FROM facts WHERE chunk {of_chunks} ORDER BY key", span),
            chain.from_iterable(
                self.rows(f"SELECT * FROM {table} WHERE chunk {of_chunks} ORDER BY rowid", span)
                for table in ("claims", "aliases")
            ),
            chain.from_iterable(
                self.rows(f"SELECT * FROM {table} WHERE key {of_chunks} ORDER BY key", span)
                for table in ("chunk_vectors", "fact_vectors")
            ),
        )

    def _name_problems(self) -> Iterator[str]:
        counted: Counter[int] = Counter()
        for page in self.pages("SELECT c.key, c.names FROM chunks c", "c"):
            counted.update(unpack(b"".join(row[1] for row in page)).tolist())
        stored: dict[int, int] = dict(self.rows("SELECT key, uses FROM names"))
        wrong = [key for key in counted.keys() | stored.keys() if counted[key] != stored.get(key, 0)]
        if wrong:
            yield f"records: {len(wrong)} names are counted wrongly, such as key {min(wrong)}"
        wrong = []
        for page in self.pages(_VECTORS["names"], "v"):
            keys, codes = self._codes("names", page)
            wrong += keys[are_damaged(codes)].tolist()
        if wrong:
            yield f"records: {len(wrong)} vectors of names are damaged, such as key {min(wrong)}"


def reported(what: str, check: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Yield the problems that a check finds. What it raises is a problem, too: damaged rows raise anything."""
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001
        yield f"{what}: cannot be read ({type(error).__name__}: {error})"


def meta_checksum(db: sqlite3.Connection, meta: Mapping[str, str]) -> str:
    """Return the checksum of settings and table definitions, with the generation for which it was computed."""
    tables: list[Row] = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    checked = sorted((item for item in meta.items() if item[0] != CHECKSUM), key=repr)
    return f"{meta['generation']}:{crc32(repr((checked, tables)).encode('utf-8', 'surrogatepass'))}"


def _is_damaged(db: sqlite3.Connection, meta: Mapping[str, str]) -> bool:
    """Return whether settings differ from their checksum. An index without a change has none."""
    return "generation" in meta and meta.get(CHECKSUM) != meta_checksum(db, meta)


def _check_ascending(table: str, keys: Sequence[int] | Keys) -> None:
    """Raise if keys are not in the order in which the table has them."""
    if (np.diff(keys) <= 0).any() or (len(keys) and keys[0] < 0):
        raise damaged(f"the keys of {table} are not in order")


def _no_keys() -> dict[str, Keys]:
    return {kind: np.empty(0, np.int64) for kind in KINDS}
