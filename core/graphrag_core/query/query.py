"""What strategies, fusions and rerankers work with: the query, and the expansion that a strategy returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.relations import Relations
from graphrag_core.errors import EmbedderError
from graphrag_core.ingest.embedding import DEFAULT_VECTOR_WEIGHT, CheckedEmbedder, question_error
from graphrag_core.key_sets import distinct, ordered
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

    Attributes
    ----------
    entities, weights
        Entities that earlier turns name and the question does not, and weights from 0 to 1, largest first.
    names
        The names of the first entities, those with the largest weights.
    passages
        Passages that were shown for the last turn, best first.
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
    text
        The question.
    snapshot
        One generation of the index, restricted to the query's scope.
    vector
        The question's embedding; None if there is none.
    entities
        The entities that the question names, and after them those of ``carried``.
    embedder
        Embeds further texts, such as expansion queries.
    k
        How many passages are wanted.
    is_hybrid
        Whether plain search and the graph are combined.
    vector_weight
        The weight of vector search in plain search.
    relative_scores
        Whether a cosine is divided by the best one before it is weighed.
    min_graph_score
        Passages of the graph below it are left out.
    on_embedder_error
        What a question does if the embedder fails.
    counts_access
        Whether reading a fact counts as an access.
    failures
        Collects how the embedder failed, if that does not raise.
    remarks
        Collects what else was left out.
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
    vector_weight: float = DEFAULT_VECTOR_WEIGHT
    relative_scores: bool = True
    min_graph_score: float = 0.0
    on_embedder_error: OnEmbedderError = "raise"
    counts_access: bool = True
    failures: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    carried: Carried = field(default_factory=Carried)

    @property
    def expected_words(self) -> str:
        """The question and the names that it refers to: the words that passages should have."""
        return " ".join((self.text, *self.carried.names))

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact, unless this query does not count."""
        if self.counts_access:
            self.snapshot.record_access(facts, now)

    def nearest(self, k: int) -> Ranking:
        """Return the chunks nearest to the question; none without an embedding."""
        if self.vector is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        (found,) = self.snapshot.nearest(self.vector[None, :], k)
        return found

    def by_vectors_of(self, texts: Sequence[str], k: int) -> tuple[list[Ranking], str]:
        """Return for each text the nearest chunks; the texts are embedded as questions and searched in one call.

        Without an embedder the texts are searched by keyword. If it fails and that does not raise, they are too, and
        the second value says so.
        """
        vectors, problem = self._embed(texts)
        if vectors is None:
            return [self.snapshot.keywords(text, k) for text in texts], problem
        return self.snapshot.nearest(vectors, k), ""

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

    def _embed(self, texts: Sequence[str]) -> tuple[Matrix | None, str]:
        """Return the vectors of texts that are asked as questions, or None and what failed."""
        if not texts or self.vector is None or self.embedder is None:
            return None, ""
        try:
            return self.embedder.queries(texts), ""
        except EmbedderError as error:
            if self.on_embedder_error == "raise":
                raise question_error(str(error), error) from error.__cause__
            problem = f"parts of the question were searched by keyword: {error}"
            self.failures.append(problem)
            return None, problem

    def blend(self, by_vector: Ranking, by_keyword: Ranking) -> Ranking:
        """Blend two rankings: the weighted mean of cosine and BM25, each divided by its best score.

        Without ``relative_scores`` of the fusion a cosine counts as it is.
        """
        keys, words = by_keyword
        scores = words / max(float(words.max(initial=0)), 1e-9)
        if self.vector is not None and len(by_vector[0]):
            matched = keys
            keys = distinct(by_vector[0], matched)
            similarity = self.snapshot.cosines(keys, self.vector)
            cosine = similarity.copy()
            if self.relative_scores:
                np.maximum(cosine, 0, out=cosine)
                cosine /= max(float(cosine.max(initial=0)), 1e-9)
            keyword_share = np.zeros(len(keys), np.float32)
            keyword_share[np.searchsorted(keys, matched)] = scores
            share = self.vector_weight
            scores = share * cosine + (1 - share) * keyword_share
            order = self.order(keys, scores, similarity)  # negative cosines keep their order
        else:
            order = self.order(keys, scores)
        return keys[order], scores[order].astype(np.float32)

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
        order = self.order(keys, values, self.snapshot.cosines(keys, self.vector))
        return keys[order], values[order]

    def in_order(self, chunks: Keys, scores: Scores) -> Ranking:
        """Return chunks with scores, best first; ties by id."""
        order = self.order(chunks, scores)
        return chunks[order], scores[order]

    def order(self, chunks: Keys, *criteria: Scores) -> Keys:
        """Return the indices that sort chunks by criteria in descending order; ties are broken by id."""
        return ordered(chunks, criteria, self.snapshot.order)

    def order_facts(self, facts: Keys, *criteria: Scores) -> Keys:
        """Return the indices that sort facts by criteria in descending order; ties are broken by id."""
        return ordered(facts, criteria, self.snapshot.fact_order)


def word_weights(counts: Keys, total: int) -> npt.NDArray[np.float64]:
    """Return the inverse document frequency of terms in ``counts`` of ``total`` passages, normalised to sum 1."""
    weights: npt.NDArray[np.float64] = np.log(1 + (total - counts + 0.5) / (counts + 0.5))
    normalised: npt.NDArray[np.float64] = weights / max(float(weights.sum()), 1e-9)
    return normalised


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
