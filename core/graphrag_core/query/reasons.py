"""Why the second stage put hits where they are: what moved each up, and its link to a better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys
from graphrag_core.result import LinkKind, Signal

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_LEAST = 0.05  # a link or a signal that adds less to the score is not a reason
_LINK_KINDS: tuple[LinkKind, ...] = ("about", "mentions", "both_mention")


class Links(NamedTuple):
    """The links between passages: how strong each is, and through which entity.

    ``held`` and ``subject`` say which passage mentions an entity and which is about it; ``to_subject`` and
    ``to_mention`` are the strengths of an entity in a passage, towards others that are about it or mention it.
    ``entities`` are ids, which other snapshots know, too.
    """

    strengths: Values
    entities: Keys
    held: Flags
    subject: Flags
    to_subject: Values
    to_mention: Values

    def only(self, rows: Keys) -> Links:
        """Return the links between some of the passages."""
        shared = self.held[rows].sum(axis=0) > 1
        own = np.ix_(rows, shared)
        return Links(
            self.strengths[np.ix_(rows, rows)], self.entities[shared], self.held[own], self.subject[own],
            self.to_subject[own], self.to_mention[own],
        )  # fmt: skip

    def strongest(self, one: int, other: int) -> tuple[list[int], LinkKind]:
        """Return the entities of the strongest link between two passages, and what it is to the first."""
        about, other_about = self.subject[one], self.subject[other]
        values = np.stack(
            [
                self.to_subject[other] * about,
                self.to_subject[one] * other_about,
                np.maximum(self.to_mention[one] * self.held[other], self.to_mention[other] * self.held[one]),
            ]
        ).round(6)
        best = values.max(axis=1, initial=0)
        which = int(best.argmax())
        entities = values[which] == best[which]
        both = entities & about & other_about
        if which == 2 and both.any():
            return self.entities[both].tolist(), "both_about"
        return self.entities[entities].tolist(), _LINK_KINDS[which]


class Choice(NamedTuple):
    """How the second stage chose its candidates.

    Attributes
    ----------
    keys, plain
        The candidates, and the ranking of plain search.
    signals
        What each signal adds to the score of each candidate, besides new words and links.
    order, added, linked
        In which order they were chosen, and for each step the new words and the links of all.
    links
        The links between them.
    """

    keys: Keys
    plain: Keys
    signals: Mapping[Signal, Values]
    order: Keys
    added: Values
    linked: Values
    links: Links

    def reasons(self, shown: Keys, *, reordered: bool) -> Reasons:
        """Return what explains the passages that are shown; no signal moved them if another reranker ordered them."""
        hits, rows = (shown[:, None] == self.keys).nonzero()
        place, ranks = np.empty(len(self.keys), np.int64), np.full(len(self.keys), len(self.plain))
        place[self.order] = np.arange(len(self.keys))
        at, of_plain = (self.keys[:, None] == self.plain).nonzero()
        ranks[at] = of_plain
        step = np.minimum(place[rows], len(self.added) - 1)
        gains = {**self.signals, "words": self.signals["words"] + self.added[step], "links": self.linked[step]}
        del gains["plain"]
        passed = (place > place[rows, None]) & (ranks < ranks[rows, None]) & (not reordered)
        few = {name: values.astype(np.float32) for name, values in gains.items()}
        return Reasons(len(shown), hits, rows, passed, few, self.links.only(rows))


class Reasons(NamedTuple):
    """What explains some hits, in a few numbers for each.

    ``size`` is their number, ``hits`` those that were candidates, and ``rows`` which candidates these are. ``passed``
    says which candidates each is above although plain search ranks them higher, ``gains`` what each signal added to all
    when it was chosen.
    """

    size: int
    hits: Keys
    rows: Keys
    passed: Flags
    gains: Mapping[Signal, npt.NDArray[np.float32]]
    links: Links

    def moved(self) -> list[tuple[Signal, ...]]:
        """Return for each hit the signals by which it is above passages that plain search ranks higher.

        A signal counts if it adds more to the hit's score than to that of such a passage. Most important first.
        """
        values = np.stack([np.broadcast_to(own, self.passed.shape) for own in self.gains.values()])
        own = values[:, np.arange(len(self.rows)), self.rows][:, :, None]
        gains = np.where(self.passed, own - values, -np.inf).max(axis=2, initial=-np.inf).T
        moved: list[tuple[Signal, ...]] = [()] * self.size
        for row in np.flatnonzero(self.passed.any(axis=1)).tolist():
            names = [*zip(gains[row].tolist(), self.gains, strict=True)]
            names.sort(key=lambda pair: -pair[0])
            moved[self.hits[row]] = tuple(name for gain, name in names if gain >= _LEAST) or (names[0][1],)
        return moved

    def linked(self) -> Sequence[tuple[int, list[int], LinkKind] | None]:
        """Return of each hit the strongest link to one above it, if any: that hit, the ids of entities, and the kind.

        Of links that are equally strong, that to the best hit.
        """
        strengths = self.links.strengths.round(6)  # equal whatever the order of the sums
        found: list[tuple[int, list[int], LinkKind] | None] = [None] * self.size
        for at in range(1, len(self.rows)):
            above = int(strengths[at, :at].argmax())
            if strengths[at, above] >= _LEAST:
                found[self.hits[at]] = (int(self.hits[above]), *self.links.strongest(at, above))
        return found
