"""How far a run is, how fast it goes and how long it will take, on a terminal only."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import Self

from graphrag_core.loading import FORMATS, File, walk


class FileProgress:
    """A bar over files, by their bytes. Files are counted first, without keeping any of them."""

    def __init__(self, console: Console, paths: Iterable[str], *, show: bool) -> None:
        self._paths = tuple(paths)
        self._show = show
        self._done = 0
        self._task: TaskID | None = None
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[files]:,} of {task.fields[total_files]:,} files"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            expand=True,
            disable=not show,
        )

    def advance(self, file: File) -> None:
        """Count a file as read."""
        if self._task is None:
            return
        self._done += 1
        elapsed = self._bar.tasks[0].elapsed or 0.0
        rate = self._done / elapsed if elapsed > 0.5 else 0.0
        self._bar.update(self._task, advance=max(file.size, 1), files=self._done, rate=rate)

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def __enter__(self) -> Self:
        if self._show:
            self._bar.start()
            self._task = self._bar.add_task("counting", total=None, files=0, total_files=0, rate=0.0)
            files = size = 0
            for found in walk(self._paths):
                if isinstance(found, File) and found.suffix in FORMATS:
                    files, size = files + 1, size + max(found.size, 1)
                    if files % 1_000 == 0:
                        self._bar.update(self._task, total_files=files)
            self._bar.reset(self._task, description="indexing", total=size, files=0, total_files=files, rate=0.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
