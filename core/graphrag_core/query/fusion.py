"""When the graph is trusted (``Gate``), and how its ranking is joined with plain search (fusions)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from graphrag_core.errors import InputError, check_integer, check_number
from graphrag_core.key_sets import without
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.query import Query

T = TypeVar("T", bound=Hashable)

CHANNELS = frozenset({"vector", "keyword", "graph"})
"""The rankings of a query that a fusion can weigh one by one."""


class Fusion(ABC):
    """Joins the rankings of plain search and of the graph. A subclass needs :meth:`fuse` and nothing else.

    Attributes
    ----------
    relative_scores
        Whether plain search divides cosine similarities by the best one of the question before it weights them with
        keyword scores. False keeps them, so that a weak best hit has a low score.
    uses_keywords
        False if keyword search runs only where the question cannot be embedded.
    weighed
        The names of the rankings that it weighs one by one: some of ``vector``, ``keyword`` and ``graph``.
    """

    relative_scores: bool = True
    uses_keywords: bool = True
    weighed: tuple[str, ...] = ()

    @abstractmethod
    def fuse(self, plain: Ranking, graph: Ranking) -> Ranking:
        """Return all chunks of both rankings, each once, with scores that fall with the rank.

        The scores of both rankings lie between 0 and 1. Ties need no care: the pipeline breaks
        them by id.
        """

    def fuse_query(self, query: Query, channels: Mapping[str, Ranking], plain: Ranking, graph: Ranking) -> Ranking:  # noqa: ARG002
        """Return the ranking of a query. Its scores have the same scale whether or not the graph found anything.

        ``channels`` are the rankings of vector and keyword search, of which ``plain`` is the weighted mean.
        """
        return self.fuse(plain, graph)

    def kept(self, query: Query, plain: Ranking, graph: Ranking | None) -> Keys | None:  # noqa: ARG002
        """Return the chunks to which the result is limited; None to return the first ``k`` of the ranking.

        ``graph`` is None if the graph did not run.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Weighted(Fusion):
    """alpha · plain score + beta · graph score, both from 0 to 1; 0 for a chunk that a ranking lacks.

    ``relative_scores=False`` keeps cosine similarities as they are in the plain score (:class:`Fusion`).

    >>> round(Weighted().score(0.9, 0.5), 2)
    0.78
    """

    alpha: float = 0.7
    beta: float = 0.3
    relative_scores: bool = True

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            check_number(getattr(self, name), f"fusion.{name}")

    def score(self, plain: float, graph: float) -> float:
        """Return the score of a chunk by its two scores."""
        return self.alpha * plain + self.beta * graph

    def fuse(self, plain: Ranking, graph: Ranking) -> Ranking:
        """Return all chunks of both rankings, each once, best first."""
        scores = [dict(zip(keys.tolist(), values.tolist(), strict=True)) for keys, values in (plain, graph)]
        return _ranking({key: self.score(*(part.get(key, 0.0) for part in scores)) for key in scores[0] | scores[1]})


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank(Fusion):
    """Reciprocal rank fusion: the sum of weight / (k + rank) over any number of rankings, ranks counted from 1.

    Parameters
    ----------
    k
        The larger it is, the less the first ranks stand out.
    plain_weight, graph_weight
        The weights of plain search (vector and keyword search in one ranking) and of the graph.
    weights
        A weight for each ranking by its name. In a retriever the names are ``vector``, ``keyword`` and ``graph``:
        these rankings are fused then, in place of the two above, and one without a weight does not count.
        :meth:`fuse_all` takes any names.

    Examples
    --------
    >>> fusion = ReciprocalRank(plain_weight=0.5, graph_weight=0.5)
    >>> round(fusion.score(1, 3), 4)
    0.0161
    >>> three = ReciprocalRank(weights={"vector": 0.5, "keyword": 0.2, "graph": 0.3})
    >>> [document for document, score in three.fuse_all({"vector": "ab", "keyword": "ca", "graph": "cb"})]
    ['b', 'a', 'c']

    References
    ----------
    G. V. Cormack, C. L. A. Clarke, S. Büttcher: Reciprocal Rank Fusion outperforms Condorcet (2009).
    """

    k: float = 60.0
    plain_weight: float = 1.0
    graph_weight: float = 1.0
    weights: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        named = {"plain_weight": self.plain_weight, "graph_weight": self.graph_weight, **(self.weights or {})}
        for name, number in {"k": self.k, **named}.items():
            check_number(number, name)
        if self.weights is not None:
            if not self.weights:
                raise InputError("weights is empty: name at least one ranking, such as {'vector': 0.5, 'graph': 0.5}")
            object.__setattr__(self, "weights", dict(self.weights))
            object.__setattr__(self, "weighed", tuple(self.weights))

    def fuse_all(
        self, rankings: Mapping[str, Iterable[T]] | Sequence[Iterable[T]], weights: Sequence[float] | None = None
    ) -> list[tuple[T, float]]:
        """Return what any number of rankings list, with scores, best first.

        Parameters
        ----------
        rankings
            By name, or one after the other; each lists documents, ids or other hashable values, best first. A value
            that a ranking lists twice counts where it comes first.
        weights
            A weight for each ranking of a sequence, by default 1; rankings by name have the fusion's own ``weights``,
            and 1 each if it has none.

        Raises
        ------
        InputError
            A ranking has no weight, or a weight no ranking.
        """
        if isinstance(rankings, Mapping):
            named = dict.fromkeys(rankings, 1.0) if self.weights is None else self.weights
            if weights is not None or rankings.keys() - named.keys():
                raise InputError(f"the weights are for {', '.join(named)}: pass ReciprocalRank(weights={{...}})")
            weights, rankings = [named[name] for name in rankings], [*rankings.values()]
        weights = [1.0] * len(rankings) if weights is None else weights
        if len(weights) != len(rankings):
            raise InputError(f"got {len(rankings)} rankings and {len(weights)} weights: pass equally many")
        scores: dict[T, float] = {}
        for weight, ranking in zip(weights, rankings, strict=True):
            for rank, value in enumerate(dict.fromkeys(ranking), 1):
                scores[value] = scores.get(value, 0.0) + weight / (self.k + rank)
        return sorted(scores.items(), key=lambda item: -item[1])

    def fuse_query(self, query: Query, channels: Mapping[str, Ranking], plain: Ranking, graph: Ranking) -> Ranking:
        """Return the ranking of a query; with ``weights`` its channels are fused.

        Without a vector ranking, as in an index without vectors, the keyword ranking takes its place.
        """
        if self.weights is None:
            return super().fuse_query(query, channels, plain, graph)
        channels = {**channels, "graph": graph}
        if "vector" not in channels and "keyword" in channels and "keyword" not in self.weights:
            channels["vector"] = channels["keyword"]
        named = {name: channels[name][0].tolist() for name in self.weights if name in channels}
        return _ranking(dict(self.fuse_all(named)))

    def score(self, plain_rank: int | None, graph_rank: int | None) -> float:
        """Return the score of a chunk by its ranks, None where it has none."""
        pairs = ((self.plain_weight, plain_rank), (self.graph_weight, graph_rank))
        return sum(weight / (self.k + rank) for weight, rank in pairs if rank is not None)

    def fuse(self, plain: Ranking, graph: Ranking) -> Ranking:
        """Return all chunks of both rankings, each once, best first; for ``weights`` see :meth:`fuse_query`."""
        rankings = [plain[0].tolist(), graph[0].tolist()]
        return _ranking(dict(self.fuse_all(rankings, [self.plain_weight, self.graph_weight])))


