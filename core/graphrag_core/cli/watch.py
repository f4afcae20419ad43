"""The command ``watch``: keep an index in step with files while they change."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.text import Text

from graphrag_core.cli import options, render
from graphrag_core.cli.index import IndexJob
from graphrag_core.documents import (
    FORMATS,
    File,
    FileChange,
    FileSource,
    Problem,
    SyncReport,
    is_pattern,
    open_catalogue,
    split_pattern,
    sync_files,
    walk_files,
)
from graphrag_core.documents.walk import is_skipped
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import (
    DatabaseError,
    DocumentError,
    EmbedderError,
    EmbedderMismatch,
    GraphRAGError,
    IndexLocked,
    InputError,
    MissingDependency,
)

_WAIT = 400  # milliseconds without a change before what changed is indexed
_TICK = 500  # milliseconds between two looks at what is due
_FIRST_RETRY, _LAST_RETRY = 2.0, 60.0  # seconds
_TEMPORARY = (DatabaseError, EmbedderError, IndexLocked)  # also at the start, worth another attempt
_STYLES = {"added": "good", "changed": "partial", "removed": "bad"}


def watch(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Folders, files and glob patterns.")],
    kb: options.Kb = options.KB,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    graph: options.Graph = None,
    metadata: options.Metadata = None,
    chunk_size: options.ChunkSize = None,
    keep_missing: options.KeepMissing = False,
    poll: Annotated[
        bool, typer.Option("--poll", help="Look at the files now and then, for network drives and some containers.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Index files, then keep the index in step while they change. One line for each changed file. Ctrl-C ends it.

    The index is locked for writing only while something is indexed, and queries go on meanwhile. A file that cannot
    be read is reported; if the embedder or the index cannot be used, the changes are indexed later.
    """
    watched = _watched_folders(paths)
    settings = options.IndexSettings.load(kb).changed(embedder, embedder_url, chunk_size, graph)
    job = IndexJob.prepare(settings, kb)
    source = job.source(paths, options.parse_metadata(metadata))
    watcher = _Watcher(job, source, keep_missing=keep_missing, quiet=quiet)
    with _terminated_like_interrupted():
        try:
            for changes in _changes(watched, kb, poll=poll):
                watcher.note(changes)
                watcher.sync_if_due()
        except KeyboardInterrupt:
            if not quiet:
                render.stderr().print("stopped")


