"""Personalised PageRank from the entities, facts and passages that match a question."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Adjacency, Keys, Ranking, Snapshot
from graphrag_core.query.coverage import Coverage
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import GraphStrategy

Doubles = npt.NDArray[np.float64]

_AHEAD = 0.7  # of the residual that makes a node active: from which on its edges are asked for ahead of time


@dataclass(frozen=True, kw_only=True)
class PageRank(GraphStrategy):
    """Ranks passages by personalised PageRank, seeded with the question's entities, facts and passages.

    Each class of seeds is normalised to sum 1 before it is weighted, so that many weak seeds
    cannot outweigh a few good ones. A passage scores ln(PageRank) + cosine.

    Parameters
    ----------
    entity_weight, fact_weight, passage_weight
        The weights of the three classes of seeds.
    facts, passages
        How many of the best facts and passages are seeds.
    damping
        The probability to continue the walk at each step.
    tolerance
        Forward push stops at nodes whose residual is at most this much per neighbour, so its cost
        depends on the surroundings of the question and not on the size of the graph. 0 visits
        everything that can be reached.
    iterations
        The maximum number of push rounds.
    candidates
        How many facts are considered as seeds, and how many passages are returned at least.

    References
    ----------
    R. Andersen, F. Chung, K. Lang: Local Graph Partitioning using PageRank Vectors (2006), for forward push.
    B. J. Gutiérrez et al.: HippoRAG (2024), for personalised PageRank over a knowledge graph.
    """

    reranker = Coverage()

    entity_weight: float = 1.0
    fact_weight: float = 0.5
    passage_weight: float = 0.1
    facts: int = 3
    passages: int = 10
    damping: float = 0.85
    tolerance: float = 4e-5
    iterations: int = 15
    candidates: int = 100

    def expand(self, query: Query, plain: Ranking, k: int) -> Expansion:
        """Return the chunks with the highest PageRank, best first."""
        nodes, weights, facts = self._seeds(query, plain)
        if len(nodes) == 0:
            return Expansion()
        rounds = getattr(query.snapshot, "push_rounds", None)
        push = self._push if rounds is None else self._push_in_rounds
        chunks, rank = push(query.snapshot, nodes, weights)
        count = max(self.candidates, k)
        if len(chunks) > count:  # keep everything that ties with the last
            kept = rank >= np.partition(rank, -count)[-count]
            chunks, rank = chunks[kept], rank[kept]
        # Rounded, so that equal passages tie whatever the order of the sums.
        similarity = query.snapshot.similarities("chunks", chunks, query.vector)
        scores = np.round(np.log(rank + 1e-9) + similarity, 4).astype(np.float32)
        order = query.order("chunks", chunks, scores)[:count]
        return Expansion(chunks[order], scores[order], facts=facts)

    def _seeds(self, query: Query, plain: Ranking) -> tuple[Keys, Doubles, Keys]:
        """Return the seed nodes, which may repeat, their weights, and the seed facts."""
        by_vector = query.by_vector("facts", self.candidates)
        by_keyword = query.snapshot.search_keywords("facts", query.text, self.candidates)
        facts, scores = query.blend("facts", by_vector, by_keyword)
        facts, scores = facts[: self.facts], scores[: self.facts]
        rows = query.snapshot.fact_rows(facts)
        entities = np.concatenate([query.entities, rows.entities])
        rarity = query.snapshot.entity_counts(entities)[0].clip(1) ** -0.5
        named = len(query.entities)
        # The entities of a fact share its score.
        of_facts = np.repeat(scores / np.sqrt(rows.counts.clip(1)), rows.counts) * rarity[named:]
        classes: list[tuple[Keys, npt.NDArray[Any], float]] = [
            (entities[:named], rarity[:named], self.entity_weight),
            (entities[named:], of_facts, self.fact_weight),
            (plain[0][: self.passages], plain[1][: self.passages], self.passage_weight),
        ]
        seeds = [(nodes, part * (weight / part.sum())) for nodes, part, weight in classes if part.sum() > 0]
        if not seeds:
            return np.empty(0, np.int64), np.empty(0), facts
        weights = np.concatenate([part for _, part in seeds]).astype(np.float64)
        return np.concatenate([nodes for nodes, _ in seeds]), weights / weights.sum(), facts

    def _push(self, snapshot: Snapshot, seeds: Keys, weights: Doubles) -> tuple[Keys, Doubles]:
        """Return the chunks that forward push reaches, and their PageRank.

        In double precision: the order of the sums, which is that of the keys, must not show in a rounded score.
        """
        residual, last_seen = scratch = _Scratch.borrowed(snapshot.node_limit)
        np.add.at(residual, seeds, weights)
        active = _unique(seeds, last_seen)
        visited, settled, settled_mass = [active], [], []
        for _ in range(self.iterations):
            mass = residual[active]
            residual[active] = 0
            settled.append(active)
            settled_mass.append(mass)
            edges = snapshot.neighbours(active)
            if (grown := snapshot.node_limit - len(residual)) > 0:  # a remote engine numbers nodes as it sees them
                residual, last_seen = scratch = _Scratch(np.pad(residual, (0, grown)), np.pad(last_seen, (0, grown)))
            per_weight = self.damping * mass / np.maximum(edges.totals, 1e-12)
            np.add.at(residual, edges.targets, edges.weights * per_weight.repeat(edges.counts))
            visited.append(edges.targets)
            active = _unique(edges.targets[residual[edges.targets] > self.tolerance * edges.degrees], last_seen)
            if len(active) == 0:
                break
        everything, owners = np.concatenate(visited), np.concatenate(settled)
        reached = _unique(everything[everything < snapshot.first_entity], last_seen)
        last_seen[reached] = np.arange(len(reached))
        are_chunks = owners < snapshot.first_entity
        rank = np.zeros(len(reached))
        np.add.at(rank, last_seen[owners[are_chunks]], (1 - self.damping) * np.concatenate(settled_mass)[are_chunks])
        rank += (1 - self.damping) * residual[reached]
        residual[everything] = 0
        _SPARE[:] = [scratch]
        return reached[rank > 0], rank[rank > 0]

    def _push_in_rounds(self, snapshot: Snapshot, seeds: Keys, weights: Doubles) -> tuple[Keys, Doubles]:
        """Return the same as :meth:`_push`, from an engine that is asked ``push_rounds`` times at most.

        Edges are asked for once, also those of nodes that the walk is likely to reach in the rounds to come: it is
        continued on the edges that are known, and what gathers at other nodes says which. The few nodes that are
        reached only after the last round keep their residual.
        """
        known = _KnownEdges(snapshot)
        start = known.places(seeds)
        residual, settled = np.zeros(known.size), np.zeros(known.size)
        np.add.at(residual, start, weights)
        active = np.unique(start)
        for turn in range(self.iterations):
            if known.may_ask and not known.has(active).all():
                ahead = residual.copy()
                going = active[known.has(active)]
                for _ in range(turn, self.iterations):
                    going = self._spread(known, ahead, going)
                    going = going[known.has(going)]
                    if len(going) == 0:
                        break
                near = ahead > _AHEAD * self.tolerance * known.degrees
                near[active] = True
                asked = np.flatnonzero(near & ~known.has(np.arange(known.size)))
                known.ask(asked, ahead[asked], self.damping, _AHEAD * self.tolerance)
                grown = known.size - len(residual)
                residual, settled = np.pad(residual, (0, grown)), np.pad(settled, (0, grown))
            active = active[known.has(active)]
            settled[active] += (1 - self.damping) * residual[active]
            active = self._spread(known, residual, active)
            if len(active) == 0:
                break
        chunks = np.flatnonzero(residual[::2] + settled[::2] > 0)
        rank = settled[2 * chunks] + (1 - self.damping) * residual[2 * chunks]
        return chunks[rank > 0], rank[rank > 0]

    def _spread(self, known: "_KnownEdges", residual: Doubles, active: Keys) -> Keys:
        """Move the residual of nodes to their neighbours; return those that are active now."""
        edges = known.edges(active)
        mass = residual[active]
        residual[active] = 0
        per_weight = self.damping * mass / np.maximum(edges.totals, 1e-12)
        np.add.at(residual, edges.targets, edges.weights * per_weight.repeat(edges.counts))
        return np.unique(edges.targets[residual[edges.targets] > self.tolerance * edges.degrees])


class _Scratch(NamedTuple):
    """A number for each node of a graph: its residual, 0 at first, and where a list has it."""

    residual: Doubles
    last_seen: npt.NDArray[np.int32]

    @classmethod
    def borrowed(cls, size: int) -> "_Scratch":
        """Return the arrays for so many nodes or more; an earlier walk may have used them."""
        try:
            spare = _SPARE.pop()
        except IndexError:  # the first walk, or another thread has it
            return cls(np.zeros(size), np.empty(size, np.int32))
        return spare if len(spare.residual) >= size else cls(np.zeros(size), np.empty(size, np.int32))


_SPARE: list[_Scratch] = []
"""That of the last walk, for the next one: making it takes time in proportion to the graph. At most one."""


class _KnownEdges:
    """The edges that a remote engine returned so far.

    It numbers chunks from 0 and entities from ``first_entity``, both as it sees them. Here a chunk has an even place
    and an entity an odd one, so that arrays are as long as what was seen.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rounds = int(getattr(snapshot, "push_rounds", 1))
        self._limit: int | None = getattr(snapshot, "push_degree", None)
        self._row = np.empty(0, np.int64)  # the row of each place; -1 for one that is not known
        self.degrees = np.empty(0)
        none = np.empty(0)
        self._starts, self._counts, self._targets = (np.empty(0, np.int64) for _ in range(3))
        self._weights, self._totals = none.astype(np.float32), none.astype(np.float32)

    @property
    def size(self) -> int:
        """All places are below this number."""
        return len(self._row)

    @property
    def may_ask(self) -> bool:
        """Whether a round is left."""
        return self._rounds > 0

    def places(self, nodes: Keys) -> Keys:
        """Return the places of nodes."""
        first = self._snapshot.first_entity
        found: Keys = np.where(nodes < first, 2 * nodes, 2 * (nodes - first) + 1)
        if len(found) and (grown := int(found.max()) + 1 - self.size) > 0:
            self._row = np.pad(self._row, (0, grown), constant_values=-1)
            self.degrees = np.pad(self.degrees, (0, grown), constant_values=np.inf)
        return found

    def has(self, places: Keys) -> npt.NDArray[np.bool_]:
        """Return of which nodes the edges are known."""
        return self._row[places] >= 0

    def ask(self, places: Keys, masses: Doubles, damping: float, least: float) -> None:
        """Read the edges of nodes, the first time those of the nodes that their masses will reach too."""
        self._rounds -= 1
        first = self._snapshot.first_entity
        nodes = np.where(places % 2 == 0, places // 2, first + places // 2)
        if len(self._counts) == 0 and hasattr(self._snapshot, "surroundings"):
            nodes, edges = self._snapshot.surroundings(nodes, masses, damping=damping, least=least, limit=self._limit)
            places = self.places(nodes)
        else:
            edges = self._snapshot.neighbours(nodes, limit=self._limit)
        targets = self.places(edges.targets)
        self._row[places] = len(self._counts) + np.arange(len(places))
        self.degrees[targets] = edges.degrees
        self._starts = np.concatenate([self._starts, len(self._targets) + np.cumsum(edges.counts) - edges.counts])
        self._counts = np.concatenate([self._counts, edges.counts])
        self._targets = np.concatenate([self._targets, targets])
        self._weights = np.concatenate([self._weights, edges.weights])
        self._totals = np.concatenate([self._totals, edges.totals])

    def edges(self, places: Keys) -> Adjacency:
        """Return the known edges of nodes."""
        rows = self._row[places]
        counts = self._counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = np.repeat(self._starts[rows], counts) + within
        targets = self._targets[at]
        return Adjacency(counts, targets, self._weights[at], self._totals[rows], self.degrees[targets])


def _unique(nodes: Keys, scratch: npt.NDArray[np.int32]) -> Keys:
    """Return nodes without duplicates, faster than sorting. ``scratch`` has room for every node."""
    turns = np.arange(len(nodes), dtype=np.int32)
    scratch[nodes] = turns
    unique: Keys = nodes[scratch[nodes] == turns]
    return unique
