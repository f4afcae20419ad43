"""Keyword search (BM25) with tantivy over the fields of a text, with weights."""

import json
import logging
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import tantivy

from graphrag_core import forks
from graphrag_core.deadline import check_deadline
from graphrag_core.engine import analysis
from graphrag_core.engine.graph.sparse import Flags
from graphrag_core.engine.rows import FIELDS, Texts
from graphrag_core.errors import DiskError
from graphrag_core.key_sets import best
from graphrag_core.ports import Keys, Ranking

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_HEAP = 16_000_000  # bytes for each writer; tantivy needs at least 15 million
_STATE = "state.json"
_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")  # files of tantivy
_CATALOGUES = ("meta.json", ".managed.json")  # tantivy's lists of segments and files, which have no checksum
_FOOTER = struct.Struct("<II")  # ends every other file of tantivy: the length of the JSON before it, and a number
_MAGIC = 1337
_COMPONENTS = ("term", "idx", "pos", "fieldnorm", "fast", "store")
_MOST_TERMS = 256
_SMALL_SCOPE = 500  # keys up to which a scope is part of the query
_FEW = 1_000  # texts that have a term, up to which all of them are read
_AHEAD = 1.25  # times as many are searched as will be enough if those in scope are as good as the others

_PHRASE = 1.0  # weight of a quoted phrase


def is_damage(error: BaseException) -> bool:
    """Return whether tantivy raised an exception because of its files. A panic in Rust is not an ``Exception``."""
    return isinstance(error, (OSError, ValueError, TypeError, IndexError)) or type(error).__name__ == "PanicException"


