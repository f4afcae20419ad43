"""What strategies, fusions and rerankers work with: the question on a snapshot, and the expansion of a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.relations import Relations
from graphrag_core.errors import EmbedderError
from graphrag_core.ingest.embedding import CheckedEmbedder, question_error
from graphrag_core.ports import Keys, Matrix, Ranking, Scores
from graphrag_core.text import REFERS_TO

if TYPE_CHECKING:
    from igraph import Graph

    from graphrag_core.engine.snapshot import Snapshot

OnEmbedderError = Literal["raise", "keyword"]
"""What a query does if the embedder fails: raise, or search by keyword and graph."""

_SAMPLE, _SAMPLED_FACTS = 20, 200  # entities, and facts of each, that are read to see whether relations are stated
_NO_KEYS = np.empty(0, np.int64).copy
_NO_SCORES = np.empty(0, np.float32).copy


@dataclass(frozen=True)
class Carried:
    """What a follow-up question takes over from the conversation (:mod:`graphrag_core.query.conversation`).

    ``entities`` are those that earlier turns name and the question does not, with ``weights`` from 0 to 1, largest
    first, and ``names`` the names of the first. ``passages`` were shown for the last turn, best first.
    """

    entities: Keys = field(default_factory=_NO_KEYS)
    weights: Scores = field(default_factory=_NO_SCORES)
    names: tuple[str, ...] = ()
    passages: Keys = field(default_factory=_NO_KEYS)


@dataclass(frozen=True)
class Query:
    """A question and the snapshot it is asked of.

    Attributes
    ----------
    text, vector
        The question and its embedding; None if there is none.
    snapshot
        One generation of the index, restricted to the query's scope.
    entities
        The entities that the question names, and after them those of ``carried``.
    embedder
        Embeds further texts, such as expansion queries.
    k, is_hybrid
        How many passages are wanted, and whether plain search and the graph are combined.
    min_graph_score
        Passages of the graph below it are left out.
    on_embedder_error
        What a question does if the embedder fails.
    counts_access
        Whether reading a fact counts as an access.
    failures, remarks
        Collect how the embedder failed, if that does not raise, and what else was left out.
    carried
        What a follow-up question refers to; empty for a question that stands alone.
    """

    text: str
    snapshot: Snapshot
    vector: Matrix | None = None
    entities: Keys = field(default_factory=_NO_KEYS)
    embedder: CheckedEmbedder | None = None
    k: int = 5
    is_hybrid: bool = True
    min_graph_score: float = 0.0
    on_embedder_error: OnEmbedderError = "raise"
    counts_access: bool = True
    failures: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    carried: Carried = field(default_factory=Carried)

    def by_vectors_of(self, texts: Sequence[str], k: int) -> tuple[list[Ranking], str]:
        """Return for each text the nearest chunks; the texts are embedded as questions and searched in one call.

        Without an embedder the texts are searched by keyword. If it fails and that does not raise, they are too, and
        the second value says so.
        """
        problem = ""
        if texts and self.vector is not None and self.embedder is not None:
            try:
                return self.snapshot.nearest(self.embedder.queries(texts), k), ""
            except EmbedderError as error:
                if self.on_embedder_error == "raise":
                    raise question_error(str(error), error) from error.__cause__
                problem = f"parts of the question were searched by keyword: {error}"
                self.failures.append(problem)
        return [self.snapshot.keywords(text, k) for text in texts], problem

    def surroundings(
        self,
        entities: Keys | None = None,
        *,
        passages: Keys | None = None,
        hops: int = 1,
        relations: Sequence[str] | None = None,
        min_weight: float = 0.0,
        most_neighbours: int | None = None,
        limit: int = 5_000,
        stated: bool = False,
    ) -> Graph:
        """Return the graph around the question as an ``igraph.Graph`` of keys. Names and facts are read on demand.

        Parameters
        ----------
        entities
            The entities to begin at; by default those that the question names.
        passages
            Passages that belong to the graph, such as the first of plain search, with what they mention.
        hops
            How many facts to follow.
        relations
            Only triples of these relations; None for all facts.
        min_weight
            Facts with a lower weight (1 to 10) are not followed.
        most_neighbours
            Of each entity, this number of its most strongly related ones are followed; None for all.
        limit
            The maximum number of edges, nearest hop first, then the strongest. ``result.fallback`` says so if there
            are more.
        stated
            Whether sentences are left out, unless the index has no other relations. ``result.fallback`` says so.

        Returns
        -------
        igraph.Graph
            Undirected. Vertices have a ``key`` (of a passage below ``snapshot.first_entity``), edges a ``weight``, the
            key of a ``fact``, and ``stated``, which is false for a sentence. Two entities have an edge for each fact
            that holds both, the strongest first; a fact whose object is a value is a loop. An edge to a passage has
            the fact -1 and the weight 1, or 6 if the passage is about the entity.
        """
        start = self.entities if entities is None else entities
        if stated and len(start) and not self._states_relations(start):
            self.remarks.append("the index has no stated relations: two names in a sentence count as related")
            stated = False
        around = Relations(
            self.snapshot, start, passages=passages, relations=relations, min_weight=min_weight,
            most_neighbours=most_neighbours, limit=limit, stated=stated,
        )  # fmt: skip
        for _ in range(hops):
            around.grow()
        if not around.is_complete:
            self.remarks.append(f"there are more than {limit:,} relations around the question: the strongest count")
        return around.graph()

    def _states_relations(self, entities: Keys) -> bool:
        """Return whether entities, or else those that most passages mention, have relations that are no links."""
        for some in (entities, self.snapshot.top_entities(_SAMPLE)):
            facts = self.snapshot.facts_of(some, limit=_SAMPLED_FACTS)
            triples = facts[self.snapshot.are_triples(facts)]
            if len(triples) and any(fact.relation != REFERS_TO for fact in self.snapshot.facts(triples[:_SAMPLE])):
                return True
        return False

    def without_same_start(self, keys: Keys, characters: int) -> Keys:
        """Return chunks without those whose first characters equal an earlier chunk's; 0 characters compare none."""
        if characters == 0:
            return keys
        starts: dict[str, int] = {}
        for key, chunk in zip(keys.tolist(), self.snapshot.chunks(keys), strict=True):
            starts.setdefault(chunk.text[:characters], key)
        return np.array(list(starts.values()), np.int64)

    def best_first(self, scores: Mapping[int, float]) -> Ranking:
        """Return chunks with scores, best first; ties by similarity to the question, then by id."""
        keys, values = np.array(list(scores), np.int64), np.array(list(scores.values()), np.float32)
        return self.in_order(keys, values, self.snapshot.cosines(keys, self.vector))

    def in_order(self, keys: Keys, *criteria: Scores) -> Ranking:
        """Return chunks by criteria in descending order, with the first of these; ties are broken by id."""
        order = self.order(keys, *criteria)
        return keys[order], criteria[0][order]

    def order(self, keys: Keys, *criteria: Scores, of_facts: bool = False) -> Keys:
        """Return the indices that sort chunks, or facts, by criteria in descending order; ties are broken by id."""
        columns: list[npt.NDArray[Any]] = [-criterion for criterion in reversed(criteria)]
        order = np.lexsort(columns)
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in columns:
            same &= column[order[1:]] == column[order[:-1]]
        if not same.any():
            return order
        tied = order[np.append(same, False) | np.append(False, same)]
        places = np.zeros(len(keys), np.int64)
        places[tied] = self.snapshot.fact_order(keys[tied]) if of_facts else self.snapshot.order(keys[tied])
        return np.lexsort([places, *columns])


