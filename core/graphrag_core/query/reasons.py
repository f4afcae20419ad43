"""Why a second stage put passages where they are: the links between them, and what moved each up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.model import Entity
from graphrag_core.ports import Keys
from graphrag_core.result import Link, LinkKind, Signal

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_LEAST = 0.05  # a link or a signal that adds less to the score is not a reason
_LINK_KINDS: tuple[LinkKind, ...] = ("about", "mentions", "both_mention")


class Links(NamedTuple):
    """The links between candidates: how strong each is, and through which entity.

    ``held`` and ``subject`` say which candidate mentions an entity and which is about it; ``to_subject`` and
    ``to_mention`` are the strengths of an entity in a candidate, towards others that are about it or mention it.
    """

    strengths: Values
    entities: Keys
    held: Flags
    subject: Flags
    to_subject: Values
    to_mention: Values

    def strongest(self, one: int, other: int) -> tuple[Keys, LinkKind]:
        """Return the entities of the strongest link between two candidates, and what it is to the first."""
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
            return self.entities[both], "both_about"
        return self.entities[entities], _LINK_KINDS[which]


class Candidates(NamedTuple):
    """What a second stage knows of its candidates.

    Attributes
    ----------
    keys, plain
        The candidates, and the ranking of plain search.
    terms
        The terms of the question.
    signals
        What each signal adds to the score of each candidate, besides new words and links.
    order, added, linked
        In which order they were chosen, and for each step the new words and the links of all.
    links
        The links between them.
    """

    keys: Keys
    plain: Keys
    terms: Sequence[str]
    signals: Mapping[Signal, Values]
    order: Keys
    added: Values
    linked: Values
    links: Links

    def moved(self, shown: Keys) -> list[tuple[Signal, ...]]:
        """Return for each of the chunks shown the signals by which it is above passages that plain search ranks higher.

        A signal counts if it adds more to the chunk's score than to that of such a passage. Most important first.
        """
        place, plain_rank = np.empty(len(self.keys), np.int64), {key: at for at, key in enumerate(self.plain.tolist())}
        place[self.order] = np.arange(len(self.keys))
        ranks = np.array([plain_rank.get(key, len(plain_rank)) for key in self.keys.tolist()])
        at, rows = (shown[:, None] == self.keys).nonzero()
        passed = (place > place[rows, None]) & (ranks < ranks[rows, None])
        step = np.minimum(place[rows], len(self.added) - 1)
        parts = {**self.signals, "words": self.signals["words"] + self.added[step], "links": self.linked[step]}
        del parts["plain"]
        values = np.stack([np.broadcast_to(own, passed.shape) for own in parts.values()])
        own = values[:, np.arange(len(rows)), rows][:, :, None]
        gains = np.where(passed, own - values, -np.inf).max(axis=2).T
        moved: list[tuple[Signal, ...]] = [()] * len(shown)
        for row in np.flatnonzero(passed.any(axis=1)).tolist():
            names = [*zip(gains[row].tolist(), parts, strict=True)]
            names.sort(key=lambda pair: -pair[0])
            moved[at[row]] = tuple(name for gain, name in names if gain >= _LEAST) or (names[0][1],)
        return moved

    def links_of(self, shown: Keys, ids: Sequence[str], known: Mapping[int, Entity]) -> list[Link | None]:
        """Return the strongest link of each of the chunks shown, which have these ids, to one above it, if any.

        Of links that are equally strong, that to the best chunk, through the first entity by id. ``known`` has the
        entities that two of the chunks hold.
        """
        places, rows = (shown[:, None] == self.keys).nonzero()
        strengths = self.links.strengths[np.ix_(rows, rows)].round(6)  # equal whatever the order of the sums
        links: list[Link | None] = [None] * len(shown)
        for at in range(1, len(rows)):
            above = int(strengths[at, :at].argmax())
            if strengths[at, above] < _LEAST:
                continue
            linking, kind = self.links.strongest(rows[at], rows[above])
            named = [known[key] for key in linking.tolist()]
            if kind == "both_mention":  # a year that two passages share says nothing about them
                named = [entity for entity in named if any(map(str.isalpha, entity.name))]
            if named:
                entity, other = min(named, key=attrgetter("id")), int(places[above])
                links[places[at]] = Link(other + 1, ids[other], entity.id, entity.name, kind)
        return links
