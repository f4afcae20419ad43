"""Why hits were found: paths through the graph, supporting facts and words, computed when somebody asks for them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.errors import IndexClosed
from graphrag_core.ingest.edges import shared_fields
from graphrag_core.ingest.remembered import visible_by
from graphrag_core.key_sets import distinct
from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys
from graphrag_core.query.evidence import Evidence
from graphrag_core.query.paths import EntityPath, choose_facts, find_paths
from graphrag_core.query.query import Query
from graphrag_core.result import Explanation, Hit, Link, Reason, Signal, Step
from graphrag_core.text import CJK, FUNCTION, has_cjk, label, normalise

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine as Engine
    from graphrag_core.engine.snapshot import Snapshot

_WORD = re.compile(rf"(?:(?![{CJK}])\w)+(?:[-_./:]{{1,2}}(?:(?![{CJK}])\w)+)*[+#]*")
_MAX_WORDS = 400


def explain(engine: Engine, seen: Evidence, hits: Sequence[Hit]) -> Explanation:
    """Open a snapshot and compute the explanation of hits; those that are gone have no path.

    It is computed from ids, since keys are valid in one snapshot only.
    """
    try:
        with engine.snapshot(partial(visible_by, scope=seen.plan.scope, at=seen.plan.at)) as snapshot:
            return _explained(snapshot, seen, hits, shared_fields(engine.settings()))
    except IndexClosed as error:
        raise IndexClosed(f"{error}. retrieve(..., explain=True) explains a result before") from error


def _explained(snapshot: Snapshot, seen: Evidence, hits: Sequence[Hit], fields: Collection[str]) -> Explanation:
    reasons = [*map(_reason, _links(snapshot, seen, hits), seen.moved)]
    found = snapshot.find_chunks([hit.chunk.id for hit in hits])
    places = [place for place, hit in enumerate(hits) if hit.chunk.id in found]
    keys = np.array([found[hits[place].chunk.id] for place in places], np.int64)
    asked = [*seen.entities.values()]
    ids = [entity.id for entity in asked] + [reason.link.entity_id for reason in reasons if reason.link]
    named = snapshot.find_entities([*ids, *(hit.via[0].id for hit in hits if hit.via)])
    entities = np.array([named[entity.id] for entity in asked if entity.id in named], np.int64)
    query = Query(seen.plan.text, snapshot, entities=entities)
    paths = _paths(query, seen, keys, [(hits[place], reasons[place]) for place in places])
    facts = _facts(query, seen, keys, paths)
    steps = _Steps(snapshot, paths, facts, np.array([*named.values()], np.int64))
    # By id and by alias: a fact may hold either.
    known = (*steps.entities.values(), *asked)
    by_name = {name: one for one in known for name in (*map(normalise, one.aliases), one.id)}
    subjects = _subjects_of(snapshot, keys if len(facts) else keys[:0])
    words, uncovered = _words_of(seen, snapshot, keys)
    explained = {}
    for at, chunk in enumerate(snapshot.chunks(keys)):
        reason, (own, covers) = reasons[places[at]], words[at]
        explained[chunk.id] = replace(
            reason, path=steps.of(seen.plan.text, paths[at], chunk), words=own, covers=covers,
            link=_named_link(reason.link, by_name, fields), subjects=subjects.get(int(keys[at]), ()),
        )  # fmt: skip
    supporting = tuple(steps.facts[key] for key in facts.tolist())
    return Explanation(reasons=explained, facts=supporting, known=by_name, uncovered=uncovered)


def _reason(link: Link | None, moved: tuple[Signal, ...]) -> Reason:
    return Reason(link=link, moved=moved)


class _Steps:
    """The entities and facts of paths as steps, read at once with some other facts and entities."""

    def __init__(self, snapshot: Snapshot, paths: Sequence[EntityPath], facts: Keys, others: Keys) -> None:
        on_paths = [np.array([key for path in paths for key in path[first::2]], np.int64) for first in (0, 1)]
        entities = distinct(snapshot.fact_rows(facts).entities, on_paths[0], others)
        every = distinct(facts, on_paths[1])
        self.entities = dict(zip(entities.tolist(), snapshot.entities(entities), strict=True))
        self.facts = dict(zip(every.tolist(), snapshot.facts(every), strict=True))

    def of(self, question: str, path: EntityPath, chunk: Chunk) -> tuple[Step, ...]:
        """Return a path from the question to a passage; nothing for an empty one."""
        if not path:
            return ()
        steps = [Step("question", "", question)]
        for at, key in enumerate(path):
            if at % 2:
                steps.append(Step("fact", self.facts[key].id, self.facts[key].text))
            else:
                steps.append(Step("entity", self.entities[key].id, self.entities[key].name))
        return (*steps, Step("chunk", chunk.id, label(chunk.title, chunk.headings) or chunk.id))


def _paths(query: Query, seen: Evidence, keys: Keys, hits: Sequence[tuple[Hit, Reason]]) -> list[EntityPath]:
    """Return the path to each passage; none where the graph neither ranks it higher than plain search nor moved it.

    A passage that mentions an entity of the question always has its path.
    """
    if not seen.graph_ran:
        return [()] * len(keys)
    leads = []
    for hit, reason in hits:
        ranks = {name: channel.rank for name, channel in hit.channels.items()}
        graph = ranks.pop("graph", math.inf)
        plain = math.inf if seen.settings.method == "graph" else min(ranks.values(), default=math.inf)
        leads.append(graph < math.inf and (graph <= plain or not {"graph", "links"}.isdisjoint(reason.moved)))
    return [path if len(path) == 1 or led else () for path, led in zip(find_paths(query, keys), leads, strict=True)]


def _facts(query: Query, seen: Evidence, keys: Keys, paths: Sequence[EntityPath]) -> Keys:
    """Return the facts that support the answer, most important first; those of a strategy that ranks facts."""
    snapshot, expansion = query.snapshot, seen.expansion
    # The keys of facts are those of the question's snapshot.
    followed = expansion.facts if seen.state == (snapshot.generation, snapshot.token, snapshot.numbering) else None
    if not seen.graph_ran:
        return keys[:0]
    if expansion.ranked_facts:
        return _find_facts(snapshot, expansion.ranked_facts) if followed is None else followed
    return choose_facts(query, paths, keys, keys[:0] if followed is None else followed)


def _links(snapshot: Snapshot, seen: Evidence, hits: Sequence[Hit]) -> list[Link | None]:
    """Return the strongest link of each hit to one above it, through the first of its entities by id."""
    links: list[Link | None] = [None] * len(hits)
    for place, linked in enumerate(() if seen.reasons is None else seen.reasons.linked()):
        if linked is None:
            continue
        above, ids, kind = linked
        named = snapshot.entities_with(ids)
        if kind == "both_mention":  # a year that two passages share says nothing about them
            named = [entity for entity in named if any(map(str.isalpha, entity.name))]
        if named:
            entity = min(named, key=attrgetter("id"))
            links[place] = Link(above + 1, hits[above].chunk.id, entity.id, entity.name, kind)
    return links


def _named_link(link: Link | None, known: Mapping[str, Entity], fields: Collection[str]) -> Link | None:
    """Return the link of a hit; the name of a value of metadata has its field before it."""
    if link is None or link.entity_id not in known or (kind := known[link.entity_id].type) not in fields:
        return link
    return link if link.entity.startswith(f"{kind}: ") else replace(link, entity=f"{kind}: {link.entity}")


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


def _words_of(
    seen: Evidence, snapshot: Snapshot, shown: Keys
) -> tuple[list[tuple[tuple[str, ...], tuple[str, ...]]], tuple[str, ...]]:
    """Return for each chunk the question's words in it and the new ones; and the words that no chunk contains.

    A chunk has a word if it has most of its terms, of which an identifier has several. Function words do not count.
    """
    question, terms = seen.plan.text, seen.ranked.terms
    if terms is None:
        return [((), ())] * len(shown), ()
    spans = [
        (match.start(), match.end(), {*snapshot.terms(match.group())}.intersection(terms))
        for match in islice(_WORD.finditer(question), _MAX_WORDS)
        if match.group().lower() not in FUNCTION or match.group()[1:].isupper()  # "US" is not "us"
    ]
    bigrams = ((question.find(term), term) for term in terms if has_cjk(term))
    spans = sorted([*spans, *((at, at + len(term), {term}) for at, term in bigrams if at >= 0)], key=itemgetter(0))

    def written(places: AbstractSet[int]) -> tuple[str, ...]:
        """Return words in the order of the question, each once; overlapping Chinese or Japanese ones as one."""
        joined: list[tuple[int, int]] = []
        for start, end, own in (spans[place] for place in sorted(places)):
            if own and joined and start < joined[-1][1]:
                joined[-1] = joined[-1][0], end
            elif own:
                joined.append((start, end))
        words = [question[start:end] for start, end in joined]
        return tuple({word.casefold(): word for word in reversed(words)}.values())[::-1]

    above: set[int] = set()
    covered = []
    for flags in snapshot.sentences(shown, terms).of_chunks:
        has = {terms[at] for at in np.flatnonzero(flags).tolist()}
        places = {place for place, (_, _, own) in enumerate(spans) if 2 * len(own & has) > len(own)}
        covered.append((written(places), written(places - above)))
        above |= places
    return covered, written({*range(len(spans))} - above)
