"""Index many documents with the processes of a Ray cluster, into an index in PostgreSQL.

Documents are read, chunked, extracted from, embedded and written by Ray Data (``map_batches``). Each worker
opens the index for writing and adds its batches with :meth:`~graphrag_core.KnowledgeIndex.add`. The result is the same
as with one process. Needs the extra ``ray``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from graphrag_apps.documents.sync import Changed, FileSource, Progress, SyncReport, SyncRun, read_marked
from graphrag_apps.documents.walk import File, Problem
from graphrag_core import errors
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import DocumentError, GraphRAGError, InputError, optional_import
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.pipeline import batches
from graphrag_core.ingest.validation import validate
from graphrag_core.model import Added, Document, FileMark
from graphrag_core.ports import Embedder

_BLOCK, _CHARACTERS = 50_000, 50_000_000  # of an iterable that are handed to Ray at once: documents, and their texts
_ROWS = 200  # documents of a file in a block
_CPUS = 0.5  # of a worker that writes: it often waits for the database; the rest is for workers that read files
_FILES = 16  # read by a task

Rows = dict[str, list[Any]]
"""Columns of a batch, as Ray Data passes them."""


def index_documents(
    source: Iterable[Document],
    url: str,
    embedder: Embedder | None = None,
    *,
    workers: int | None = None,
    batch_size: int = 500,
    progress: bool | None = None,
    **settings: Any,
) -> Added:
    """Add documents, all with different ids, to an index in PostgreSQL with several processes.

    A run that was killed is continued by the same call: what is in the index unchanged is not embedded again.

    Parameters
    ----------
    source, url
        The documents, and the address, which all machines of the cluster must reach.
    embedder, settings
        As for :class:`~graphrag_core.KnowledgeIndex`. They are pickled, and each worker has a copy.
    workers, batch_size
        The number of processes that write, by default one for each CPU, and of documents in a transaction.
    progress
        Whether Ray's progress bars are shown; by default on a terminal.

    Raises
    ------
    MissingDependency
        Ray is not installed.
    DocumentError, EmbedderError, DatabaseError
        As for :meth:`~graphrag_core.KnowledgeIndex.add`. Batches that were committed before stay.
    """
    _check_address(url)
    with _ray(progress) as ray, KnowledgeIndex.open(url, embedder, **settings):
        writer = _WriterSettings(url, embedder, batch_size, settings)
        total = Added()
        for dataset in _blocks(ray, source):
            for done in _written(ray, dataset, writer, workers):
                total += done.added
        return total


def sync_files(
    source: FileSource,
    url: str,
    embedder: Embedder | None = None,
    *,
    workers: int | None = None,
    batch_size: int = 500,
    keep_missing: bool = False,
    progress: bool | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_problem: Callable[[Problem], None] = lambda _: None,
    **settings: Any,
) -> SyncReport:
    """Bring an index in PostgreSQL up to date with files, as :func:`graphrag_apps.documents.sync_files` does.

    Workers read the files, so all machines of the cluster must see them under the same paths. Parameters are those of
    :func:`index_documents` and of :func:`graphrag_apps.documents.sync_files`.
    """
    _check_address(url)
    with ExitStack() as stack:
        ray = stack.enter_context(_ray(progress))
        index = stack.enter_context(KnowledgeIndex.open(url, embedder, **settings))
        run = SyncRun(index, source, on_progress, on_problem)
        changed = {one.mark.path: one for file in run.files() if (one := run.register(file)) is not None}
        items = [
            {"mark": tuple(one.mark), "file": {**asdict(one.file), "path": str(one.file.path)}}
            for one in changed.values()
        ]
        total = Added()
        if items:
            writer = _WriterSettings(url, embedder, batch_size, settings)
            dataset = ray.data.from_items(items, override_num_blocks=max(len(items) // _FILES, 1)).map_batches(
                _read_files,
                batch_size=_FILES,
                batch_format="pyarrow",
                num_cpus=_CPUS / 2,
                fn_kwargs={"metadata": dict(source.metadata), "max_bytes": source.max_bytes},
            )
            for done in _written(ray, dataset, writer, workers):
                total += done.added
                for end in done.ends:
                    for problem in end.problems:
                        run.add_problem(problem, changed[end.file])
                    run.add_written(end.size)
        return run.finish(total, keep_missing=keep_missing)


def _check_address(url: str) -> None:
    if not is_address(url):
        raise InputError(
            f"{shown(url)} is a folder, which one process writes: bulk indexing needs an index in PostgreSQL "
            "(postgresql://user@host/database), or add the documents with KnowledgeIndex.add"
        )


@contextmanager
def _ray(progress: bool | None) -> Iterator[Any]:
    """Connect to the cluster of ``RAY_ADDRESS`` or start one on this machine, unless the process is connected."""
    with optional_import("ray[data]", "ray", "bulk indexing"):
        import ray  # noqa: PLC0415
        import ray.data  # noqa: PLC0415
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    context = ray.data.DataContext.get_current()
    log = logging.getLogger("ray.data")
    before, level = context.enable_progress_bars, log.level
    if progress is not None:
        context.enable_progress_bars = progress
    if progress is False:
        log.setLevel(logging.WARNING)
    try:
        yield ray
    finally:
        context.enable_progress_bars = before
        log.setLevel(level)
        if started:
            ray.shutdown()


# -- rows: a document, or the end of a file, as JSON


@dataclass(frozen=True)
class _FileEnd:
    """What follows the documents of a file: what could not be read."""

    file: str
    size: int
    problems: tuple[Problem, ...]


def _row(item: Document | _FileEnd) -> dict[str, Any]:
    return {"item": json.dumps(asdict(item), ensure_ascii=False)}


def _item(row: Mapping[str, Any]) -> Document | _FileEnd:
    fields = json.loads(row["item"])
    if "problems" in fields:
        return _FileEnd(**{**fields, "problems": tuple(Problem(**problem) for problem in fields["problems"])})
    file = fields["file"]
    return Document(**{**fields, "file": None if file is None else FileMark(*file)})


def _columns(rows: list[dict[str, Any]]) -> Rows:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _blocks(ray: Any, documents: Iterable[Document]) -> Iterator[Any]:
    """Yield datasets of documents, which must have different ids."""
    if isinstance(documents, Document):
        raise InputError("index_documents takes an iterable of documents: index_documents([document], url)")
    ids: set[int] = set()
    for block in batches(iter(documents), _BLOCK, _CHARACTERS):
        yield ray.data.from_items([_row(document) for document in validate(block, ids)])


def _read_files(batch: Any, metadata: Mapping[str, Any], max_bytes: int) -> Iterator[Rows]:
    """Yield the documents of files in batches."""
    rows: list[dict[str, Any]] = []
    for item in batch.to_pylist():
        file = File(**{**item["file"], "path": Path(item["file"]["path"])})
        mark = FileMark(*item["mark"])
        problems: list[Problem] = []
        for found in read_marked(Changed(file, mark, 1), metadata, max_bytes):
            if isinstance(found, Problem):
                problems.append(found)
                continue
            rows.append(_row(found))
            if len(rows) >= _ROWS:
                yield _columns(rows)
                rows = []
        rows.append(_row(_FileEnd(mark.path, file.size, tuple(problems))))
    if rows:
        yield _columns(rows)


# -- writing


@dataclass(frozen=True)
class _WriterSettings:
    """What a worker needs to open the index. Its representation has no password."""

    url: str = field(repr=False)
    embedder: Embedder | None
    batch_size: int
    index: Mapping[str, Any]


class _Done(NamedTuple):
    """What a worker did with a batch: what was added, and the files whose last row it got."""

    added: Added
    ends: list[_FileEnd]


class _Writer:
    """A worker: adds batches of documents to an index that it opened itself."""

    def __init__(self, settings: _WriterSettings) -> None:
        self.index = KnowledgeIndex.open(settings.url, settings.embedder, **{**settings.index, "progress": False})

    def __call__(self, batch: Any) -> Rows:
        documents: dict[str, Document] = {}  # several files may have the same paper
        ends = []
        for row in batch.to_pylist():
            item = _item(row)
            if isinstance(item, _FileEnd):
                ends.append(row)
                continue
            documents[item.id] = item
        try:
            added = self.index.add(iter(documents.values()))  # of long ones in several transactions
        except GraphRAGError as error:
            problem = {"kind": type(error).__name__, "text": str(error), "id": getattr(error, "document_id", None)}
            return {"result": [json.dumps({"error": problem})]}
        return {"result": [json.dumps({"added": asdict(added), "ends": ends})]}


def _written(ray: Any, dataset: Any, writer: _WriterSettings, workers: int | None) -> Iterator[_Done]:
    """Write a Ray dataset to the index with several workers; yield the result of each batch."""
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers}: it must be at least 1")
    count = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
    results = dataset.map_batches(
        _Writer,
        fn_constructor_args=(writer,),
        batch_size=writer.batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=count),
        num_cpus=_CPUS,
    )
    for row in results.iter_rows():
        result = json.loads(row["result"])
        if "error" in result:
            raise _error(**result["error"])
        yield _Done(Added(**result["added"]), list(map(_item, result["ends"])))  # type: ignore[arg-type]


def _error(kind: str, text: str, id: str | None) -> GraphRAGError:  # noqa: A002 - as it is passed
    """Return the error that a worker raised."""
    error_type = getattr(errors, kind, GraphRAGError)
    error: GraphRAGError = error_type.__new__(error_type)
    Exception.__init__(error, text)
    if isinstance(error, DocumentError):
        error.document_id = id
    return error
