"""Why hits were found: paths through the graph, supporting facts and words, computed when somebody asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphrag_core.errors import IndexClosed
from graphrag_core.filters import Filter
from graphrag_core.ingest.edges import shared_fields
from graphrag_core.key_sets import distinct
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Engine, Keys, Snapshot
from graphrag_core.query.paths import EntityPath, choose_facts, find_paths, paths_from_passages
from graphrag_core.query.query import Query
from graphrag_core.query.reasons import LinkReason, words_of
from graphrag_core.query.steering import without_entities
from graphrag_core.result import Channel, Explanation, Link, Reason, Step
from graphrag_core.text import label, normalise

GRAPH_CHANNELS = frozenset(("graph", "links"))
"""The channels of the graph; all others are plain search."""

_FOUND_BY_PLAIN = 10  # a passage that plain search ranks so high can be the start of a path


@dataclass(frozen=True, eq=False, kw_only=True)
class Explainer:
    """Computes the explanation of a result from what the query kept: ids, since keys are those of one snapshot.

    Parameters
    ----------
    engine, scope, exclude
        Where to read: what the query saw.
    generation
        That of the query. ``followed``, the facts that the strategy followed, have these keys in it alone.
    ranks_facts
        Whether the order of these facts is that of relevance.
    chunk_ids, channels, links
        Of each hit.
    entities
        Those that the question names.
    others
        Further entities that hits refer to.
    terms
        Those of the question; None if no reranker looked at them.
    advise
        Returns the advice.
    """

    engine: Engine
    scope: Filter | None
    exclude: tuple[str, ...]
    generation: int
    question: str
    method: str
    graph_ran: bool
    followed: Keys
    ranks_facts: bool
    chunk_ids: Sequence[str]
    channels: Sequence[Mapping[str, Channel]]
    links: Sequence[LinkReason | None]
    entities: Sequence[Entity]
    others: Sequence[Entity]
    terms: Sequence[str] | None
    advise: Callable[[], str]

    def __call__(self) -> Explanation:
        """Open a snapshot and compute the explanation; hits that are gone have no path."""
        try:
            with self.engine.snapshot(self.scope) as snapshot:
                return self.explain(without_entities(snapshot, self.exclude, set())[0] if self.exclude else snapshot)
        except IndexClosed as error:
            raise IndexClosed(f"{error}. retrieve(..., explain=True) explains a result before") from error

    def explain(self, snapshot: Snapshot) -> Explanation:
        """Return the explanation by a snapshot of the query's scope."""
        found = snapshot.find_chunks(self.chunk_ids)
        places = [place for place, chunk_id in enumerate(self.chunk_ids) if chunk_id in found]
        keys = np.array([found[self.chunk_ids[place]] for place in places], np.int64)
        named = snapshot.find_entities([entity.id for entity in self.entities])
        entities = np.array([named[entity.id] for entity in self.entities if entity.id in named], np.int64)
        query = Query(self.question, snapshot, entities=entities)
        paths = self._paths(query, keys, places) if self.graph_ran else [()] * len(keys)
        facts = self._facts(query, keys, paths)
        on_paths = [key for path in paths for key in path[::2] if key >= snapshot.first_entity]
        entity_keys = distinct(snapshot.fact_rows(facts).entities, entities, np.array(on_paths, np.int64))
        known = dict(zip(entity_keys.tolist(), snapshot.entities(entity_keys), strict=True))
        read = dict(zip(facts.tolist(), snapshot.facts(facts), strict=True))
        chunks = dict(zip(keys.tolist(), snapshot.chunks(keys), strict=True))
        words, uncovered = ([], ()) if self.terms is None else words_of(self.question, snapshot, self.terms, keys)
        reasons = {}
        for at, (place, path, chunk) in enumerate(zip(places, paths, chunks.values(), strict=True)):
            own, covers = words[at] if words else ((), ())
            reasons[chunk.id] = Reason(
                path=self._steps(path, chunk, known, read, chunks), words=own, covers=covers, link=self._link(place)
            )
        return Explanation(
            reasons=reasons,
            facts=tuple(read.values()),
            # A fact may hold an entity's own id or that of one of its aliases.
            known={
                name: entity
                for entity in (*known.values(), *self.others, *self.entities)
                for name in (*map(normalise, entity.aliases), entity.id)
            },
            uncovered=uncovered,
            advice=self.advise(),
            generation=snapshot.generation,
        )

    def _paths(self, query: Query, keys: Keys, places: Sequence[int]) -> list[EntityPath]:
        """Return the path to each passage; none where plain search ranks a passage higher than the graph does.

        A passage that mentions an entity of the question always has its path. One that the graph found without
        a path from the question may have one from a passage that plain search found.
        """
        ranks: dict[bool, list[float]] = {True: [], False: []}
        for place in places:
            for of_graph, found_by in ranks.items():
                own = [one.rank for name, one in self.channels[place].items() if (name in GRAPH_CHANNELS) is of_graph]
                found_by.append(math.inf if self.method == "graph" and not of_graph else min(own, default=math.inf))
        graph, plain = np.array(ranks[True], np.float64), np.array(ranks[False], np.float64)
        leads = ((graph <= plain) & (graph < math.inf)).tolist()
        found = zip(find_paths(query, keys), leads, strict=True)
        paths = [path if len(path) == 1 or leading else () for path, leading in found]
        wanted = [leading and not path for path, leading in zip(paths, leads, strict=True)]
        others = paths_from_passages(query, keys, keys[plain <= _FOUND_BY_PLAIN], wanted)
        return [path or other for path, other in zip(paths, others, strict=True)]

    def _facts(self, query: Query, keys: Keys, paths: Sequence[EntityPath]) -> Keys:
        """Return the facts that support the answer, most important first."""
        followed = self.followed if query.snapshot.generation == self.generation else self.followed[:0]
        if not self.graph_ran:
            return followed
        facts = choose_facts(query, paths, keys, followed)
        if self.ranks_facts:
            facts = np.array([*dict.fromkeys([*followed.tolist(), *facts.tolist()])], np.int64)
        return facts

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
        steps = [Step("question", "", self.question)]
        for at, key in enumerate(path):
            if at % 2:
                steps.append(Step("fact", facts[key].id, facts[key].text))
            else:
                steps.append(Step("entity", known[key].id, known[key].name) if key in known else _to(chunks[key]))
        return (*steps, _to(chunk))

    def _link(self, place: int) -> Link | None:
        """Return the link of a hit; the name of a value of metadata has its field before it."""
        if (link := self.links[place]) is None:
            return None
        entity = link.entity
        prefix = f"{entity.type}: " if entity.type in shared_fields(self.engine.settings()) else ""
        name = entity.name if entity.name.startswith(prefix) else prefix + entity.name
        return Link(link.place + 1, self.chunk_ids[link.place], entity.id, name, link.kind, link.followed)


def _to(chunk: Chunk) -> Step:
    return Step("chunk", chunk.id, label(chunk.title, chunk.headings) or chunk.id)