def _repaired(read: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Let a method that fails on a damaged index read another one, which is built in memory from the source."""

    @wraps(read)
    def read_or_repair(self: Any, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        damaged = self._index
        try:
            with forks.fork_waits():  # tantivy initialises some values when they are first used
                return read(self, *arguments, **named)
        except BaseException as error:
            if not is_damage(error):
                raise
            self._move_to_memory(damaged, error)
        return read(self, *arguments, **named)

    return read_or_repair


class TantivyKeywords:
    """Texts of one or more fields under integer keys, in a folder or in memory.

    ``fields`` is the number of fields. Only an index of several fields finds quoted phrases. Removed texts are never
    returned, but count in BM25's statistics until tantivy merges their segment or all texts are replaced.

    The generation is stored beside the index after each commit. A process that crashes between the two leaves the older
    number, and the change is applied again: adding a key that exists replaces its text.

    Opening checks the checksums of tantivy's files before tantivy reads them: a damaged length can make it ask for so
    much memory that the process ends. What is found damaged while it is searched is built again in memory from
    ``source``, which returns all texts; the next opening for writing builds the files again.

    Parameters
    ----------
    is_quiet
        False if another process may be writing: then files may come and go while they are checked.
    read_only
        Whether the files must not be changed.

    Attributes
    ----------
    generation
        The generation last applied; -1 for a new index.
    tombstones
        How many removed texts still count in BM25's statistics.
    """

    def __init__(
        self,
        folder: Path | None = None,
        fields: int = 1,
        source: Callable[[], Iterable[tuple[int, Texts]]] | None = None,
        *,
        is_quiet: bool = True,
        read_only: bool = False,
    ) -> None:
        self.folder = folder
        self._source = source
        self._read_only = read_only
        self._changing = threading.RLock()
        self._weights = dict(list(FIELDS.items())[:fields])
        self._used: set[str] = set()  # the fields that some text has; the others are not searched
        self._writer: tantivy.IndexWriter | None = None
        self._in_step = False  # whether the texts are known to have the stored generation
        self._half_done = False  # whether a change began and did not end
        self.generation, self.tombstones = -1, 0
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            if is_quiet and (found := next(self._file_problems(), "")):
                raise DiskError(f"{folder}: the keyword index is damaged ({found})")  # noqa: TRY301
            self._open(folder)
        except BaseException as error:
            if not is_damage(error):
                raise
            raise DiskError(f"{folder}: the keyword index cannot be opened ({error})") from error
        expected = None if folder is None or not is_quiet else _read_state(folder / _STATE).get("texts")
        if expected is not None and expected != self.size:
            raise DiskError(f"{folder}: the keyword index has {self.size} texts instead of {expected}")
        forks.watch(self)

    def _open(self, folder: Path | None) -> None:
        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("key", indexed=True, fast=True)
        for field in self._weights:
            positions = field == "body" and len(self._weights) > 1
            schema.add_text_field(field, tokenizer_name="words", index_option="position" if positions else "freq")
        with forks.fork_waits():
            index = tantivy.Index(schema.build(), path=None if folder is None else str(folder))
            # By default a thread of tantivy opens other segments when it likes, while a reader keeps its generation.
            index.config_reader(reload_policy="manual")
        index.register_tokenizer("words", analysis.analyzer())
        # A searcher of it is never kept: what is dropped last unmaps the files of deleted segments, and to free them
        # takes the system milliseconds for each. That must be tantivy's reload, which releases the GIL.
        self._index = index
        self.refresh()

    def after_fork_in_child(self) -> None:
        """Keep what can be searched; never free it nor the writer, whose threads are in the parent."""
        if self.folder is not None:
            # tantivy releases a lock by closing its file: a copy would hold it for as long as this process lives.
            for name in _LOCKS:
                forks.close_copies(self.folder / name)
        forks.leak(self._index, self._writer)
        self._writer = None

    def refresh(self) -> None:
        """Load what another process has committed."""
        if self.folder is not None:
            state = _read_state(self.folder / _STATE)
            self.generation, self.tombstones = state.get("generation", -1), state.get("tombstones", 0)
            self._used = set(state.get("fields", ()))
        self._index.reload()

    def apply(self, generation: int, removed: Keys | None, added: Iterable[tuple[int, Texts]]) -> None:
        """Remove texts (None for all), add texts and set the generation: all or nothing, even in a crash."""
        with self._changing:
            if self._half_done:
                self._roll_back()
            in_step, self._in_step, self._half_done = self._in_step, False, True
            self._write_state()
            if self._writer is None:
                self._writer = self._index.writer(_HEAP, 1)
            if removed is None:
                # Not delete_all_documents: it resets tantivy's operation counter, and later deletions may be lost.
                self._writer.delete_documents_by_query(tantivy.Query.all_query())
                tombstones = 0
            else:
                gone = removed.tolist()
                if not in_step:
                    added = list(added)
                    gone += self._known(sorted(key for key, _ in added))
                for key in gone:
                    self._writer.delete_documents_by_term("key", key)
                tombstones = self.tombstones + len(gone)
            used = set() if removed is None else {*self._used}
            for key, texts in added:
                document = tantivy.Document()
                document.add_integer("key", key)
                for field, text in zip(self._weights, texts, strict=False):
                    if text:
                        used.add(field)
                        document.add_text(field, analysis.prepare(text))
                self._writer.add_document(document)
            with forks.fork_waits():
                self._writer.commit()
                self._index.reload()
            self.tombstones, self._used = tombstones, used
            self._write_state(generation=generation, texts=self.size)
            self.generation, self._in_step, self._half_done = generation, True, False

    def _roll_back(self) -> None:
        """Drop the uncommitted part of a change that failed, and reload the committed part."""
        if self._writer is not None:
            try:
                self._writer.rollback()
            except BaseException as error:
                self._writer = None
                if not is_damage(error):
                    raise
        self._index.reload()

    def _write_state(self, **checks: Any) -> None:
        """Store the generation, and what an index at rest can be checked by; nothing of that during a change."""
        if self.folder is not None and not self._read_only:
            state = {
                "generation": self.generation,
                "tombstones": self.tombstones,
                "fields": [field for field in self._weights if field in self._used],
                **checks,
            }
            new = self.folder / f"{_STATE}.new"
            new.write_text(json.dumps({**state, "checksum": _checksum(state)}), "utf-8")
            new.replace(self.folder / _STATE)

    def discard(self) -> None:
        """Let the next change, or the next opening, replace all texts."""
        with self._changing:
            self.generation, self._writer, self._in_step = -1, None, False
            if self.folder is not None and not self._read_only:
                with suppress(OSError):
                    (self.folder / _STATE).unlink(missing_ok=True)

    def _move_to_memory(self, damaged: tantivy.Index, error: BaseException) -> None:
        """Replace a damaged index by one in memory, unless another thread has done so."""
        with self._changing:
            if self._index is not damaged:
                return
            if self._source is None or self.folder is None:
                raise DiskError(f"{self.folder}: the keyword index cannot be read ({error})") from error
            _log.warning("%s is damaged (%s): it is built again in memory from the records, and written by the next "
                         "opening for writing", self.folder, error)  # fmt: skip
            generation = self.generation
            self.discard()
            self.folder = None
            self._open(None)
            self.apply(generation, None, self._source())

    # -- files

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the files. All of them are read."""
        if self.folder is not None:
            for _ in range(3):  # tantivy may merge segments meanwhile
                before = _read(self.folder / "meta.json")
                found = list(self._file_problems())
                if not found or _read(self.folder / "meta.json") == before:
                    break
            yield from found

    def _file_problems(self) -> Iterator[str]:
        folder = self.folder
        if folder is None or not ((folder / _STATE).exists() or any(folder.glob("*.json"))):
            return  # a new index
        state = _read_state(folder / _STATE)
        if not state:
            yield f"{_STATE} is missing or damaged"
        try:
            files = _segment_files(json.loads(_read(folder / "meta.json")))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            yield f"meta.json is missing or damaged ({type(error).__name__})"
            return
        for name, checksum in state.get("catalogues", {}).items():
            if self._writer is None and zlib.crc32(_read(folder / name)) != checksum:
                yield f"{name} is missing or damaged"
        yield from (f"{name} {problem}" for name in files if (problem := _footer_problem(folder / name)))

    @_repaired
    def search(self, text: str, k: int, visible: Flags | None = None) -> Ranking:
        """Return the best ``k`` keys with a positive score, best first, and what ties with the last.

        ``visible`` restricts the search: whether each key may be found, by key. The more keys are not visible, the more
        are searched.
        """
        query, searcher = self._query(text), self._index.searcher()
        size = searcher.num_docs
        inside = size if visible is None else int(np.count_nonzero(visible))
        if query is None or k < 1 or min(size, inside) == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        for ranking in self._pages(searcher, query, k + 8, visible):
            scores = ranking[1]
            if len(scores) > k and scores[-1] < scores[k - 1]:
                break
        return best(*ranking, k)

    def _pages(
        self, searcher: tantivy.Searcher, query: tantivy.Query, wanted: int, visible: Flags | None
    ) -> Iterator[Ranking]:
        """Yield the visible hits of a query, best first: about the wanted number, then more and more, then all."""
        size = searcher.num_docs
        inside = size if visible is None else int(np.count_nonzero(visible))
        if visible is not None and inside <= _SMALL_SCOPE:
            scope = tantivy.Query.term_set_query(self._index.schema, "key", np.flatnonzero(visible).tolist())
            silent = tantivy.Query.const_score_query(scope, 0.0)
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, silent)])
        elif visible is not None:
            wanted = int(_AHEAD * wanted * max(size / inside, 1))
        while True:
            check_deadline()
            hits = searcher.search(query, min(wanted, size), count=False).hits
            keys, scores = _hit_keys(searcher, hits), np.array([score for score, _ in hits], np.float32)
            if visible is not None:
                keys, scores = keys[visible[keys]], scores[visible[keys]]
            yield keys, scores
            if len(hits) < wanted:
                return
            wanted *= 4

    def _query(self, text: str) -> tantivy.Query | None:
        """Return the query for the terms of a text in all fields, and for its quoted phrases; None without a term."""
        schema, parts = self._index.schema, []
        terms = (analysis.content_terms(text) or analysis.terms(text))[:_MOST_TERMS]
        for field, weight in self._weights.items():
            for term in terms if field in self._used else ():
                part = tantivy.Query.term_query(schema, field, term, "freq")
                parts.append(part if weight == 1 else tantivy.Query.boost_query(part, weight))
        for phrase in analysis.phrases(text) if len(self._weights) > 1 and terms else ():
            part = tantivy.Query.phrase_query(schema, "body", list[str | tuple[int, str]](phrase))
            parts.append(tantivy.Query.boost_query(part, _PHRASE))
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts]) if terms else None

    @_repaired
    def counts(self, terms: Sequence[str], visible: Flags | None = None) -> Keys:
        """Return how many texts have each term in their body, 0 for a term that no visible text has.

        Removed texts count until they are purged.
        """
        searcher = self._index.searcher()
        counts = np.array([searcher.doc_freq("body", term) for term in terms], np.int64)
        if visible is not None:
            counts *= visible.any()
            for place in np.flatnonzero(counts).tolist():
                query = tantivy.Query.term_query(self._index.schema, "body", terms[place], "freq")
                if counts[place] <= _FEW:
                    hits = searcher.search(query, int(counts[place]), count=False).hits
                    counts[place] *= visible[_hit_keys(searcher, hits)].any()
                else:
                    counts[place] *= any(len(keys) for keys, _ in self._pages(searcher, query, 1, visible))
        return counts

    @property
    def size(self) -> int:
        """The number of texts."""
        return int(self._index.searcher().num_docs)

    @property
    @_repaired
    def keys(self) -> Keys:
        """All keys, in ascending order."""
        searcher = self._index.searcher()
        hits = searcher.search(tantivy.Query.all_query(), max(searcher.num_docs, 1), count=False).hits
        return np.sort(_hit_keys(searcher, hits))

    def _known(self, keys: Sequence[int]) -> list[int]:
        known, searcher = set[int](), self._index.searcher()
        for start in range(0, len(keys) if searcher.num_docs else 0, _SMALL_SCOPE):
            page = keys[start : start + _SMALL_SCOPE]
            query = tantivy.Query.term_set_query(self._index.schema, "key", page)
            known.update(_hit_keys(searcher, searcher.search(query, 2 * len(page), count=False).hits).tolist())
        return sorted(known)

    def close(self) -> None:
        """Finish running merges and release the writer's memory and lock. The next change opens another writer."""
        with self._changing:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            try:
                writer.wait_merging_threads()
            except BaseException as error:
                if not is_damage(error):
                    raise
                _log.warning("%s: the keyword index could not merge its segments: %s", self.folder, error)
            if self.folder is not None and not self._half_done:
                sums = {name: zlib.crc32(_read(self.folder / name)) for name in _CATALOGUES}
                with suppress(OSError):  # the disk is full: the index can be used without
                    self._write_state(texts=self.size, catalogues=sums)