_WEIGHTED = Weighted()


@dataclass(frozen=True, kw_only=True)
class Additive(Fusion):
    """Returns everything that plain search alone would return, and a few passages that the graph adds.

    The result has the ``k`` passages of plain search and up to ``max_chunks`` others from the graph, in the
    order of another fusion. Plain search loses none of its results.

    The graph adds its strongest passages; with None the strategy says how many
    (:class:`~graphrag_core.strategies.Neighbourhood` has another limit).
    """

    max_chunks: int | None = 4
    fusion: Fusion = _WEIGHTED

    def __post_init__(self) -> None:
        if self.max_chunks is not None:
            check_integer(self.max_chunks, "max_chunks", least=0)
        object.__setattr__(self, "weighed", self.fusion.weighed)
        object.__setattr__(self, "relative_scores", self.fusion.relative_scores)

    def fuse(self, plain: Ranking, graph: Ranking) -> Ranking:
        """Return all chunks of both rankings, each once, best first."""
        return self.fusion.fuse(plain, graph)

    def fuse_query(self, query: Query, channels: Mapping[str, Ranking], plain: Ranking, graph: Ranking) -> Ranking:
        """Return the ranking of the other fusion, and below it what only plain search has."""
        keys, scores = self.fusion.fuse_query(query, channels, plain, graph)
        others = without(plain[0], keys)
        return np.concatenate([keys, others]), np.append(scores, np.zeros(len(others), np.float32))

    def kept(self, query: Query, plain: Ranking, graph: Ranking | None) -> Keys | None:
        """Return the first ``k`` chunks of plain search and those that the graph adds."""
        return _with_added(query, plain, graph, self.max_chunks)


