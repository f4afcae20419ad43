"""``GraphRetriever``: takes a question, prepares its ground, and has it answered."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from graphrag_core.derived import Derived
from graphrag_core.entities import top_entities
from graphrag_core.errors import EmbedderError, InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ports import Keys, Matrix
from graphrag_core.query.answer import Plan, answer
from graphrag_core.query.cache import Cache
from graphrag_core.query.clock import Clock
from graphrag_core.query.fuse import Fusion
from graphrag_core.query.gate import Gate
from graphrag_core.query.ground import Ground
from graphrag_core.query.pagerank import PageRank
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.result import Result
from graphrag_core.query.route import Router
from graphrag_core.query.strategy import GraphStrategy
from graphrag_core.where import Where

Method = Literal["hybrid", "vector", "keyword", "graph", "agentic"]
_LONGEST_QUESTION = 100_000
_DEFAULT_CACHE = Cache()


class GraphRetriever:
    """Answers questions from an index by vector, keyword and graph together.

    Parameters
    ----------
    index
        What to search.
    method
        ``"hybrid"`` runs all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` one;
        ``"agentic"`` lets ``router`` choose for each question.
    k
        How many passages come back, where there are as many.
    graph
        How the graph is walked: :class:`~graphrag_core.PageRank` unless given.
    fusion
        How plain search and graph become one ranking; None takes what suits the strategy,
        which for PageRank is :class:`~graphrag_core.Anchored`.
    gate, recogniser, router
        When the graph is trusted, how names are found in a question, and which questions
        ``"agentic"`` sends where.
    candidates
        How many passages each channel brings to the fusion, at the least.
    cache
        What remembers results: a :class:`~graphrag_core.Cache` of this retriever's own unless
        given; None for no cache.

    Examples
    --------
    >>> from graphrag_core import Document
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> _ = index.add([Document("a", "The Auth Service delegates to the OAuth Provider.", "Auth Service"),
    ...                Document("b", "The OAuth Provider speaks to Keyring.", "OAuth Provider")])
    >>> [step.text for step in GraphRetriever(index).retrieve("Auth Service vendor").hits[1].path[1:]]
    ['Auth Service', 'The Auth Service delegates to the OAuth Provider.', 'OAuth Provider', 'OAuth Provider']
    """

    def __init__(
        self,
        index: KnowledgeIndex,
        *,
        method: Method = "hybrid",
        k: int = 5,
        graph: GraphStrategy | None = None,
        fusion: Fusion | None = None,
        gate: Gate | None = None,
        recogniser: Recogniser | None = None,
        router: Router | None = None,
        candidates: int = 100,
        cache: Cache | None = _DEFAULT_CACHE,
    ) -> None:
        _check_method(method)
        _check_k(k)
        self.index = index
        self.method: Method = method
        self.k = k
        self.graph: GraphStrategy = graph or PageRank()
        if not callable(getattr(self.graph, "expand", None)) or not hasattr(self.graph, "fusion"):
            raise InputError(f"{graph!r} is no graph strategy: it needs expand(ground, plain, k), and a fusion")
        self.fusion: Fusion = fusion if fusion is not None else self.graph.fusion
        self.gate = gate or Gate()
        self.recogniser = recogniser or Recogniser()
        self.router = router or Router()
        self.candidates = candidates
        self.cache = Cache() if cache is _DEFAULT_CACHE else cache

    def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        method: Method | None = None,
        where: Where | None = None,
        use_graph: bool = True,
        embedding: Iterable[float] | None = None,
        min_graph_score: float | None = None,
    ) -> Result:
        """Return the passages that answer a question, best first, with the reason for each.

        Parameters
        ----------
        question
            In words.
        k, method
            In place of the retriever's own.
        where
            Which documents may be seen; it holds at every hop (:mod:`graphrag_core.where`).
        use_graph
            False leaves the hybrid method with vectors and keywords.
        embedding
            The question's vector, if it is known already.
        min_graph_score
            In place of the gate's own: what the graph brings with less strength, from 0 to
            1, is left to plain search.
        """
        _check_question(question)
        given = None if embedding is None else self._given(embedding)
        plan = self._plan(question, self.k if k is None else k, method or self.method, use_graph, min_graph_score)
        asked = self._key(question, plan, where, given)
        if (kept := self._kept(asked)) is not None:
            return kept
        clock = Clock()
        with clock.stage("embed"):
            vector, fallback = (given, "") if given is not None else self._embed(question, plan)
        with self.index.reading() as derived:
            with clock.stage("recognise"):
                ground = self._ground(derived, question, vector, self.index.scope(where))
            result = replace(answer(ground, replace(plan, fallback=fallback), clock), trace=clock.trace)
            if self.cache is not None and asked is not None and not fallback:
                self.cache.put((derived.generation, asked), result)
        return result

    def warm(self, questions: Iterable[str] | int = 10) -> int:
        """Answer questions ahead, so that the cache has them; return how many.

        A number takes the names of so many of the most mentioned entities. The first
        question on a new generation of an index also prepares the graph for all later ones.
        """
        if isinstance(questions, int):
            with self.index.reading() as derived:
                questions = [e.name for e in top_entities(derived.view, self.index.records, questions)]
        return len([self.retrieve(question) for question in questions])

    def _plan(self, question: str, k: int, method: Method, use_graph: bool, min_graph_score: float | None) -> Plan:
        _check_k(k)
        _check_method(method)
        gate = self.gate if min_graph_score is None else replace(self.gate, min_graph_score=min_graph_score)
        route = self.router.route(question) if method == "agentic" else None
        return Plan(
            k,
            route.method if route else method,  # type: ignore[arg-type]
            use_graph,
            self.candidates,
            self.graph,
            self.fusion,
            gate,
            str(route) if route else "",
        )

    def _ground(self, derived: Derived, question: str, vector: Matrix | None, allowed: Keys | None) -> Ground:
        view, records = derived.view_of(allowed), self.index.records
        entities = self.recogniser.by_name(question, view, records)
        if not entities and vector is not None:
            entities = self.recogniser.by_vector(vector, view, derived.vectors["names"])
        return Ground(
            question, vector, derived, records, view, allowed, entities, self.index.embedding, self.index.accesses
        )

    def _key(self, question: str, plan: Plan, where: Where | None, vector: Matrix | None) -> Hashable | None:
        """Return everything a result depends on but for the generation; None if it cannot be told."""
        if self.cache is None:
            return None
        try:
            scope = json.dumps(where, sort_keys=True, default=repr)
            key = (self.index, question, plan, self.recogniser, scope, None if vector is None else vector.tobytes())
            hash(key)
        except (TypeError, ValueError):
            return None
        return key

    def _kept(self, asked: Hashable | None) -> Result | None:
        if self.cache is None or asked is None:
            return None
        clock = Clock()
        with clock.stage("cache"), self.index.reading() as derived:
            kept = self.cache.get((derived.generation, asked))
        return None if kept is None else replace(kept, trace=clock.trace)

    def _embed(self, question: str, plan: Plan) -> tuple[Matrix | None, str]:
        if plan.method == "keyword":
            return None, ""
        if self.index.embedding is None:
            return None, "no embedder was given: keywords carry the question"
        try:
            return self.index.embedding.query(question), ""
        except EmbedderError as error:
            return None, f"no embedding could be had, keywords carry the question: {error}"

    def _given(self, embedding: Iterable[float]) -> Matrix:
        vector = np.array(list(embedding), np.float32)
        dim = self.index.stats().dim if self.index.embedding is None else self.index.embedding.dim
        if vector.ndim != 1 or (dim and len(vector) != dim) or not np.isfinite(vector).all():
            raise InputError(f"the embedding has shape {vector.shape}, the index dimension {dim}: give finite numbers")
        unit: Matrix = vector / np.float32(max(float(np.linalg.norm(vector)), 1e-12))
        return unit


def _check_question(question: object) -> None:
    if not isinstance(question, str):
        raise InputError(f"a question is a text, not {type(question).__qualname__}")
    if not question.strip():
        raise InputError("the question is empty: ask something")
    if len(question) > _LONGEST_QUESTION:
        raise InputError(f"the question has {len(question):,} characters: ask with at most {_LONGEST_QUESTION:,}")


def _check_k(k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is {k!r}: ask for at least one passage")


def _check_method(method: object) -> None:
    if method not in get_args(Method):
        raise InputError(f"unknown method {method!r}: use one of {', '.join(get_args(Method))}")
