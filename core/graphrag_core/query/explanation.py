"""Why hits were found: paths through the graph, supporting facts and words, computed when somebody asks for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.errors import IndexClosed
from graphrag_core.ingest.edges import shared_fields
from graphrag_core.key_sets import distinct
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.query.evidence import Evidence
from graphrag_core.query.paths import EntityPath, choose_facts, find_paths, paths_from_passages
from graphrag_core.query.query import Query
from graphrag_core.result import Explanation, Hit, Link, Reason, Step
from graphrag_core.text import CJK, FUNCTION, has_cjk, label, normalise

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine as Engine
    from graphrag_core.engine.snapshot import Snapshot

Span = tuple[int, int]

_FOUND_BY_PLAIN = 10  # a passage that plain search ranks so high can be the start of a path
_TOKEN = re.compile(rf"(?:(?![{CJK}])\S)+")
_PIECE = re.compile(r"[^\W_]+[+#]*")
_SUFFIX = re.compile(r"['’](?:s|t|d|m|re|ll|ve)\b", re.IGNORECASE)
_JOINT = re.compile(r"[_./:-]{1,2}")
_MAX_TOKENS = 400


@dataclass(frozen=True, eq=False)
class Explainer:
    """Computes the explanation of a result from ids, since keys are valid in one snapshot only.

    Parameters
    ----------
    engine
        The index.
    seen
        What was seen while the question was answered.
    hits, reasons
        The hits, and of each its link to a better one and what moved it.
    """

    engine: Engine
    seen: Evidence
    hits: Sequence[Hit]
    reasons: Sequence[Reason]

    def __call__(self) -> Explanation:
        """Open a snapshot and compute the explanation; hits that are gone have no path."""
        try:
            with self.engine.snapshot(self.seen.scope) as snapshot:
                return self.explain(snapshot)
        except IndexClosed as error:
            raise IndexClosed(f"{error}. retrieve(..., explain=True) explains a result before") from error

    def explain(self, snapshot: Snapshot) -> Explanation:
        """Return the explanation by a snapshot of the query's scope."""
        found = snapshot.find_chunks([hit.chunk.id for hit in self.hits])
        places = [place for place, hit in enumerate(self.hits) if hit.chunk.id in found]
        keys = np.array([found[self.hits[place].chunk.id] for place in places], np.int64)
        linking = [reason.link.entity_id for reason in self.reasons if reason.link] + [
            hit.via[0].id for hit in self.hits if hit.via
        ]
        asked, question, terms = [*self.seen.entities.values()], self.seen.plan.text, self.seen.terms
        named = snapshot.find_entities([*(entity.id for entity in asked), *linking])
        entities = np.array([named[entity.id] for entity in asked if entity.id in named], np.int64)
        query = Query(question, snapshot, entities=entities)
        paths = self._paths(query, keys, places) if self.seen.graph.ran else [()] * len(keys)
        facts = self._facts(query, keys, paths)
        others = [key for path in paths for key in path[::2] if key >= snapshot.first_entity] + [*named.values()]
        entity_keys = distinct(snapshot.fact_rows(facts).entities, np.array(others, np.int64))
        known = dict(zip(entity_keys.tolist(), snapshot.entities(entity_keys), strict=True))
        subjects = _subjects_of(snapshot, keys if len(facts) else keys[:0])
        on_paths = np.array([fact for path in paths for fact in path[1::2]], np.int64)
        every = distinct(facts, on_paths)
        read = dict(zip(every.tolist(), snapshot.facts(every), strict=True))
        is_same = self.has_same_keys(snapshot)
        shown = [self.hits[place].chunk for place in places] if is_same else snapshot.chunks(keys)
        chunks = dict(zip(keys.tolist(), shown, strict=True))
        by_name = _by_name([*known.values(), *asked])
        words, uncovered = ([], ()) if terms is None else _words_of(question, snapshot, terms, keys)
        reasons = {}
        for at, (place, path, chunk) in enumerate(zip(places, paths, chunks.values(), strict=True)):
            own, covers = words[at] if words else ((), ())
            reasons[chunk.id] = replace(
                self.reasons[place],
                path=self._steps(path, chunk, known, read, chunks),
                words=own,
                covers=covers,
                link=self._link(self.reasons[place].link, by_name),
                subjects=subjects.get(keys[at], ()),
            )
        return Explanation(
            reasons=reasons,
            facts=tuple(read[key] for key in facts.tolist()),
            known=by_name,
            uncovered=uncovered,
        )

    def has_same_keys(self, snapshot: Snapshot) -> bool:
        """Return whether passages and facts have the same keys in a snapshot as in that of the query."""
        return snapshot.generation == self.seen.generation and snapshot.numbering is self.seen.numbering

    def _paths(self, query: Query, keys: Keys, places: Sequence[int]) -> list[EntityPath]:
        """Return the path to each passage; none where the graph neither ranks it higher than plain search nor moved it.

        A passage that mentions an entity of the question always has its path. One that the graph found without
        a path from the question may have one from a passage that plain search found.
        """
        graph, plain = np.full((2, len(places)), math.inf)
        for at, place in enumerate(places):
            for name, channel in self.hits[place].channels.items():
                if name == "graph":
                    graph[at] = channel.rank
                elif self.seen.settings.method != "graph":
                    plain[at] = min(plain[at], channel.rank)
        moved = np.array([not {"graph", "links"}.isdisjoint(self.reasons[place].moved) for place in places], np.bool_)
        leads = (((graph <= plain) | moved) & (graph < math.inf)).tolist()
        found = zip(find_paths(query, keys), leads, strict=True)
        paths = [path if len(path) == 1 or leading else () for path, leading in found]
        wanted = [leading and not path for path, leading in zip(paths, leads, strict=True)]
        others = paths_from_passages(query, keys, keys[plain <= _FOUND_BY_PLAIN], wanted)
        return [path or other for path, other in zip(paths, others, strict=True)]

    def _facts(self, query: Query, keys: Keys, paths: Sequence[EntityPath]) -> Keys:
        """Return the facts that support the answer, most important first; those of a strategy that ranks facts."""
        if not self.seen.graph.ran:
            return keys[:0]
        expansion, is_same = self.seen.graph.expansion, self.has_same_keys(query.snapshot)
        if expansion.ranked_facts:
            return expansion.facts if is_same else _find_facts(query.snapshot, expansion.ranked_facts)
        return choose_facts(query, paths, keys, expansion.facts if is_same else keys[:0])

    def _steps(
        self,
        path: EntityPath,
        chunk: Chunk,
        known: Mapping[int, Entity],
        facts: Mapping[int, Fact],
        chunks: Mapping[int, Chunk],
    ) -> tuple[Step, ...]:
        """Return a path as steps from the question to the passage."""
        if not path:
            return ()
        steps = [Step("question", "", self.seen.plan.text)]
        for at, key in enumerate(path):
            if at % 2:
                steps.append(Step("fact", facts[key].id, facts[key].text))
            else:
                steps.append(Step("entity", known[key].id, known[key].name) if key in known else _to(chunks[key]))
        return (*steps, _to(chunk))

    def _link(self, link: Link | None, known: Mapping[str, Entity]) -> Link | None:
        """Return the link of a hit; the name of a value of metadata has its field before it."""
        if link is None or link.entity_id not in known:
            return link
        kind = known[link.entity_id].type
        prefix = f"{kind}: " if kind in shared_fields(self.engine.settings()) else ""
        return link if link.entity.startswith(prefix) else replace(link, entity=prefix + link.entity)