@dataclass
class _Watcher:
    """Indexes what changed; keeps it for later if the embedder or the index cannot be used."""

    job: IndexJob
    source: FileSource
    keep_missing: bool
    quiet: bool
    pending: set[Path] | None = None  # None for all files
    is_pending: bool = True
    due: float = 0.0
    delay: float = _FIRST_RETRY
    reported: set[str] = field(default_factory=set)  # problems that were printed and not solved since

    def note(self, changes: set[Path]) -> None:
        """Take note of changed files and folders."""
        if changes and self.pending is not None:
            self.pending |= changes
        self.is_pending = self.is_pending or bool(changes)

    def sync_if_due(self) -> None:
        """Index the changes, unless a retry has to wait."""
        if not self.is_pending or time.monotonic() < self.due:
            return
        first = self.pending is None
        try:
            self._sync_all(None if self.pending is None else frozenset(self.pending))
        except (EmbedderMismatch, InputError):
            raise
        except GraphRAGError as error:
            if first and not isinstance(error, _TEMPORARY):
                raise
            self._postpone(error)
            return
        self.pending, self.is_pending = set(), False
        self.due, self.delay = 0.0, _FIRST_RETRY
        if first and not self.quiet:
            render.stderr().print(f"watching {', '.join(self.source.paths)}: Ctrl-C to stop", soft_wrap=True)

    def _sync(self, only: frozenset[Path] | None) -> None:
        problems: set[str] = set()

        def on_problem(problem: Problem) -> None:
            problems.add(str(problem))
            if str(problem) not in self.reported:
                render.print_error(f"{render.relative(problem.path)}: {problem.reason}")

        with self.job.open() as index, open_catalogue(self.job.kb) as catalogue:
            self.job.settings.save(catalogue)
            report = sync_files(
                index,
                catalogue,
                replace(self.source, only=only),
                keep_missing=self.keep_missing,
                on_problem=on_problem,
                on_change=None if self.pending is None else self._print_change,  # a summary at the start
            )
            if only is None and not self.quiet:
                self._print_start(report, len(index))
        self.reported = problems if only is None else self.reported | problems

    def _sync_all(self, only: frozenset[Path] | None) -> None:
        """Index the changes. A file that cannot be indexed is reported and left out."""
        try:
            self._sync(only)
        except DocumentError as error:
            files = [found.path for found in walk_files(self.source.paths) if isinstance(found, File)]
            self._sync_halves([path for path in files if replace(self.source, only=only).selects(path)], error)

    def _sync_halves(self, files: list[Path], error: DocumentError) -> None:
        """Index files of which one cannot be indexed."""
        if len(files) < 2:
            where = f"{render.relative(str(files[0]))}: " if files else ""
            render.print_error(f"{where}{error}")
            return
        middle = len(files) // 2
        for half in (files[:middle], files[middle:]):
            try:
                self._sync(frozenset(half))
            except DocumentError as own:
                self._sync_halves(half, own)

    def _postpone(self, error: GraphRAGError) -> None:
        self.due = time.monotonic() + self.delay
        kind = "the embedder failed" if isinstance(error, EmbedderError) else "nothing was indexed"
        render.print_error(f"{kind}: {error} (next attempt in {self.delay:.0f} s)")
        self.delay = min(2 * self.delay, _LAST_RETRY)

    def _print_change(self, change: FileChange) -> None:
        self.reported = {one for one in self.reported if not one.startswith(f"{change.path}:")}
        if self.quiet:
            return
        count = "" if change.documents == 1 else f" ({change.documents:,} documents)"
        line = Text.assemble((change.kind, _STYLES[change.kind]), f" {render.relative(change.path)}{count}")
        render.stdout().print(line, soft_wrap=True)

    def _print_start(self, report: SyncReport, documents: int) -> None:
        counts = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed, "
        render.stdout().print(
            f"{counts}{report.unchanged:,} unchanged: {documents:,} documents in {shown(self.job.kb)}", soft_wrap=True
        )


def _watched_folders(paths: list[str]) -> list[Path]:
    """Return what to watch for paths and patterns; of a file its folder, as editors replace files."""
    found: dict[Path, None] = {}
    for path in paths:
        if os.path.isdir(path):
            found[Path(path).absolute()] = None
        elif os.path.lexists(path):
            found[Path(path).absolute().parent] = None
        elif is_pattern(path) and split_pattern(path)[0].is_dir():
            found[split_pattern(path)[0]] = None
        else:
            raise InputError(f"{path}: no such file or folder")
    return list(found)


def _changes(folders: list[Path], kb: str, *, poll: bool) -> Iterator[set[Path]]:
    """Yield what changed, and an empty set now and then. The first set comes when all changes are seen."""
    try:
        import watchfiles
    except ImportError as error:
        raise MissingDependency("watchfiles", "cli", "The command watch") from error
    index = None if is_address(kb) else Path(kb).absolute()

    def matters(_change: object, path: str) -> bool:
        """Leave out what the walk leaves out, and the index itself, which changes with every run."""
        changed = Path(path)
        if index is not None and (changed == index or index in changed.parents):
            return False
        own = next((changed.relative_to(one).parts for one in folders if changed.is_relative_to(one)), changed.parts)
        if any(is_skipped(part) for part in own):
            return False
        return changed.suffix.lower() in FORMATS or changed.is_dir() or not changed.exists()

    for changes in watchfiles.watch(
        *folders,
        watch_filter=matters,
        debounce=4 * _WAIT,
        step=_WAIT,
        rust_timeout=_TICK,
        yield_on_timeout=True,
        force_polling=True if poll else None,
        raise_interrupt=True,
        ignore_permission_denied=True,
    ):
        yield {Path(path) for _, path in changes}


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that a container stops cleanly."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before: Any = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
