"""``ExpandedPassage``: a passage together with the passages around it, as one text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Around = Literal["section", "neighbours"]
"""What is read around a passage: its section, or the passages before and after it."""

_LEAST_OVERLAP = 10  # characters that two passages must share if it is not known where they start
_MOST_OVERLAP = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """One passage of an expanded passage. ``start`` is its offset in the text that ``origin`` names."""

    id: str
    text: str
    origin: str
    start: int


@dataclass(frozen=True, slots=True)
class ExpandedPassage:
    """A passage together with the passages around it, in the order of their source.

    ``text`` has the characters that two passages share once. Where the text between two pieces of a source is not
    stored, a line break is in its place. ``start`` and ``end`` are offsets in the document, or in the source that an
    application cut.
    """

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text of all passages."""
        return self.parts[0].text + "".join(_rest(before, part) for before, part in pairwise(self.parts))

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the passages."""
        return tuple(part.id for part in self.parts)

    @property
    def start(self) -> int:
        """The offset of the first passage."""
        return self.parts[0].start

    @property
    def end(self) -> int:
        """The offset after the last passage."""
        return self.parts[-1].start + len(self.parts[-1].text)

    def to_dict(self) -> dict[str, Any]:
        """Return the text, the ids and the start as JSON-compatible values."""
        return {"text": self.text, "ids": list(self.ids), "start": self.start}


def _rest(before: Part, part: Part) -> str:
    """Return what a passage adds to the one before it, with what separates them."""
    one, other = before.text, part.text
    gap = part.start - (before.start + len(one)) if before.origin == part.origin else None
    if gap is not None and gap >= 0:
        return "\n" * min(gap, 2) + other
    if gap is not None and one.endswith(other[:-gap]):
        return other[-gap:]
    lengths = range(min(len(one), len(other), _MOST_OVERLAP), _LEAST_OVERLAP - 1, -1)
    return next((other[length:] for length in lengths if one.endswith(other[:length])), f"\n{other}")