def stored_generation(folder: Path) -> int:
    """Return the generation of the last change of an index that is complete on disk."""
    generation: int = _read_state(folder / _STATE).get("generation", -1)
    return generation


def _hit_keys(searcher: tantivy.Searcher, hits: Sequence[Any]) -> Keys:
    return np.array(searcher.fast_field_values("key", [address for _, address in hits]), np.int64)


def _segment_files(meta: Any) -> list[str]:
    files = []
    for segment in meta["segments"]:
        name, deletes = segment["segment_id"].replace("-", ""), segment["deletes"]
        files += [f"{name}.{component}" for component in _COMPONENTS]
        files += [f"{name}.{deletes['opstamp']}.del"] if deletes else []
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _checksum(state: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(state, sort_keys=True).encode("utf-8"))


def _read_state(path: Path) -> dict[str, Any]:
    """Return what is stored beside an index; empty if it is missing or damaged: all texts are indexed again then."""
    try:
        state: dict[str, Any] = json.loads(path.read_text("utf-8"))
        checksum = state.pop("checksum")
        state["generation"], state["tombstones"] = int(state["generation"]), int(state["tombstones"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return state if checksum == _checksum(state) else {}


def _footer_problem(path: Path) -> str:
    """Return what is wrong with a file of tantivy; empty if its end and its checksum are right."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _FOOTER.size, 0))
            length, magic = _FOOTER.unpack(file.read())
            if magic != _MAGIC or length + _FOOTER.size > size:
                return "ends with other bytes: it is damaged"
            body = size - _FOOTER.size - length
            file.seek(body)
            checksum = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = 0
            while block := file.read(min(body, 1 << 20)):
                found, body = zlib.crc32(block, found), body - len(block)
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
        return f"is damaged ({error})"
    return "" if found == checksum else "is damaged: its checksum differs"
