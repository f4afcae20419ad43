"""The command ``watch``: keep an index in sync with files while they change."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.index import PATHS_HELP, FileJob, print_counts, print_problem, progress_bar
from graphrag_apps.documents.catalogue import open_catalogue
from graphrag_apps.documents.load import FORMATS
from graphrag_apps.documents.sync import FileChange, FileSource, sync_files
from graphrag_apps.documents.walk import File, Problem, is_pattern, is_skipped, split_pattern
from graphrag_core import errors
from graphrag_core.engine.address import is_address
from graphrag_core.errors import EmbedderError, GraphRAGError, InputError

_WAIT = 400  # milliseconds without a change before what changed is indexed
_TICK = 500  # milliseconds between two checks for retries
_FIRST_RETRY, _LAST_RETRY = 2.0, 60.0  # seconds
_TEMPORARY = (errors.DatabaseError, EmbedderError, errors.IndexLocked)  # also at the start, worth another attempt
_STYLES = {"added": "good", "changed": "partial", "removed": "bad"}


@options.expand
def watch(
    paths: Annotated[list[str], Argument(metavar="PATH", help=PATHS_HELP)],
    job: FileJob,
    poll: Annotated[bool, Option("--poll", help="Poll the files, for network drives and some containers.")] = False,
) -> None:
    """Index files, then keep the index in sync while they change. One line for each changed file. Ctrl-C ends it.

    The index is locked for writing only while something is indexed, and queries go on meanwhile. A file that cannot
    be read is reported; if the embedder or the index cannot be used, the changes are indexed later.
    """
    watched = _watched_folders(paths)
    watcher = _Watcher(job, job.source(paths))
    with _terminated_like_interrupted():
        try:
            for changes in _changes(watched, job.kb, poll=poll):
                watcher.pending |= changes
                watcher.sync_if_due()
        except KeyboardInterrupt:
            if not job.quiet:
                render.stderr().print("stopped")


@dataclass
class _Watcher:
    """Indexes what changed; keeps it for later if the embedder or the index cannot be used."""

    job: FileJob
    source: FileSource
    started: bool = False  # whether all files were indexed once
    pending: set[Path] = field(default_factory=set)  # files and folders that changed since
    due: float = 0.0
    delay: float = _FIRST_RETRY
    reported: set[str] = field(default_factory=set)  # problems that were printed and not solved since

    def sync_if_due(self) -> None:
        """Index the changes, unless there are none or a retry has to wait."""
        if (self.started and not self.pending) or time.monotonic() < self.due:
            return
        try:
            self._sync_all(frozenset(self.pending) if self.started else None)
        except (errors.EmbedderMismatch, InputError):
            raise
        except GraphRAGError as error:
            if not self.started and not isinstance(error, _TEMPORARY):
                raise
            self.due = time.monotonic() + self.delay
            kind = "the embedder failed" if isinstance(error, EmbedderError) else "nothing was indexed"
            render.print_error(f"{kind}: {error} (next attempt in {self.delay:.0f} s)")
            self.delay = min(2 * self.delay, _LAST_RETRY)
            return
        if not self.started and not self.job.quiet:
            render.stderr().print(f"watching {', '.join(self.source.paths)}: Ctrl-C to stop", soft_wrap=True)
        self.started, self.pending = True, set()
        self.due, self.delay = 0.0, _FIRST_RETRY

    def _sync_all(self, only: frozenset[Path] | None) -> None:
        """Index some files, or all. One that cannot be indexed is searched for by halves, reported and left out."""
        try:
            self._sync(only)
        except errors.DocumentError as error:
            selects, walk = replace(self.source, only=only).selects, self.source.walk()
            files = [file.path for file in walk if isinstance(file, File) and selects(file.path)]
            if len(files) < 2:
                where = f"{render.relative(str(files[0]))}: " if files else ""
                render.print_error(f"{where}{error}")
                return
            middle = len(files) // 2
            self._sync_all(frozenset(files[:middle]))
            self._sync_all(frozenset(files[middle:]))

    def _sync(self, only: frozenset[Path] | None) -> None:
        problems: set[str] = set()

        def on_problem(problem: Problem) -> None:
            problems.add(str(problem))
            if str(problem) not in self.reported:
                print_problem(problem)

        with self.job.open() as index, open_catalogue(self.job.kb) as catalogue:
            self.job.settings.save(catalogue)
            on_change = self._print_change if self.started else None  # a summary at the start
            show = only is None and sys.stderr.isatty() and not self.job.quiet
            with progress_bar(self.source, show=show) as advance:
                report = sync_files(
                    index, catalogue, replace(self.source, only=only), keep_missing=self.job.keep_missing,
                    on_progress=advance, on_problem=on_problem, on_change=on_change,
                )  # fmt: skip
            if only is None and not self.job.quiet:
                print_counts(report, len(index), self.job.kb)
        self.reported = problems if only is None else self.reported | problems

    def _print_change(self, change: FileChange) -> None:
        self.reported = {problem for problem in self.reported if not problem.startswith(f"{change.path}:")}
        if not self.job.quiet:
            count = "" if change.documents == 1 else f" ({change.documents:,} documents)"
            render.print_line((change.kind, _STYLES[change.kind]), f" {render.relative(change.path)}{count}")


def _watched_folders(paths: list[str]) -> list[Path]:
    """Return what to watch for paths and patterns; of a file its folder, as editors replace files."""
    folders: dict[Path, None] = {}
    for path in paths:
        if os.path.lexists(path):
            folder = Path(path).absolute() if os.path.isdir(path) else Path(path).absolute().parent
        elif not is_pattern(path) or not (folder := split_pattern(path)[0]).is_dir():
            raise InputError(f"{path}: no such file or folder")
        folders[folder] = None
    return list(folders)


def _changes(folders: list[Path], kb: str, *, poll: bool) -> Iterator[set[Path]]:
    """Yield the changed paths, and an empty set at intervals. From the first set on, all changes are seen."""
    with errors.optional_import("watchfiles", "cli", "The command watch"):
        import watchfiles
    index = None if is_address(kb) else Path(kb).absolute()

    def matters(_change: object, path: str) -> bool:
        """Leave out what the walk leaves out, and the index itself, which changes with every run."""
        changed = Path(path)
        if index is not None and (changed == index or index in changed.parents):
            return False
        folder = next((folder for folder in folders if changed.is_relative_to(folder)), Path())
        if any(is_skipped(part) for part in changed.parts[len(folder.parts) :]):
            return False
        return changed.suffix.lower() in FORMATS or changed.is_dir() or not changed.exists()

    for changes in watchfiles.watch(
        *folders, watch_filter=matters, debounce=4 * _WAIT, step=_WAIT, rust_timeout=_TICK, yield_on_timeout=True,
        force_polling=True if poll else None, raise_interrupt=True, ignore_permission_denied=True,
    ):  # fmt: skip
        yield {Path(path) for _, path in changes}


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that a container stops cleanly."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: Any = signal.getsignal(signal.SIGTERM)
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, before)
