"""The files of an index in a folder: who may write them, and where the base is.

::

    records.sqlite                        the rows (with -wal and -shm beside it while open)
    arrays-<generation>-<token>.base      the base that the rows name; other files of this kind are left over
    writer.lock
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from graphrag_core.errors import DiskError, IndexLocked, NotAnIndex

_LOCK = "writer.lock"
_MOMENT = 0.2  # seconds; a reader that tests whether an index is being written holds the lock for less


class Folder:
    """The folder of an index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = path / "records.sqlite"

    def create(self) -> None:
        """Create the folder, or check that it holds an index or nothing."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            foreign = not self.records.exists() and any(
                entry.name != _LOCK and entry.suffix != ".base" for entry in self.path.iterdir()
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
                f"{self.path} is being written by another process: close the index there, or open it here with "
                "read_only=True"
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

    def identity(self) -> tuple[int, int] | None:
        """Return what tells the database at this path from another one; None if there is none."""
        try:
            found = self.records.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    # -- the base

    def base(self, name: str) -> Path:
        """Return the path of a base, whose name is a generation and a token."""
        return self.path / f"arrays-{name.replace(' ', '-')}.base"

    @property
    def has_base(self) -> bool:
        """Whether there is any base, also one that is left over."""
        return any(self.path.glob("arrays-*.base"))

    def write_base(self, generation: int, write: Callable[[BinaryIO], None]) -> str:
        """Write a base, synced; return its name. Nobody reads it until the rows name it."""
        name = f"{generation} {secrets.token_hex(6)}"
        path = self.base(name)
        try:
            with path.open("wb") as file:
                write(file)
                os.fsync(file.fileno())
            sync(self.path)
        except BaseException as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise DiskError(f"{path} cannot be written ({error}): free disk space, and repeat the call") from error
            raise
        return name

    def drop_bases(self, keep: Path | None) -> None:
        """Delete all bases but one. Windows keeps files that are mapped: the next writer deletes them."""
        for path in self.path.glob("arrays-*.base"):
            if path != keep:
                with suppress(OSError):
                    path.unlink()

    # -- all files

    def replace_whole(self, write: Callable[[Folder], None]) -> None:
        """Write a new folder beside this one, which must be absent or empty, and rename it to this one."""
        new = self.path.absolute().with_name(f".{self.path.name}.new-{os.getpid()}")
        try:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            write(Folder(new))
            for path in new.iterdir():
                sync(path)
            if self.path.is_dir():
                self.path.rmdir()
            new.rename(self.path)
            sync(self.path.absolute().parent)
        except OSError as error:
            raise DiskError(f"{self.path} cannot be written ({error}): choose another path, or free space") from error
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def size(self) -> int:
        """Return the bytes on disk."""
        total = 0
        for path in self.path.rglob("*"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size if path.is_file() else 0
        return total


def sync(path: Path) -> None:
    """Write a file, or the entries of a folder, to the disk."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
