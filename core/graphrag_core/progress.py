"""Progress bars for long work: shown on a terminal, silent elsewhere."""

from __future__ import annotations

from types import TracebackType

from tqdm import tqdm
from typing_extensions import Self


class Progress:
    """A bar that counts, for use in a ``with`` statement.

    Parameters
    ----------
    what
        The work, in a word or two.
    unit
        What is counted.
    total
        How many there will be, if that is known.
    show
        True or False to force it; None shows it on a terminal only.
    """

    def __init__(self, what: str, unit: str, total: int | None = None, show: bool | None = None) -> None:
        disable = None if show is None else not show
        self._bar = tqdm(total=total, desc=what, unit=f" {unit}", disable=disable, leave=False, dynamic_ncols=True)

    def advance(self, count: int = 1) -> None:
        """Count some more as done."""
        self._bar.update(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
