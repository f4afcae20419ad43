"""Files of named arrays that are mapped into memory.

A file has a header (JSON with type, shape and place of each array) and the arrays as they are in memory, each with some
room behind it. A mapped array is read from disk page by page when it is used. It can be changed and grow: the pages
that are written become copies in memory, and the file stays as it is.
"""

import json
import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.sparse import Growing

Array = npt.NDArray[Any]

_HEAD = struct.Struct("<8sII")  # the letters below, the length of the header that follows, and its checksum
_LETTERS = b"HGRarray"
_ALIGNED = 64  # bytes
_ROOM = 32  # an array may grow by this fraction of its length, and by a few rows more
_FEW_ROWS = 64


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to a file."""
    entries, end = dict[str, tuple[str, tuple[int, ...], int, int]](), 0
    for name, array in arrays.items():
        room = len(array) + len(array) // _ROOM + _FEW_ROWS
        entries[name] = array.dtype.str, array.shape, end, room
        end = _aligned(end + room * _row_bytes(array.dtype, array.shape))
    header = json.dumps([end, entries]).encode("ascii")
    start = _aligned(_HEAD.size + len(header))
    with path.open("wb") as file:
        file.write(_HEAD.pack(_LETTERS, len(header), zlib.crc32(header)) + header)
        for name, array in arrays.items():
            if array.size:
                file.seek(start + entries[name][2])
                file.write(np.ascontiguousarray(array).data)
        file.truncate(start + end)  # where nothing was written, there are zeros


def load_arrays(path: Path) -> dict[str, Growing]:
    """Map a file that :func:`save_arrays` wrote; raise ``OSError`` or ``ValueError`` if it is damaged.

    The header and the length of the file are checked, and not the content of the arrays.
    """
    try:
        with path.open("rb") as file:
            letters, length, checksum = _HEAD.unpack(file.read(_HEAD.size))
            header = file.read(length)
            if letters != _LETTERS or zlib.crc32(header) != checksum:
                raise ValueError("the header differs from its checksum")  # noqa: TRY301
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        end, entries = json.loads(header)
        start, found = _aligned(_HEAD.size + length), {}
        if len(content) != start + end:
            raise ValueError(f"it has {len(content)} bytes instead of {start + end}")  # noqa: TRY301
        for name, (dtype, shape, at, room) in entries.items():
            count = room * _row_bytes(np.dtype(dtype), shape) // np.dtype(dtype).itemsize
            buffer = np.frombuffer(content, dtype, count, start + at).reshape(room, *shape[1:])
            found[name] = Growing(buffer, shape[0])
    except (LookupError, TypeError, ValueError, struct.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return found


def _row_bytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    return dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
