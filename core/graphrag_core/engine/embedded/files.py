"""The files of an index: where they are, how they are replaced atomically, who may write them."""

import ctypes
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from graphrag_core.errors import DiskError, IndexLocked, NotAnIndex

_MANIFEST = "manifest.json"
_LOCK = "writer.lock"
_MOMENT = 0.2  # seconds; a reader that tests whether an index is being written holds the lock for less


class Folder:
    """The folder of an index.

    ::

        records.sqlite          the records (with -wal and -shm beside it while open)
        keywords/               tantivy indexes, which have their own commits
        derived/<generation>/   the graph of a generation, and its vectors if they are many: mapped into memory
        writer.lock
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = path / "records.sqlite"
        self.keywords = path / "keywords"
        self.derived = path / "derived"

    def create(self) -> None:
        """Create the folder, or check that it holds an index or nothing."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            foreign = not self.records.exists() and any(
                entry.name not in (_LOCK, "keywords", "derived") for entry in self.path.iterdir()
            )
        except OSError as error:
            raise DiskError(f"{self.path} cannot be used as a folder ({error}): choose another path") from error
        if foreign:
            raise NotAnIndex(f"{self.path} is not empty and holds no index: choose another folder")

    def lock(self) -> FileLock:
        """Acquire the writer's lock, or raise at once."""
        lock = FileLock(self.path / _LOCK, timeout=_MOMENT, thread_local=False, is_singleton=False)
        try:
            lock.acquire(poll_interval=_MOMENT / 10)
        except Timeout as error:
            raise IndexLocked(
                f"{self.path} is being written by another process or object: "
                "close that one, or open this one with read_only=True"
            ) from error
        except OSError as error:
            raise DiskError(f"{self.path} cannot be written ({error}): open it with read_only=True") from error
        return lock

    def has_writer(self) -> bool:
        """Return whether a process holds the writer's lock."""
        try:
            with FileLock(self.path / _LOCK, timeout=0, thread_local=False, is_singleton=False):
                return False
        except Timeout:
            return True
        except OSError:
            return False

    def generations(self) -> list[tuple[int, Path]]:
        """Return the generations that were saved completely, newest first."""
        if not self.derived.is_dir():
            return []
        found = [
            ([int(part) for part in path.name.split("-")], path)
            for path in self.derived.iterdir()
            if path.name.replace("-", "").isdigit() and (path / _MANIFEST).is_file()
        ]
        return [(numbers[0], path) for numbers, path in sorted(found, reverse=True)]

    def is_complete(self, generation: Path) -> bool:
        """Return whether a generation has the files of its manifest, in their sizes."""
        try:
            return all((generation / name).stat().st_size == size for name, (size, _) in _manifest(generation).items())
        except (OSError, ValueError):
            return False

    def is_intact(self, generation: Path, stop: Callable[[], bool] = bool) -> bool:
        """Return whether a generation's files have the checksums of its manifest. All files are read.

        The check ends early, and finds nothing, if ``stop`` says so or another process deletes the generation.
        """
        try:
            for name, (_, checksum) in _manifest(generation).items():
                if _checksum(generation / name, stop) != checksum and not stop():
                    return not (generation / _MANIFEST).is_file()
        except FileNotFoundError:
            return not (generation / _MANIFEST).is_file()
        except (OSError, ValueError):
            return False
        return True

    def replace_derived(self, generation: int, write: Callable[[Path], None]) -> Path:
        """Write a generation into a new folder, rename it, and delete older generations. Returns the folder.

        A process that crashes meanwhile leaves the old generation untouched. Files that are mapped are not replaced:
        on Windows they cannot be deleted, which the next writer does.
        """
        new = self.derived / f"new-{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        write(new)
        files = [path for path in new.rglob("*") if path.is_file()]
        sums = {path.relative_to(new).as_posix(): (path.stat().st_size, _checksum(path)) for path in files}
        (new / _MANIFEST).write_text(json.dumps(sums), "utf-8")
        for path in [*files, new / _MANIFEST]:
            _sync(path)
        final, number = self.derived / str(generation), 0
        while final.exists():
            number += 1
            final = self.derived / f"{generation}-{number}"
        new.rename(final)
        _sync(self.derived)
        self.tidy(keep=final)
        return final

    def replace_whole(self, write: Callable[["Folder"], None]) -> None:
        """Write a new folder beside this one, which must be absent or empty, and rename it to this one."""
        new = self.path.absolute().with_name(f".{self.path.name}.new-{os.getpid()}")
        try:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            write(Folder(new))
            for path in new.iterdir():
                _sync(path)
            if self.path.is_dir():
                self.path.rmdir()
            new.rename(self.path)
            _sync(self.path.absolute().parent)
        except OSError as error:
            raise DiskError(f"{self.path} cannot be written ({error}): choose another path, or free space") from error
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def tidy(self, keep: Path | None = None) -> None:
        """Delete unfinished generations, and all but ``keep`` if it is given."""
        for path in self.derived.iterdir() if self.derived.is_dir() else ():
            if path != keep and (keep is not None or not (path / _MANIFEST).is_file()):
                with suppress(OSError):  # first, so that an interrupt does not leave a generation
                    (path / _MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(path, ignore_errors=True)

    def size(self) -> int:
        """Return the bytes on disk."""
        total = 0
        for path in self.path.rglob("*"):
            with suppress(FileNotFoundError):  # tantivy deletes files after merging them
                total += path.stat().st_size if path.is_file() else 0
        return total


def release_memory() -> None:
    """Return freed pages to the operating system, where the C library is glibc.

    Indexing frees most of what it allocates, but glibc keeps it: a third of the process after
    100,000 chunks.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _manifest(generation: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the checksum of each file of a generation; raise ``ValueError`` if the list is damaged."""
    files: Any = json.loads((generation / _MANIFEST).read_text("utf-8"))
    if not isinstance(files, dict) or any(not isinstance(sums, list) or len(sums) != 2 for sums in files.values()):
        raise ValueError(f"{generation} has a damaged manifest")
    return files


def _checksum(path: Path, stop: Callable[[], bool] = bool) -> int:
    checksum = 0
    with path.open("rb") as file:
        while (block := file.read(1 << 20)) and not stop():
            checksum = zlib.crc32(block, checksum)
    return checksum


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
