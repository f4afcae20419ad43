"""Files of named arrays: those of ``numpy.savez_compressed``, written with the fastest compression."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to a file."""
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for name, array in arrays.items():
            with file.open(name, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def load_arrays(path: Path) -> dict[str, Array]:
    """Read a file that :func:`save_arrays` wrote; raise ``OSError`` or ``ValueError`` if it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (BadZipFile, EOFError, KeyError, NotImplementedError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
