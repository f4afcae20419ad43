"""Why a reranker chose each hit: the hit above it that it is linked to, and the words of the question that it adds.

The reranker knows the links of all its candidates. What is shown is computed for the hits that are returned, in their
final order: copies and what is below the last hit do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.key_sets import distinct
from graphrag_core.model import Entity
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

    @classmethod
    def none(cls) -> Links:
        """Return no links."""
        return cls(
            np.empty((0, 0)), np.empty(0, np.int64), *(np.empty((0, 0), np.bool_),) * 2, *(np.empty((0, 0)),) * 2
        )

    def between(self, ones: Sequence[int], others: Sequence[int]) -> list[tuple[Keys, LinkKind]]:
        """Return for each pair of candidates the entities of the strongest link, and what it is to the first."""
        subject = self.subject[ones], self.subject[others]
        kinds: list[LinkKind] = ["about", "mentions", "both_mention"]
        values = _rounded(
            np.stack(
                [
                    self.to_subject[others] * subject[0],
                    self.to_subject[ones] * subject[1],
                    np.maximum(self.to_mention[ones] * self.held[others], self.to_mention[others] * self.held[ones]),
                ]
            )
        )
        best = values.max(axis=2, initial=0)
        found: list[tuple[Keys, LinkKind]] = []
        for pair, which in enumerate(best.argmax(axis=0).tolist()):
            kind, strongest = kinds[which], values[which, pair] == best[which, pair]
            both = strongest & subject[0][pair] & subject[1][pair]
            if kind == "both_mention" and both.any():
                kind, strongest = "both_about", both
            found.append((self.entities[strongest], kind))
        return found


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
    entity: Entity
    kind: LinkKind
    followed: bool


@dataclass(frozen=True, eq=False)
class Reasons:
    """What a reranker knows of its candidates.

    Parameters
    ----------
    keys
        The candidates.
    terms
        The terms of the question.
    links, bridges
        How candidates are linked, and how some were found through others.
    """

    keys: Keys
    terms: Sequence[str]
    links: Links
    bridges: Bridges

    def links_of(self, snapshot: Snapshot, shown: Keys) -> list[LinkReason | None]:
        """Return the strongest link of each of the chunks shown to one above it, through the first entity by id."""
        found = self._links(shown.tolist(), {key: row for row, key in enumerate(self.keys.tolist())})
        if not any(found):
            return [None] * len(found)
        keys = distinct(*(link.entities for link in found if link))
        entities = dict(zip(keys.tolist(), snapshot.entities(keys), strict=True))
        links: list[LinkReason | None] = []
        for link in found:
            linking = [] if link is None else [entities[key] for key in link.entities.tolist()]
            if link and link.kind == "both_mention":  # a year that two passages share says nothing about them
                linking = [entity for entity in linking if any(map(str.isalpha, entity.name))]
            one = min(linking, key=attrgetter("id"), default=None)
            links.append(LinkReason(link.place, one, link.kind, link.followed) if link and one else None)
        return links

    def _links(self, shown: Sequence[int], rows: Mapping[int, int]) -> list[_Found | None]:
        """Return the strongest link of each chunk shown to one above it; None if there is none worth telling."""
        places = {key: place for place, key in enumerate(shown)}
        own = [rows[key] for key in shown if key in rows]
        strengths = dict(zip(own, _rounded(self.links.strengths[own]).tolist(), strict=True))
        starts, values = self.bridges.starts.tolist(), _rounded(self.bridges.strengths).tolist()
        ways_to: dict[int, list[int]] = {}
        for way, end in enumerate(self.bridges.ends.tolist()):
            ways_to.setdefault(end, []).append(way)
        found: list[_Found | None] = [None] * len(shown)
        pairs: list[tuple[int, int]] = []  # the places of chunks and of those above that they are linked to
        for place, key in enumerate(shown):
            above = [other for other in range(place) if shown[other] in rows]
            if key not in rows or not above:
                continue
            to = {other: strengths[rows[key]][rows[shown[other]]] for other in above}
            strongest = max(to, key=to.__getitem__)  # the first of equal ones
            ways = [way for way in ways_to.get(key, ()) if places.get(starts[way], place) < place]
            by_way = max((values[way] for way in ways), default=0.0)
            if max(by_way, to[strongest]) < _LEAST:
                continue
            if by_way < to[strongest]:
                pairs.append((place, strongest))
                continue
            strong = [(places[starts[way]], self.bridges.kind(way), way) for way in ways if values[way] == by_way]
            start, kind, _ = min(strong)
            same = [way for other, other_kind, way in strong if (other, other_kind) == (start, kind)]
            found[place] = _Found(start, self.bridges.entities[same], kind, followed=True)
        linked = [[rows[shown[place]] for place in end] for end in zip(*pairs, strict=True)]
        for (place, start), link in zip(pairs, self.links.between(*linked) if pairs else (), strict=True):
            found[place] = _Found(start, *link, followed=False)
        return found


def _rounded(values: Values) -> Values:
    """Return strengths that are equal whatever the order of their sums."""
    return values.round(6)


class _Found(NamedTuple):
    """A link through one of several entities that are equally strong."""

    place: int
    entities: Keys
    kind: LinkKind
    followed: bool


def words_of(
    question: str, snapshot: Snapshot, terms: Sequence[str], shown: Keys
) -> tuple[list[tuple[tuple[str, ...], tuple[str, ...]]], tuple[str, ...]]:
    """Return the words of a question in each of some chunks and those in none above it, and the words in no chunk."""
    words = _Words(question, snapshot, terms)
    above: set[str] = set()
    covered = []
    for flags in snapshot.terms_in("chunks", shown, terms):
        own = {terms[at] for at in np.flatnonzero(flags).tolist()}
        covered.append((words.written(own), words.written(own - above, above)))
        above |= own
    missing = words.written(set(terms) - above, above)
    return covered, tuple(word for word in missing if word != "I")  # the keyword index has it as a word


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
        self._cjk = {term: span for term, span in self._spans.items() if has_cjk(term)}

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
        covered = {at for term in above if term in self._cjk for at in range(*self._cjk[term])}
        words: list[str] = []
        for start, end in joined:
            if not covered:
                words.append(self._question[start:end])
                continue
            letters = ("\0" if at in covered else self._question[at] for at in range(start, end))
            words += filter(None, "".join(letters).split("\0"))
        return tuple({word.casefold(): word for word in reversed(words)}.values())[::-1]