@dataclass(frozen=True)
class Expansion:
    """The passages that a strategy found through the graph.

    Parameters
    ----------
    keys, scores
        Chunks and the strategy's scores, best first. Use :meth:`Query.order
        <graphrag_core.query.query.Query.order>` to break ties by id.
    strength
        The scores as numbers from 0 to 1, for thresholds and weighted fusion. By default each score's
        position between the lowest and the highest, which then is the score of a hit of the graph method, too.
    facts
        The facts that were followed, most important first.
    ranked_facts
        The ids of facts in order of relevance, for strategies that rank facts: the facts of the result are these and
        no others.
    queries
        By chunk, the query that found it, for strategies that generate queries.
    remark
        What was unavailable.
    via
        By chunk, the entity through which it was found and its hop, for strategies that follow entities one by one.
    nothing
        Why there are no chunks, in a few words ("every score is below 0.3"). The pipeline finds other
        reasons, such as an empty graph, by itself.
    """

    keys: Keys = field(default_factory=_NO_KEYS)
    scores: Scores = field(default_factory=_NO_SCORES)
    strength: Scores | None = None
    facts: Keys = field(default_factory=_NO_KEYS)
    queries: Mapping[int, str] = field(default_factory=dict)
    remark: str = ""
    nothing: str = ""
    via: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    ranked_facts: tuple[str, ...] = ()

    @property
    def strengths(self) -> Scores:
        """A number from 0 to 1 for each chunk."""
        if self.strength is not None or len(self.scores) == 0:
            return self.scores if self.strength is None else self.strength
        low, high = self.scores.min(), self.scores.max()
        return (self.scores - low) / (high - low) if high > low else np.ones_like(self.scores)

    def only(self, kept: npt.NDArray[np.bool_]) -> Expansion:
        """Return the expansion with some of its chunks, which keep their strengths."""
        return replace(self, keys=self.keys[kept], scores=self.scores[kept], strength=self.strengths[kept])