def _by_name(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities by id and by alias: a fact may hold either."""
    return {name: entity for entity in entities for name in (*map(normalise, entity.aliases), entity.id)}


def _subjects_of(snapshot: Snapshot, chunks: Keys) -> dict[int, tuple[str, ...]]:
    """Return the ids of the entities that each chunk is about."""
    mentions = snapshot.mentions(chunks)
    owners, subjects = chunks.repeat(mentions.counts)[mentions.is_about], mentions.targets[mentions.is_about]
    found: dict[int, tuple[str, ...]] = {}
    for owner, entity in zip(owners.tolist(), snapshot.entities(subjects), strict=True):
        found[owner] = (*found.get(owner, ()), entity.id)
    return found


def _find_facts(snapshot: Snapshot, ids: Sequence[str]) -> Keys:
    """Return the facts of some ids that still exist, in this order. The id of a fact begins with that of its chunk."""
    chunks = snapshot.find_chunks([*{fact_id.rpartition("/")[0] for fact_id in ids}])
    keys = snapshot.sentences(np.array([*chunks.values()], np.int64), ()).facts
    by_id = {fact.id: key for key, fact in zip(keys.tolist(), snapshot.facts(keys), strict=True)}
    return np.array([by_id[fact_id] for fact_id in ids if fact_id in by_id], np.int64)


def _to(chunk: Chunk) -> Step:
    return Step("chunk", chunk.id, label(chunk.title, chunk.headings) or chunk.id)


def _words_of(
    question: str, snapshot: Snapshot, terms: Sequence[str], shown: Keys
) -> tuple[list[tuple[tuple[str, ...], tuple[str, ...]]], tuple[str, ...]]:
    """Return the words of a question in each of some chunks and those in none above it, and the words in no chunk."""
    words = _Words(question, snapshot, terms)
    above: set[str] = set()
    covered = []
    for flags in snapshot.contained(shown, terms):
        own = {terms[at] for at in np.flatnonzero(flags).tolist()}
        covered.append((words.written(own), words.written(own - above, above)))
        above |= own
    return covered, words.written(set(terms) - above, above)


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
        """Return the words of some terms, in the order of the question, without function words.

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
        return tuple({word.casefold(): word for word in filter(_has_meaning, reversed(words))}.values())[::-1]


def _has_meaning(word: str) -> bool:
    """Return whether a word is not a function word; "US" is not "us"."""
    return word.lower() not in FUNCTION or (len(word) > 1 and word.isupper())
