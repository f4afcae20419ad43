"""Columns of numbers that grow, shrink and go to disk together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]


class Columns:
    """A table kept as one array a column.

    >>> table = Columns(key=np.int32, weight=np.float32)
    >>> table.append(key=[1, 2, 3], weight=[0.5, 1, 2])
    >>> table.drop(np.isin(table["key"], [2]))
    >>> table["weight"].tolist()
    [0.5, 2.0]
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        # Laid end to end when next looked at: to do so at each append would copy everything each time.
        self._parts: dict[str, list[Column]] = {name: [] for name in dtypes}

    def __getitem__(self, name: str) -> Column:
        parts = self._parts[name]
        if len(parts) != 1:
            parts[:] = [np.concatenate(parts) if parts else np.empty(0, self._dtypes[name])]
        return parts[0]

    def __len__(self) -> int:
        return sum(map(len, next(iter(self._parts.values()))))

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(part.nbytes for parts in self._parts.values() for part in parts)

    def append(self, **columns: npt.ArrayLike) -> None:
        """Add rows at the end; arrays are kept as they are, and not to be changed."""
        for name, dtype in self._dtypes.items():
            self._parts[name].append(np.asarray(columns[name], dtype))

    def drop(self, rows: npt.NDArray[np.bool_]) -> None:
        """Take rows out."""
        if rows.any():
            self._parts = {name: [self[name][~rows]] for name in self._dtypes}

    def where(self, rows: npt.NDArray[np.bool_]) -> Columns:
        """Return a table of some of the rows."""
        part = Columns(**self._dtypes)
        part._parts = {name: [self[name][rows]] for name in self._dtypes}
        return part

    def arrays(self, prefix: str) -> dict[str, Column]:
        """Return the columns under names of their own, to be saved."""
        return {f"{prefix}.{name}": self[name] for name in self._dtypes}

    def take(self, prefix: str, arrays: Mapping[str, Column]) -> None:
        """Take back what :meth:`arrays` gave."""
        columns = {name: np.asarray(arrays[f"{prefix}.{name}"], dtype) for name, dtype in self._dtypes.items()}
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError(f"the columns of {prefix!r} differ in length")
        self._parts = {name: [column] for name, column in columns.items()}
