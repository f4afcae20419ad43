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
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from graphrag_core import forks
from graphrag_core.engine.analysis import is_packed
from graphrag_core.engine.codes import code_size, decode
from graphrag_core.engine.embedded.schema import (
    APPLICATION_ID,
    FORMAT,
    KINDS,
    NAME_BYTES,
    TABLES,
    Change,
    Row,
    Span,
    document_checksums,
    inflate,
    unpack,
)
from graphrag_core.engine.filter_sql import SQLITE, check_keys, filter_sql
from graphrag_core.engine.graph.snapshot import Name
from graphrag_core.engine.rows import (
    FACT_COLUMNS,
    DocumentTables,
    Texts,
    chunk_of,
    document_of,
    fact_search_text,
    keyword_fields,
    metadata_problems,
    text_of_fact,
    unpack_headings,
)
from graphrag_core.errors import DamagedIndex, DiskError, FilterError, GraphRAGError, NotAnIndex, UnsupportedFormat
from graphrag_core.filters import Filter
from graphrag_core.model import Chunk, Document
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import hash64, normalise

_log = logging.getLogger(__name__)

_PAGE = 500
_UNIT = 1e-5  # how far the length of a stored vector may be from 1
_MOST_CACHED = 50_000  # names that are kept in memory
_PAGE_BYTES = 8_192  # most rows are about a thousand bytes long, and small pages would be filled badly
_GRAPH_PAGE = 1_000
_BUSY_TIMEOUT = 10_000  # milliseconds to wait for another process
CHECKSUM = "checksum"
"""The setting with the checksum of the others."""
_UNCHECKED = ("edits_saved", "merge_similar", CHECKSUM)  # written outside of changes
_MANY_LOG_BYTES = 4_000_000  # of the write-ahead log, from which on it is emptied after a change
_INTERNAL = (
    CHECKSUM,
    "edits_saved",
    "generation",
    "merge_similar",
    "next_chunk",
    "next_document",
    "next_fact",
    "next_name",
)

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
CHUNK = """
SELECT c.key, c.id, d.id, inflate(c.text), coalesce(d.heading, d.title), c.ordinal, c.start, d.metadata, c.headings,
       c.page
FROM chunks c JOIN documents d ON d.key = c.document
"""
FACT_TEXT = "text_of_fact(f.text, f.is_plain, c.text, f.start, f.stop)"
"""The text of a fact."""
FACT = f"""
SELECT f.key, f.names, {FACT_TEXT}, c.id || '/' || f.ordinal, c.id, {FACT_COLUMNS}
FROM facts f JOIN chunks c ON c.key = f.chunk
"""
GRAPH_COLUMNS = {
    "names": "*",
    "chunks": "key, id, document, ordinal, start, inflate(text), subjects, names",
    "facts": "*",
    "aliases": "*",
}
"""The columns that the graph is built from, by table."""
ADD_ACCESSES = """
UPDATE facts SET access_count = access_count + ?, last_accessed = max(coalesce(last_accessed, 0), ?) WHERE key = ?
"""
LISTED = "IN (SELECT value FROM json_each(?))"
"""A condition on a column; its parameter is a JSON list."""
_WANTED = "FROM json_each(?) AS wanted CROSS JOIN"  # faster than LISTED for keys that are known to exist
NEAR = f"""
WITH own AS (SELECT near_1, near_2, near_3 FROM chunks WHERE key {LISTED})
SELECT key, near_1, near_2, near_3 FROM chunks WHERE near_1 IN (SELECT near_1 FROM own)
OR near_2 IN (SELECT near_2 FROM own) OR near_3 IN (SELECT near_3 FROM own)
"""
"""The signatures of some chunks, and of all chunks whose texts may be copies of theirs."""
# One row with all keys: sqlite3 releases and takes the GIL once per row.
_NAME_KEYS = """
SELECT json_group_array(
    (SELECT key FROM names
     WHERE entity = json_extract(wanted.value, '$[0]') AND surface = json_extract(wanted.value, '$[1]'))
) FROM json_each(?) AS wanted
"""


