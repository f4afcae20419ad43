"""Why each hit was chosen: the words of the question that it adds, and the hit above it that it is linked to.

A reranker knows this of all its candidates. What is shown is computed for the hits that are returned, in their final
order: copies and what is below the last hit do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys, Snapshot
from graphrag_core.result import LinkKind
from graphrag_core.text import CJK, has_cjk

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Span = tuple[int, int]

_LEAST = 0.05  # a link that adds less to the score is not a reason
_TOKEN = re.compile(rf"(?:(?![{CJK}])\S)+")
_PIECE = re.compile(r"[^\W_]+[+#]*")
_SUFFIX = re.compile(r"['’](?:s|t|d|m|re|ll|ve)\b", re.IGNORECASE)
_JOINT = re.compile(r"[_./:-]{1,2}")
_MAX_TOKENS = 400


class Links(NamedTuple):
    """The links between candidates: how much each adds to the score, and through which entity.

    ``held`` and ``subject`` say which candidate mentions an entity and which is about it; ``to_subject`` and
    ``to_mention`` are the strengths of an entity in a candidate, towards others that are about it or mention it.
    """

    strengths: Values
    entities: Keys
    held: Flags
    subject: Flags
    to_subject: Values
    to_mention: Values

    def between(self, one: int, other: int) -> tuple[Keys, LinkKind]:
        """Return the entities of the strongest link of two candidates, and what it is to the first."""
        kinds: dict[LinkKind, Values] = {
            "about": self.to_subject[other] * self.subject[one],
            "mentions": self.to_subject[one] * self.subject[other],
            "both_mention": np.maximum(
                self.to_mention[one] * self.held[other], self.to_mention[other] * self.held[one]
            ),
        }
        kinds = {kind: _rounded(values) for kind, values in kinds.items()}
        kind = max(kinds, key=lambda kind: float(kinds[kind].max(initial=0)))
        strongest = kinds[kind] == kinds[kind].max(initial=0)
        both = strongest & self.subject[one] & self.subject[other]
        if kind == "both_mention" and both.any():
            strongest, kind = both, "both_about"
        return self.entities[strongest], kind


class Bridges(NamedTuple):
    """Ways from a passage that plain search found through an entity to a candidate, one row for each.

    ``strengths`` are what each adds to the score; the flags say whether the passage and the candidate are about
    the entity.
    """

    starts: Keys
    entities: Keys
    ends: Keys
    strengths: Values
    start_is_about: Flags
    end_is_about: Flags

    @classmethod
    def none(cls) -> Bridges:
        """Return no bridges."""
        keys, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
        return cls(keys, keys, keys, np.empty(0), flags, flags)

    def kind(self, row: int) -> LinkKind:
        """Return what the entity of a row is to the candidate."""
        about, mentions = bool(self.end_is_about[row]), bool(self.start_is_about[row])
        if about:
            return "both_about" if mentions else "about"
        return "mentions" if mentions else "both_mention"


class LinkReason(NamedTuple):
    """The hit above that a hit is linked to, by its place from 0, and the entity that links them.

    ``followed`` says that the hit was found by following the other, and not only preferred for the link.
    """

    place: int
    entity: int
    kind: LinkKind
    followed: bool


class Reason(NamedTuple):
    """The words of the question in a hit, those of them in no hit above it, and its link to one of these."""

    words: tuple[str, ...]
    covers: tuple[str, ...]
    link: LinkReason | None


@dataclass(frozen=True, eq=False)
class Reasons:
    """What a reranker knows of its candidates.

    Parameters
    ----------
    keys
        The candidates.
    terms, covered
        The terms of the question, and which candidate has which: one row for each candidate.
    links, bridges
        How candidates are linked, and how some were found through others.
    """

    keys: Keys
    terms: Sequence[str]
    covered: Flags
    links: Links
    bridges: Bridges

    def of(self, question: str, snapshot: Snapshot, shown: Keys) -> tuple[list[Reason], tuple[str, ...]]:
        """Return the reason for each of the chunks shown, best first, and the words that none of them covers."""
        words = _Words(question, snapshot, self.terms)
        rows = {key: row for row, key in enumerate(self.keys.tolist())}
        others = [key for key in shown.tolist() if key not in rows]  # below the candidates
        extra = dict(zip(others, snapshot.terms_in("chunks", np.array(others, np.int64), self.terms), strict=True))
        places: dict[int, int] = {}  # of the hits above
        above: set[str] = set()
        covers, found = [], []
        for place, key in enumerate(shown.tolist()):
            flags = self.covered[rows[key]] if key in rows else extra[key]
            held = {self.terms[at] for at in np.flatnonzero(flags).tolist()}
            covers.append((words.written(held), words.written(held - above, above)))
            found.append(self._link(key, rows, places))
            places[key] = place
            above |= held
        links = _named(snapshot, found)
        reasons = [Reason(*told, link) for told, link in zip(covers, links, strict=True)]
        missing = words.written(set(self.terms) - above, above)
        return reasons, tuple(word for word in missing if word != "I")  # the keyword index has it as a word

    def _link(self, key: int, rows: dict[int, int], places: dict[int, int]) -> _Found | None:
        """Return the strongest link of a chunk to one of those at ``places``; None if there is none worth telling."""
        linked = [other for other in places if other in rows]
        if key not in rows or not linked:
            return None
        strengths = _rounded(self.links.strengths[rows[key], [rows[other] for other in linked]])
        ways = np.flatnonzero(self.bridges.ends == key)
        ways = ways[[start in places for start in self.bridges.starts[ways].tolist()]]
        values = _rounded(self.bridges.strengths[ways])
        by_way = float(values.max(initial=0))
        if max(by_way, float(strengths.max())) < _LEAST:
            return None
        if by_way < float(strengths.max()):
            start = linked[int(strengths.argmax())]
            return _Found(places[start], *self.links.between(rows[key], rows[start]), followed=False)
        best = ways[values == by_way]
        place, kind = min((places[int(self.bridges.starts[way])], self.bridges.kind(way)) for way in best.tolist())
        same = [
            way
            for way in best.tolist()
            if (places[int(self.bridges.starts[way])], self.bridges.kind(way)) == (place, kind)
        ]
        return _Found(place, self.bridges.entities[same], kind, followed=True)


def _rounded(values: Values) -> Values:
    """Return strengths that are equal whatever the order of their sums."""
    return values.round(6)


class _Found(NamedTuple):
    """A link through one of several entities that are equally strong."""

    place: int
    entities: Keys
    kind: LinkKind
    followed: bool


def _named(snapshot: Snapshot, found: Sequence[_Found | None]) -> list[LinkReason | None]:
    """Return links through one entity each, the first by id."""
    keys = np.unique(np.concatenate([np.empty(0, np.int64), *(link.entities for link in found if link)]))
    entities = dict(zip(keys.tolist(), snapshot.entities(keys), strict=True))
    links: list[LinkReason | None] = []
    for link in found:
        telling = [] if link is None else link.entities.tolist()
        if link and link.kind == "both_mention":  # a year that two passages share says nothing about them
            telling = [key for key in telling if any(map(str.isalpha, entities[key].name))]
        one = min(telling, key=lambda key: entities[key].id, default=None)
        links.append(LinkReason(link.place, one, link.kind, link.followed) if link and one is not None else None)
    return links


class _Words:
    """The words of a question as it writes them, by their terms."""

    def __init__(self, question: str, snapshot: Snapshot, terms: Sequence[str]) -> None:
        self._question = question
        self._spans: dict[str, Span] = {}
        for term in terms:
            if has_cjk(term) and (start := question.find(term)) >= 0:
                self._spans[term] = start, start + len(term)
        wanted = set(terms) - self._spans.keys()
        for token in list(_TOKEN.finditer(question))[:_MAX_TOKENS]:
            if not wanted:
                break
            text = _SUFFIX.sub(lambda match: " " * len(match.group()), token.group())
            pieces = [match.span() for match in _PIECE.finditer(text)]
            whole = (pieces[0][0], pieces[-1][1]) if pieces else (0, 0)
            for start, end in dict.fromkeys([*pieces, whole]):
                found = snapshot.terms(text[start:end])
                if len(found) == 1 or (start, end) == whole:
                    for term in wanted.intersection(found):
                        self._spans[term] = token.start() + start, token.start() + end
                    wanted.difference_update(found)

    def written(self, terms: Iterable[str], above: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the words of some terms, in the order of the question.

        Overlapping terms are one word, such as an identifier and its parts, or the bigrams of a Chinese word, without
        the characters of the terms ``above``.
        """
        joined: list[Span] = []
        for start, end in sorted(self._spans[term] for term in terms if term in self._spans):
            if joined and (start < joined[-1][1] or _JOINT.fullmatch(self._question, joined[-1][1], start)):
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        covered = {at for term in above if term in self._spans and has_cjk(term) for at in range(*self._spans[term])}
        words: list[str] = []
        for start, end in joined:
            letters = ("\0" if at in covered else self._question[at] for at in range(start, end))
            words += filter(None, "".join(letters).split("\0"))
        return tuple({word.casefold(): word for word in reversed(words)}.values())[::-1]
