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
        self._columns: dict[str, Column] = {name: np.empty(0, dtype) for name, dtype in dtypes.items()}

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(column.nbytes for column in self._columns.values())

    def append(self, **columns: npt.ArrayLike) -> None:
        """Add rows at the end."""
        for name, old in self._columns.items():
            new = np.asarray(columns[name], old.dtype)
            self._columns[name] = np.concatenate([old, new]) if len(old) else new

    def drop(self, rows: npt.NDArray[np.bool_]) -> None:
        """Take rows out."""
        if rows.any():
            self._columns = {name: column[~rows] for name, column in self._columns.items()}

    def where(self, rows: npt.NDArray[np.bool_]) -> Columns:
        """Return a table of some of the rows."""
        part = Columns()
        part._columns = {name: column[rows] for name, column in self._columns.items()}
        return part

    def arrays(self, prefix: str) -> dict[str, Column]:
        """Return the columns under names of their own, to be saved."""
        return {f"{prefix}.{name}": column for name, column in self._columns.items()}

    def take(self, prefix: str, arrays: Mapping[str, Column]) -> None:
        """Take back what :meth:`arrays` gave."""
        columns = {name: np.asarray(arrays[f"{prefix}.{name}"], old.dtype) for name, old in self._columns.items()}
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError(f"the columns of {prefix!r} differ in length")
        self._columns = columns