class Records:
    """The database of an index, in a file or in memory. Safe to use from many threads.

    A read-only database stays on the generation it first saw until :meth:`refresh`.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.lock = threading.RLock()
        self._names: dict[int, Name] = {}
        self._settings: dict[str, str] | None = None  # as they were read since the last change
        self._side_lock = threading.Lock()
        self._side: sqlite3.Connection | None = None  # reads committed rows while the other one writes
        self._immutable = False
        self._seen = 0  # when the file was last changed, as of the last refresh
        self._has_deleted_text = path is not None  # in the write-ahead log, which a crash may have left
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
        db.create_function("inflate", 1, inflate, deterministic=True)
        db.create_function("text_of_fact", 5, _text_of_fact, deterministic=True)
        return db

    def _prepare(self) -> None:
        run = self._db.execute
        run("PRAGMA foreign_keys = ON")
        run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        run("PRAGMA cache_size = -8000")
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and self.path is not None and (self.read_only or _had_content(self.path)):
            raise DamagedIndex(
                f"{self.path} is empty, but was the database of an index: restore a backup, or delete the folder "
                f"{self.path.parent} and index the documents again"
            )
        if empty and not self.read_only:
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA journal_mode = WAL")
            self._db.executescript(
                f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
            )
        elif run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise NotAnIndex(f"{self.path} is an SQLite file, but not an index: choose another folder")
        found = run("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise UnsupportedFormat(
                f"{self.path} has format {found}, this release reads format {FORMAT}: "
                "upgrade hybrid-graphrag, or index the documents again into another folder"
            )
        if self.read_only:
            self.refresh()
        else:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        meta = dict(run("SELECT name, value FROM meta").fetchall())
        if _is_damaged(meta, definitions(self._db)):
            raise DamagedIndex(
                f"{self.path}: the settings of the index are damaged: restore a backup, or index the documents again "
                "into another folder"
            )

    def _translated(self, error: Exception, *, in_transaction: bool = False) -> Exception:
        """Return the library's error for an error of SQLite. A transaction was rolled back."""
        text = str(error)
        if "not a database" in text:
            return NotAnIndex(
                f"{self.path} is not an index, or is damaged ({text}): restore a backup or choose another folder"
            )
        if isinstance(error, UnicodeError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return DamagedIndex(
                f"{self.path} is damaged ({text}): restore a backup, or index the documents again into another folder"
            )
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
            self._settings = None
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
        """Return the rows of a statement."""
        with self.lock:
            try:
                return _fetched(self._db, sql, parameters)
            except _ERRORS as error:
                raise self._translated(error) from error

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row."""
        return self.rows(sql, parameters)[0][0]

    def pages(self, sql: str, column: str, span: Span | Keys) -> Iterator[list[Row]]:
        """Yield the rows whose first column lies in a span, or is one of some keys, in order, in pages."""
        if isinstance(span, np.ndarray):
            for first in range(0, len(span), _PAGE):
                wanted = json.dumps(span[first : first + _PAGE].tolist())
                yield self.rows(f"{sql} WHERE {column} {LISTED} ORDER BY {column}", (wanted,))
            return
        start, stop = span
        while page := self.rows(
            f"{sql} WHERE {column} >= ? AND {column} < ? ORDER BY {column} LIMIT {_PAGE}", (start, stop)
        ):
            yield page
            if len(page) < _PAGE:
                return
            start = page[-1][0] + 1

    def refresh(self) -> None:
        """Let a read-only database see the newest generation."""
        if self.read_only:
            with self.lock:
                self._seen = self._file_time()
                self._settings = None
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
        return int(self._read_committed("SELECT value FROM meta WHERE name = 'generation'", ())[0][0])

    def _read_committed(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement as of the last commit, without waiting for a transaction of this process."""
        with self._side_lock:
            try:
                self._side = self._side or self._connect("ro")
                return _fetched(self._side, sql, parameters)
            except _ERRORS as error:
                raise self._translated(error) from error

    def note_deletion(self) -> None:
        """Let :meth:`shorten_log` empty the log, which has the text of what was deleted."""
        self._has_deleted_text = True

    def shorten_log(self) -> None:
        """Empty the write-ahead log if it has deleted text, or is long."""
        if self.path is not None and not self.read_only:
            try:
                size = Path(f"{self.path}-wal").stat().st_size
            except OSError:
                size = 0
            if size and (self._has_deleted_text or size > _MANY_LOG_BYTES):
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
        self._has_deleted_text = self._has_deleted_text and bool(busy)
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

    def add_accesses(self, accesses: Mapping[int, tuple[int, float]]) -> None:
        """Add access counts to facts; deleted facts are ignored. Failure is logged only."""
        rows = [(count, last, fact) for fact, (count, last) in accesses.items()]
        try:
            with self.transaction() as db:
                db.executemany(ADD_ACCESSES, rows)
        except GraphRAGError as error:
            _log.warning("the access counts of facts could not be written: %s", error)

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
        return int(self.meta("generation", "0"))

    def meta(self, name: str, default: str = "") -> str:
        """Return a stored setting."""
        found = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else default

    def settings(self) -> dict[str, str]:
        """Return the settings that a caller of :meth:`~graphrag_core.ports.Engine.write` stored."""
        with self.lock:
            if self._settings is None:
                stored = self.rows("SELECT name, value FROM meta")
                found = {name: value for name, value in stored if name not in _INTERNAL}
                if self._db.in_transaction and not self.read_only:  # they may change or be rolled back
                    return found
                self._settings = found
            return dict(self._settings)

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Store settings; inside :meth:`transaction` as part of it."""
        pairs = [item for pair in values.items() for item in pair]
        with self.lock:
            self._settings = None
            self.rows(f"INSERT OR REPLACE INTO meta VALUES {', '.join(['(?, ?)'] * len(values))}", pairs)

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
        removed = {kind: np.frombuffer(b"".join(row[7 + i] for row in rows), "<i8") for i, kind in enumerate(KINDS)}
        return Change(generation, last[0], added, removed)

    def everything(self) -> Change:
        """Return the change from an empty index to the current generation."""
        meta: dict[str, str] = dict(
            self.rows("SELECT name, value FROM meta")
        )  # in one statement: another thread may commit
        added = {kind: (0, int(meta.get(f"next_{kind.removesuffix('s')}", "0"))) for kind in KINDS}
        return Change(0, int(meta.get("generation", "0")), added, _no_keys())

    def trim_journal(self, generation: int) -> None:
        """Delete the journal up to a generation."""
        with self.transaction() as db:
            db.execute("DELETE FROM journal WHERE generation <= ?", (generation,))

    # -- documents

    def stored(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist, as of the last commit.

        Does not wait for a transaction in another thread, unless the database is in memory.
        """
        sql = "SELECT id, digest FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        if self.path is None or self.read_only:
            rows = self.rows(sql, (json.dumps(ids),))
        else:
            rows = self._read_committed(sql, (json.dumps(ids),))
        return dict(rows)

    def document_ids(self, after: str | None, scope: Filter | None) -> list[str]:
        """Return a page of ids of the documents that match a filter, in order of id, after an id."""
        inside, parameters = "", list[Any]()
        if scope is not None:
            if not check_keys(self.rows, scope, SQLITE):
                return []
            sql, parameters = filter_sql(scope, SQLITE)
            inside = f"AND key IN ({sql})"
        return [
            row[0]
            for row in self.rows(
                f"SELECT id FROM documents WHERE (? IS NULL OR id > ?) {inside} ORDER BY id LIMIT {_PAGE}",
                (after, after, *parameters),
            )
        ]

    def document(self, document_id: str) -> Document | None:
        """Return a document, put together from its chunks."""
        rows = self.rows("SELECT id, title, metadata, marks FROM documents WHERE id = ?", (document_id,))
        return document_of(rows[0], self.chunks_of(document_id)) if rows else None

    def parsed(self, document_ids: Sequence[str], *, accesses: bool) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors."""
        ids = (json.dumps(list(document_ids)),)
        chunks = self.rows(f"{CHUNK} WHERE d.id {LISTED} ORDER BY c.key", ids)
        keys = np.array([row[0] for row in chunks], np.int64)
        of_chunks = (json.dumps(keys.tolist()),)
        claims, aliases = (
            self.rows(f"SELECT * FROM {table} WHERE chunk {LISTED} ORDER BY rowid", of_chunks)
            for table in ("claims", "aliases")
        )
        facts = [
            (chunk, key, unpack(names).tolist(), *others)
            for chunk, key, names, *others in self.rows(
                f"SELECT f.chunk, f.key, f.names, {FACT_TEXT}, {FACT_COLUMNS} FROM facts f "
                f"JOIN chunks c ON c.key = f.chunk WHERE c.key {LISTED} ORDER BY f.key",
                of_chunks,
            )
        ]
        mentions = [
            (chunk, name, at < subjects)
            for chunk, subjects, names in self.rows(
                f"SELECT key, subjects, names FROM chunks WHERE key {LISTED}", of_chunks
            )
            for at, name in enumerate(unpack(names).tolist())
        ]
        used = {row[1] for row in mentions}.union(*(row[2] for row in facts))
        vectors = ({key: vector for page in self._vectors(kind, keys) for key, vector in zip(*page, strict=True)}
                   for kind in ("chunks", "facts"))  # fmt: skip
        documents = self.rows(f"SELECT id, title, metadata, marks, digest FROM documents WHERE id {LISTED}", ids)
        surfaces = {key: name.surface for key, name in self.names(sorted(used)).items()}
        tables = DocumentTables(documents, chunks, mentions, claims, aliases, facts, surfaces, *vectors)
        return tables.parsed(document_ids, accesses=accesses)

    def in_scope(self, scope: Filter) -> Keys:
        """Return the keys of the chunks whose documents match a filter, in order."""
        if not check_keys(self.rows, scope, SQLITE):
            return np.empty(0, np.int64)
        sql, parameters = filter_sql(scope, SQLITE)
        return self._keys(f"SELECT key FROM chunks WHERE document IN ({sql}) ORDER BY key", parameters)

    def facts_of_chunks(self, chunks: Keys) -> Keys:
        """Return the keys of the facts of some chunks, in order."""
        return self._keys(f"SELECT key FROM facts WHERE chunk {LISTED} ORDER BY key", (json.dumps(chunks.tolist()),))

    # -- chunks, facts and names by key

    def chunk_keys(self, span: Span) -> Keys:
        """Return the chunk keys in a span, in order."""
        return self._keys("SELECT key FROM chunks WHERE key >= ? AND key < ? ORDER BY key", span)

    def chunk_keys_by_id(self) -> Keys:
        """Return the keys of all chunks, in the order of their ids."""
        return self._keys("SELECT key FROM chunks ORDER BY id", ())

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

    def fact_keys(self, span: Span) -> Keys:
        """Return the fact keys in a span, in order."""
        return self._keys("SELECT key FROM facts WHERE key >= ? AND key < ? ORDER BY key", span)

    def name_keys(self, names: Iterable[str]) -> dict[str, int]:
        """Return the keys of the names that exist."""
        wanted = list(names)
        pairs = [(hash64(normalise(name)), name) for name in wanted]
        found = json.loads(self.rows(_NAME_KEYS, (json.dumps(pairs),))[0][0])
        return {name: key for name, key in zip(wanted, found, strict=True) if key is not None}

    def name_vectors(self, names: Iterable[str]) -> dict[str, Matrix]:
        """Return the vectors of names that have one."""
        keys = self.name_keys(names)
        dim = int(self.meta("dim", "1"))
        rows = self.rows(f"SELECT name, vector FROM name_vectors WHERE name {LISTED}", (json.dumps([*keys.values()]),))
        of_key = dict(zip((row[0] for row in rows), _matrix("names", rows, dim), strict=True)) if rows else {}
        return {name: of_key[key] for name, key in keys.items() if key in of_key}

    def facts_to_hide(self, keys: Keys) -> Iterator[tuple[int, list[int], str, str, str]]:
        """Yield key, names, relation, value and text of facts."""
        rows = self.rows(
            f"SELECT f.key, f.names, coalesce(f.relation, ''), coalesce(f.value, ''), {FACT_TEXT} "
            f"FROM facts f JOIN chunks c ON c.key = f.chunk WHERE f.key {LISTED}", (json.dumps(keys.tolist()),)
        )  # fmt: skip
        return ((key, unpack(names).tolist(), *rest) for key, names, *rest in rows)

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        rows = self.rows(f"{CHUNK} WHERE d.id = ? ORDER BY c.ordinal", (document_id,))
        return [chunk_of(row) for row in rows]

    def names(self, keys: Sequence[int]) -> dict[int, Name]:
        """Return names by key. They are cached: a row never changes."""
        cache = self._names
        if len(cache) > _MOST_CACHED:
            cache.clear()
        found = {key: name for key in keys if (name := cache.get(key)) is not None}
        if len(found) < len(keys):
            missing = [key for key in keys if key not in found]
            sql = f"SELECT n.key, n.surface, n.entity {_WANTED} names n ON n.key = wanted.value"
            rows = self.rows(sql, (json.dumps(missing),))
            fresh = {key: Name(surface, normalise(surface), spelling) for key, surface, spelling in rows}
            cache.update(fresh)
            found |= fresh
        return found

    def chunk_terms(self, keys: Sequence[int]) -> dict[int, tuple[bytes, bytes]]:
        """Return by key the packed terms of chunks, and of their facts."""
        sql = f"SELECT c.key, c.terms, coalesce(c.fact_terms, x'') {_WANTED} chunks c ON c.key = wanted.value"
        return {key: (terms, facts) for key, terms, facts in self.rows(sql, (json.dumps(keys),))}

    # -- what the search indexes are built from

    def keyword_texts(self, kind: str, span: Span | Keys) -> Iterator[tuple[int, Texts]]:
        """Yield key and fields for keyword search of the chunks or facts in a span, or of some keys, in order."""
        yield from self._chunk_texts(span) if kind == "chunks" else self._fact_texts(span)

    def _chunk_texts(self, span: Span | Keys) -> Iterator[tuple[int, Texts]]:
        sql = (
            "SELECT c.key, coalesce(d.heading, d.title), c.headings, inflate(c.text), c.names, c.subjects "
            "FROM chunks c JOIN documents d ON d.key = c.document"
        )
        for page in self.pages(sql, "c.key", span):
            names = self.names(np.unique(unpack(b"".join(row[4][: NAME_BYTES * row[5]] for row in page))).tolist())
            for key, title, headings, text, packed, count in page:
                subjects = [names[name].surface for name in unpack(packed[: NAME_BYTES * count]).tolist()]
                yield key, keyword_fields(title, unpack_headings(headings), subjects, text)

    def _fact_texts(self, span: Span | Keys) -> Iterator[tuple[int, Texts]]:
        sql = (
            "SELECT f.key, coalesce(d.heading, d.title), c.headings, f.text, f.relation, f.names, f.value, f.chunk, "
            "f.is_plain, f.start, f.stop "
            "FROM facts f JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document"
        )
        last, whole = -1, ""  # the text of a chunk is read once, not for each of its facts
        for page in self.pages(sql, "f.key", span):
            names = self.names(np.unique(unpack(b"".join(row[5] for row in page if row[4]))).tolist())
            for key, title, headings, own, relation, packed, value, chunk, *place in page:
                if own is None and chunk != last:
                    last, whole = chunk, self.value("SELECT inflate(text) FROM chunks WHERE key = ?", (chunk,))
                text = text_of_fact(own, place[0], whole, *place[1:])
                ends = [names[name].surface for name in unpack(packed).tolist()] if relation else []
                yield key, (fact_search_text(title, headings, text, relation, ends, value),)

    def vectors(self, kind: str, span: Span) -> Iterator[tuple[Keys, Matrix]]:
        """Yield keys and vectors of the chunks, facts or names in a span, in order, in pages."""
        if kind == "facts":
            # Facts are numbered chunk by chunk: a span of facts is the facts of a span of chunks.
            ends = self.rows("SELECT min(key), max(key) FROM facts WHERE key >= ? AND key < ?", span)[0]
            if ends[0] is None:
                return
            first, last = (self.value("SELECT chunk FROM facts WHERE key = ?", (key,)) for key in ends)
            span = first, last + 1
        yield from self._vectors(kind, span)

    def _vectors(self, kind: str, owners: Span | Keys) -> Iterator[tuple[Keys, Matrix]]:
        """Yield keys and vectors of chunks or names, or of the facts of chunks, in order, in pages."""
        dim = int(self.meta("dim", "1"))
        if kind != "facts":
            column = kind.removesuffix("s")
            for page in self.pages(f"SELECT {column}, vector FROM {column}_vectors", column, owners):
                yield np.array([row[0] for row in page], np.int64), _matrix(kind, page, dim)
            return
        # A chunk's facts have consecutive keys.
        of_chunk = "SELECT v.chunk, v.vectors, (SELECT min(key) FROM facts WHERE chunk = v.chunk) FROM fact_vectors v"
        size = code_size(kind, dim)
        for page in self.pages(of_chunk, "v.chunk", owners):
            keys = [np.arange(row[2], row[2] + len(row[1]) // size) for row in page]
            if keys:
                yield np.concatenate(keys), _matrix(kind, page, dim)

    def vector_count(self, kind: str) -> int:
        """Return how many chunks, facts or names have a vector."""
        size = code_size(kind, int(self.meta("dim", "1")))
        column = "vectors" if kind == "facts" else "vector"
        found = self.value(f"SELECT total(length({column})) FROM {kind.removesuffix('s')}_vectors")
        return int(found) // size

    def graph_rows(self, change: Change) -> Iterator[dict[str, list[Row]]]:
        """Yield the added rows that the graph is built from, by table, in pages: names first."""
        columns = {"names": {"names": "key"}, "chunks": {"chunks": "key", "facts": "chunk", "aliases": "chunk"}}
        for kind in ("names", "chunks"):
            start, stop = change.added[kind]
            for first in range(start, stop, _GRAPH_PAGE):
                span = first, min(first + _GRAPH_PAGE, stop)
                rows = {
                    table: self.rows(
                        f"SELECT {GRAPH_COLUMNS[table]} FROM {table} WHERE {column} >= ? AND {column} < ? ORDER BY 1",
                        span,
                    )
                    for table, column in columns[kind].items()
                }
                if kind == "names":
                    rows["names"] = [graph_name(*row) for row in rows["names"]]
                else:
                    texts = {row[0]: row[5] for row in rows["chunks"]}
                    rows["facts"] = [
                        (*row[:5], text_of_fact(None, True, texts[row[1]], *row[3:5]), *row[6:]) if row[-1] else row
                        for row in rows["facts"]
                    ]
                yield rows

    def problems(self) -> Iterator[str]:
        """Yield what is damaged or inconsistent within the records. Raises nothing."""
        yield from reported("records", self._structure_problems)
        yield from reported("records", self._content_problems)
        yield from reported("records", self._checksum_problems)
        yield from reported("records", self._name_problems)

    def _structure_problems(self) -> Iterator[str]:
        yield from (f"records: {row[0]}" for row in self.rows("PRAGMA integrity_check") if row[0] != "ok")
        yield from (f"records: {row[0]} refers to a missing row" for row in self.rows("PRAGMA foreign_key_check"))
        meta: dict[str, str] = dict(self.rows("SELECT name, value FROM meta"))
        if _is_damaged(meta, definitions(self._db)):
            yield "records: the settings differ from their checksum"

    def _content_problems(self) -> Iterator[str]:
        counted: Counter[int] = Counter()
        chunks = self.everything().added["chunks"]
        for page in self.pages("SELECT key, names FROM chunks", "key", chunks):
            counted.update(unpack(b"".join(row[1] for row in page)).tolist())
        stored: dict[int, int] = dict(self.rows("SELECT key, uses FROM names"))
        wrong = [key for key in counted.keys() | stored.keys() if counted[key] != stored.get(key, 0)]
        if wrong:
            yield f"records: {len(wrong)} names are counted wrongly, such as key {min(wrong)}"
        facts: dict[int, int] = dict(self.rows("SELECT chunk, count(*) FROM facts GROUP BY chunk"))
        without = [
            key
            for page in self.pages(
                "SELECT key, terms, fact_terms FROM chunks", "key", self.everything().added["chunks"]
            )
            for key, terms, fact_terms in page
            if not is_packed(terms, fact_terms, facts.get(key, 0))
        ]
        if without:
            yield f"records: {len(without)} chunks lack the terms of their facts, such as key {min(without)}"
        for page in self.pages("SELECT key, id, metadata FROM documents", "key", (0, 1 << 62)):
            span = page[0][0], page[-1][0] + 1
            attributes = self.rows(
                "SELECT document, name, kind, value FROM attributes WHERE document >= ? AND document < ?", span
            )
            yield from metadata_problems(page, attributes, lambda _, value: value)

    def _checksum_problems(self) -> Iterator[str]:
        for page in self.pages("SELECT key, id FROM documents", "key", (0, 1 << 62)):
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
        chunks = self.rows(f"SELECT * FROM chunks WHERE {inside} ORDER BY key", span)
        surfaces: dict[int, str] = dict(
            self.rows(
                f"SELECT key, surface FROM names WHERE key {LISTED}",
                (json.dumps(np.unique(unpack(b"".join(row[7] for row in chunks))).tolist()),),
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
                self.rows(f"SELECT * FROM {table} WHERE chunk {of_chunks} ORDER BY chunk", span)
                for table in ("chunk_vectors", "fact_vectors")
            ),
        )

    def _name_problems(self) -> Iterator[str]:
        wrong = [
            key
            for page in self.pages("SELECT key, surface, entity FROM names", "key", (0, 1 << 62))
            for key, surface, entity in page
            if hash64(normalise(surface)) != entity
        ]
        for keys, vectors in self.vectors("names", (0, 1 << 62)):
            norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
            wrong += keys[(norms != 0) & ~(np.abs(norms - 1) < _UNIT)].tolist()  # a flipped bit changes the length
        if wrong:
            yield f"records: {len(wrong)} names are damaged, such as key {min(wrong)}"

    def _keys(self, sql: str, parameters: Sequence[Any]) -> Keys:
        rows = self.rows(sql, parameters)
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def reported(what: str, check: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Yield the problems that a check finds. What it raises is a problem, too: damaged rows raise anything."""
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001
        yield f"{what}: cannot be read ({type(error).__name__}: {error})"


def _fetched(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Row]:
    """Return the rows of a statement that only reads.

    SQLite reports any exception in one of our functions with the same words. A value that is damaged raises again; if
    nothing does, the exception was an interrupt.
    """
    try:
        return db.execute(sql, parameters).fetchall()
    except sqlite3.OperationalError as error:
        if _FUNCTION_RAISED not in str(error):
            raise
        db.execute(sql, parameters).fetchall()
        raise KeyboardInterrupt from error


def definitions(db: sqlite3.Connection) -> list[Row]:
    """Return the definitions of all tables and indexes."""
    found: list[Row] = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    return found


def meta_checksum(meta: Mapping[str, str], tables: Sequence[Row]) -> str:
    """Return the checksum of settings and definitions, with the generation for which it was computed."""
    checked = sorted((item for item in meta.items() if item[0] not in _UNCHECKED), key=repr)
    return f"{meta['generation']}:{crc32(repr((checked, tables)).encode('utf-8', 'surrogatepass'))}"


def _is_damaged(meta: Mapping[str, str], tables: Sequence[Row]) -> bool:
    """Return whether settings differ from their checksum. An index without a change has none."""
    return "generation" in meta and meta.get(CHECKSUM) != meta_checksum(meta, tables)


def _had_content(path: Path) -> bool:
    """Return whether an index was in a folder whose database is empty or new."""
    folder = path.parent
    search_indexes = (*folder.glob("keywords/*/state.json"), *folder.glob("derived/*/manifest.json"))
    return bool(search_indexes)


def graph_name(key: int, surface: str, entity: int, uses: int) -> Row:
    """Return a row of names with the normalised name, from which the graph is built."""
    return key, surface, normalise(surface), entity, uses


def _text_of_fact(own: str | None, is_plain: bool, text: str | bytes, start: int, stop: int) -> str:
    return text_of_fact(own, is_plain, inflate(text) if own is None else "", start, stop)


def _no_keys() -> dict[str, Keys]:
    return {kind: np.empty(0, np.int64) for kind in KINDS}


def _matrix(kind: str, page: Sequence[Row], dim: int) -> Matrix:
    codes = np.frombuffer(b"".join(row[1] for row in page), np.uint8)
    return decode(kind, codes.reshape(-1, code_size(kind, dim)), dim)
