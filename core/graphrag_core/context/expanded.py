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
    stored, a line break is in its place.
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
        """The offset of the first passage in its document, or in the source that an application cut."""
        return self.parts[0].start

    @property
    def end(self) -> int:
        """The offset after the last passage, in the same text."""
        return self.parts[-1].start + len(self.parts[-1].text)

    def joined(self, other: ExpandedPassage) -> ExpandedPassage | None:
        """Return both as one, if they have a passage in common."""
        ids = self.ids
        shared = next((place for place, part in enumerate(other.parts) if part.id in ids), None)
        if shared is None:
            return None
        first = ids.index(other.parts[shared].id) - shared  # the place of the other's first passage
        before, after = other.parts[: max(0, -first)], other.parts[max(0, len(ids) - first) :]
        return ExpandedPassage((*before, *self.parts, *after))

    def to_dict(self) -> dict[str, Any]:
        """Return the text, the ids and the start as JSON-compatible values."""
        return {"text": self.text, "ids": list(self.ids), "start": self.start}


def _rest(before: Part, part: Part) -> str:
    """Return what a passage adds to the one before it, with what separates them."""
    one, other = before.text, part.text
    if before.origin == part.origin:
        gap = part.start - (before.start + len(one))
        if gap >= 0:
            return "\n" * min(gap, 2) + other
        if one.endswith(other[:-gap]) or (-gap > len(other) and other in one):
            return other[-gap:]
    for length in range(min(len(one), len(other), _MOST_OVERLAP), _LEAST_OVERLAP - 1, -1):
        if one.endswith(other[:length]):
            return other[length:]
    return f"\n{other}"