@dataclass(frozen=True, kw_only=True)
class OwnScores(Fusion):
    """Each passage keeps its own score: a vector hit its cosine similarity, a passage of the graph its strength.

    The result has the first ``k`` vector hits and what the graph adds to them, sorted by score. Keyword search
    runs only where the question cannot be embedded. Of passages that begin alike the vector hit is kept, or else the
    first of the graph. With :attr:`Gate.weigh_by_confidence` the strength is multiplied by the confidence.

    The graph may add ``max_chunks`` passages in all; None leaves it to the strategy. Passages whose first
    ``same_start`` characters are equal count as one; 0 compares none.
    """

    max_chunks: int | None = None
    same_start: int = 100

    uses_keywords = False

    def __post_init__(self) -> None:
        if self.max_chunks is not None:
            check_integer(self.max_chunks, "max_chunks", least=0)
        check_integer(self.same_start, "same_start", least=0)

    def fuse(self, plain: Ranking, graph: Ranking) -> Ranking:
        """Return all chunks of both rankings, each once, best first; ``plain`` are the first ``k`` vector hits."""
        scores = dict(zip(graph[0].tolist(), graph[1].tolist(), strict=True))
        return _ranking({**scores, **dict(zip(plain[0].tolist(), plain[1].tolist(), strict=True))})

    def fuse_query(self, query: Query, channels: Mapping[str, Ranking], plain: Ranking, graph: Ranking) -> Ranking:  # noqa: ARG002
        """Return the first ``k`` vector hits and the passages of the graph; plain search if the graph found nothing."""
        return self.fuse((plain[0][: query.k], plain[1][: query.k]) if len(graph[0]) else plain, graph)

    def kept(self, query: Query, plain: Ranking, graph: Ranking | None) -> Keys | None:
        """Return the first ``k`` vector hits and those that the graph adds, without passages that begin alike.

        If the graph did not run, the vector hits as they are.
        """
        if graph is None:
            return None
        return query.without_same_start(_with_added(query, plain, graph, self.max_chunks), self.same_start)


def _with_added(query: Query, plain: Ranking, graph: Ranking | None, max_chunks: int | None) -> Keys:
    """Return the first ``k`` chunks of plain search and up to ``max_chunks`` others of the graph."""
    kept = plain[0][: query.k]
    return kept if graph is None else np.concatenate([kept, without(graph[0], kept)[:max_chunks]])


def _ranking(scores: Mapping[int, float]) -> Ranking:
    keys = sorted(scores, key=lambda key: (-scores[key], key))
    return np.array(keys, np.int64), np.array([scores[key] for key in keys], np.float32)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Decides whether the graph runs, and how weak its passages may be.

    By default it only changes the order: as many passages are returned as were requested.

    Parameters
    ----------
    enabled
        False leaves the graph out: entities and confidence are those of the question, passages those of plain search.
    min_confidence
        The graph does not run below this confidence. 0 always lets it run; :meth:`strict` uses 0.5.
    min_graph_score
        Passages that the graph finds with a lower strength (0 to 1) are left to plain search;
        :meth:`strict` uses 0.3. The strength is the strength of the relation that leads to the passage, divided by 10.
        Where no strength was stated, as between entities of a sentence, it is the strategy's own.
    needs_entity
        True skips the graph if the question names no known entity.
    min_score
        Vector hits with a lower cosine similarity are left out. Keyword search and the graph may still find them.
    weigh_by_confidence
        True multiplies the strengths of the graph's passages with the confidence before they are ranked with others.
    """

    enabled: bool = True
    min_confidence: float = 0.0
    min_graph_score: float = 0.0
    needs_entity: bool = False
    min_score: float = 0.0
    weigh_by_confidence: bool = False

    def __post_init__(self) -> None:
        for name in ("min_confidence", "min_graph_score", "min_score"):
            check_number(getattr(self, name), f"gate.{name}", 1)

    @classmethod
    def strict(cls) -> Gate:
        """Return a gate that prefers to skip the graph rather than to add noise."""
        return cls(min_confidence=0.5, min_graph_score=0.3, needs_entity=True)

    def skipped(self, confidence: float | None, entities: int) -> str:
        """Return why the graph must not run; empty if it may."""
        if not self.enabled:
            return "gate.enabled is false"
        if confidence is not None and confidence < self.min_confidence:
            return f"confidence {confidence:.2f} is below {self.min_confidence:.2f}"
        if self.needs_entity and not entities:
            return "the question names no known entity"
        return ""


def confidence(question: str, entities: int, best_similarity: float) -> float:
    """Return 0.3 · specificity + 0.3 · recognition + 0.4 · similarity of the best vector hit.

    Specificity is the length in characters divided by 100, at most 1. Recognition is 1 if the
    question names an entity, otherwise 0.5.

    >>> round(confidence("x" * 50, 1, 0.8), 2)
    0.77
    """
    specificity = min(len(question) / 100, 1.0)
    recognition = 1.0 if entities else 0.5
    return 0.3 * specificity + 0.3 * recognition + 0.4 * max(0.0, min(best_similarity, 1.0))


def how_to_raise(question: str, entities: int, best_similarity: float) -> str:
    """Return what would raise the :func:`confidence` of a question, by its terms that are low."""
    actions = {
        "name something that the index knows": not entities,
        "ask in a whole sentence": len(question) < 50,
        f"check that the index has the answer, its nearest passage has similarity {best_similarity:.2f}": (
            best_similarity < 0.5
        ),
    }
    return ", ".join(action for action, is_low in actions.items() if is_low) or "ask in more words"
