"""Why a second stage put passages where they are: the links between them, and what moved each up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.ports import Keys
from graphrag_core.query.matching import Flags, Values
from graphrag_core.result import Link, LinkKind, Signal

_LEAST = 0.05  # a link or a signal that adds less to the score is not a reason


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

    @classmethod
    def of(cls, entities: Keys, held: Flags, subject: Flags, to_subject: Values, to_mention: Values) -> Links:
        """Return the links between candidates, each with the strength of its strongest entity."""
        links = np.maximum(_strongest(to_subject, subject), _strongest(to_mention, held))
        links = np.maximum(links, links.T)
        np.fill_diagonal(links, 0)
        return cls(links, entities, held, subject, to_subject, to_mention)

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


_LINK_KINDS: tuple[LinkKind, ...] = ("about", "mentions", "both_mention")


class Chosen(NamedTuple):
    """The candidates in order, the scores of the first ones, and for each step the new words and links of all."""

    order: Keys
    scores: Values
    steps: Sequence[tuple[Values, Values]]


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
    chosen, links
        In which order they were chosen, and the links between them.
    """

    keys: Keys
    plain: Keys
    terms: Sequence[str]
    signals: Mapping[Signal, Values]
    chosen: Chosen
    links: Links

    def moved(self, shown: Keys) -> list[tuple[Signal, ...]]:
        """Return for each of the chunks shown the signals by which it is above passages that plain search ranks higher.

        A signal counts if it adds more to the chunk's score than to that of such a passage. Most important first.
        """
        row_of = {key: row for row, key in enumerate(self.keys.tolist())}
        plain_rank = {key: rank for rank, key in enumerate(self.plain.tolist())}
        ranks = np.array([plain_rank.get(key, len(plain_rank)) for key in self.keys.tolist()])
        place = np.empty(len(self.keys), np.int64)
        place[self.chosen.order] = np.arange(len(self.keys))
        moved: list[tuple[Signal, ...]] = []
        for key in shown.tolist():
            row = row_of.get(key)
            passed = np.flatnonzero((place > place[row]) & (ranks < ranks[row])) if row is not None else place[:0]
            moved.append(self._moved_by(row, passed, place[row]) if row is not None and len(passed) else ())
        return moved

    def _moved_by(self, row: int, passed: Keys, place: int) -> tuple[Signal, ...]:
        added, linked = self.chosen.steps[min(place, len(self.chosen.steps) - 1)]
        parts = {**self.signals, "links": linked}
        parts["words"] = parts["words"] + added
        gains = {name: float((values[row] - values[passed]).max()) for name, values in parts.items() if name != "plain"}
        order = sorted(gains, key=lambda name: -gains[name])
        return tuple(name for name in order if gains[name] >= _LEAST) or tuple(order[:1])

    def linking(self, shown: Keys) -> Keys:
        """Return the entities that may link some chunks with each other."""
        rows = np.flatnonzero(np.isin(self.keys, shown))
        entities: Keys = self.links.entities[self.links.held[rows].sum(axis=0) > 1]
        return entities

    def links_of(self, shown: Keys, ids: Sequence[str], known: Mapping[int, Entity]) -> list[Link | None]:
        """Return the strongest link of each of the chunks shown, which have these ids, to one above it, if any.

        Of links that are equally strong, that to the best chunk, through the first entity by id. ``known`` has the
        entities of :meth:`linking`.
        """
        row_of = {key: row for row, key in enumerate(self.keys.tolist())}
        places = {key: place for place, key in enumerate(shown.tolist()) if key in row_of}
        rows, order = [row_of[key] for key in places], [*places.values()]
        strengths = self.links.strengths[np.ix_(rows, rows)].round(6)  # equal whatever the order of the sums
        found: dict[int, tuple[int, Keys, LinkKind]] = {}
        for at in range(1, len(rows)):
            above = int(strengths[at, :at].argmax())
            if strengths[at, above] >= _LEAST:
                found[order[at]] = order[above], *self.links.strongest(rows[at], rows[above])
        links: list[Link | None] = [None] * len(shown)
        for place, (above, linking, kind) in found.items():
            named = [known[key] for key in linking.tolist()]
            if kind == "both_mention":  # a year that two passages share says nothing about them
                named = [entity for entity in named if any(map(str.isalpha, entity.name))]
            if named:
                entity = min(named, key=attrgetter("id"))
                links[place] = Link(above + 1, ids[above], entity.id, entity.name, kind)
        return links


def _strongest(values: Values, flags: Flags) -> Values:
    """Return for each two rows the largest value of the second in a column that the first has; both are 2-D."""
    strongest = np.zeros((len(flags), len(values)))
    rows, columns = np.nonzero(flags)
    if len(rows):
        first = np.concatenate([[0], 1 + np.flatnonzero(rows[1:] != rows[:-1])])
        strongest[rows[first]] = np.maximum.reduceat(values.T[columns], first)
    return strongest
