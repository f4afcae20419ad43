"""The files of bases, in the folder of an index or in a host's cache: ``arrays-<generation>-<token>.base``."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from graphrag_core.errors import DiskError


def base_file(folder: Path, name: str) -> Path:
    """Return the path of a base, whose name is a generation and a token."""
    return folder / f"arrays-{name.replace(' ', '-')}.base"


def bases(folder: Path) -> list[Path]:
    """Return all bases of a folder, also those that are left over."""
    return [*folder.glob("arrays-*.base")]


def drop_bases(folder: Path, keep: Path | None) -> None:
    """Delete all bases of a folder but one. Windows keeps files that are mapped: the next writer deletes them."""
    for path in bases(folder):
        if path != keep:
            with suppress(OSError):
                path.unlink()


def write_synced(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file and sync it to disk; remove it if that fails."""
    try:
        with path.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if os.name == "posix":  # the entry of the folder
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BaseException as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DiskError(f"{path} cannot be written ({error}): free disk space, and repeat the call") from error
        raise
