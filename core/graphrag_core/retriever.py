"""``GraphRetriever``: takes a question, prepares its ground, and has it answered."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import replace
from operator import index as whole_number
from typing import Any, Literal, get_args

import numpy as np

from graphrag_core.derived import Derived
from graphrag_core.entities import top_entities
from graphrag_core.errors import EmbedderError, InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ports import Keys, Matrix
from graphrag_core.query.answer import answer
from graphrag_core.query.cache import Cache
from graphrag_core.query.clock import Clock
from graphrag_core.query.fuse import Fusion
from graphrag_core.query.gate import Gate
from graphrag_core.query.ground import Ground
from graphrag_core.query.pagerank import PageRank
from graphrag_core.query.plan import Plan
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.result import Result
from graphrag_core.query.route import Router
from graphrag_core.query.strategy import GraphStrategy
from graphrag_core.where import Tree, Where, parse

Method = Literal["hybrid", "vector", "keyword", "graph", "agentic"]
_LONGEST_QUESTION = 100_000
_WORD = re.compile(r"\w")


class GraphRetriever:
    """Answers questions from an index by vector, keyword and graph together.

    Parameters
    ----------
    index
        What to search.
    method
        ``"hybrid"`` runs all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` one,
        of which the last two may find fewer than ``k``; ``"agentic"`` lets ``router`` choose
        for each question.
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
        What remembers results: True for a :class:`~graphrag_core.Cache` of this retriever's
        own, or one that several share; False or None for none.

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
        cache: Cache | bool | None = True,
    ) -> None:
        _check_method(method)
        self.index = index
        self.method: Method = method
        self.k = _whole(k, "k")
        self.graph: GraphStrategy = graph if graph is not None else PageRank()
        _check_has(self.graph, "expand", "graph strategy", "expand(ground, plain, k)")
        self.fusion: Fusion = fusion if fusion is not None else getattr(self.graph, "fusion", PageRank.fusion)
        _check_has(self.fusion, "fuse", "fusion", "fuse(plain, graph, lead=...)")
        self.gate = gate or Gate()
        self.recogniser = recogniser or Recogniser()
        self.router = router or Router()
        _check_has(self.gate, "lead", "gate", "lead(names_subject=..., bridged=...)")
        self.candidates = _whole(candidates, "candidates")
        self.cache = Cache() if cache is True else None if cache is False else cache
        if self.cache is not None:
            _check_has(self.cache, "get", "cache", "get(key) and put(key, result)")

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
        tree = None if where is None else parse(where)
        given = None if embedding is None else self._given(embedding)
        plan = self._plan(question, self.k if k is None else k, method or self.method, use_graph, min_graph_score)
        asked = self._key(question, plan, tree, given)
        if (kept := self._kept(asked)) is not None:
            return kept
        clock = Clock()
        with clock.stage("embed"):
            vector, problem = (given, "") if given is not None else self._embed(question, plan)
        plan = replace(plan, fallback="; ".join(filter(None, (problem, _wordless(question)))))
        with self.index.reading() as derived:
            with clock.stage("recognise"):
                ground = self._ground(derived, question, vector, self.index.scope(where))
            result = replace(answer(ground, plan, clock), trace=clock.trace)
            failed = self.index.embedding is not None and result.fallback
            if self.cache is not None and asked is not None and not failed:
                self.cache.put((derived.generation, asked), result)
        return result

    def warm(self, questions: Iterable[str] | int = 10) -> int:
        """Answer questions ahead, so that the cache has them; return how many.

        A number takes the names of so many of the most mentioned entities. The first
        question on a new generation of an index also prepares the graph for all later ones.
        """
        if isinstance(questions, int):
            _whole(questions, "the number of entities to warm")
            with self.index.reading() as derived:
                questions = [e.name for e in top_entities(derived.view, self.index.records, questions)]
        return len([self.retrieve(question) for question in questions])

    def _plan(self, question: str, k: int, method: Method, use_graph: bool, min_graph_score: float | None) -> Plan:
        _check_method(method)
        gate = self.gate if min_graph_score is None else replace(self.gate, min_graph_score=_share(min_graph_score))
        route = self.router.route(question) if method == "agentic" else None
        return Plan(
            k=_whole(k, "k"),
            method=route.method if route else method,  # type: ignore[arg-type]
            use_graph=bool(use_graph),
            candidates=self.candidates,
            strategy=self.graph,
            fusion=self.fusion,
            gate=gate,
            route=str(route) if route else "",
        )

    def _ground(self, derived: Derived, question: str, vector: Matrix | None, allowed: Keys | None) -> Ground:
        view, records = derived.view_of(allowed), self.index.records
        entities = self.recogniser.by_name(question, view, records)
        if not entities and vector is not None:
            entities = self.recogniser.by_vector(vector, view, derived.vectors["names"])
        return Ground(
            question, vector, derived, records, view, allowed, entities, self.index.embedding, self.index.accesses
        )

    def _key(self, question: str, plan: Plan, where: Tree | None, vector: Matrix | None) -> Hashable | None:
        """Return everything a result depends on but for the generation; None if it cannot be told."""
        if self.cache is None:
            return None
        try:
            key = (
                self.index,
                question,
                plan,
                self.recogniser,
                repr(where),
                None if vector is None else vector.tobytes(),
            )
            hash(key)
        except TypeError:  # a strategy of the user's that cannot be hashed
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
        dim = int(self.index.records.meta("dim", "0"))
        try:
            ready = isinstance(embedding, (np.ndarray, list, tuple))
            vector = np.array(embedding if ready else list(embedding), np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"the embedding is no row of numbers: {error}") from error
        if vector.ndim != 1 or (dim and len(vector) != dim) or not np.isfinite(vector).all():
            raise InputError(f"the embedding has shape {vector.shape}, the index dimension {dim}: give finite numbers")
        unit: Matrix = vector / np.float32(max(float(np.linalg.norm(vector)), 1e-12))
        return unit


def _check_question(question: object) -> None:
    if not isinstance(question, str):
        raise InputError(f"a question is a text, not {type(question).__qualname__}")
    if not question.strip():
        raise InputError("the question is empty: ask something")
    try:
        question.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the question has half a surrogate pair at {error.start}: decode it first") from error
    if len(question) > _LONGEST_QUESTION:
        raise InputError(f"the question has {len(question):,} characters: ask with at most {_LONGEST_QUESTION:,}")


def _wordless(question: str) -> str:
    return "" if _WORD.search(question) else "the question has no words: passages come in no telling order"


def _whole(number: Any, name: str) -> int:
    try:
        whole = whole_number(number)
    except TypeError:
        whole = 0
    if isinstance(number, bool) or whole < 1:
        raise InputError(f"{name} is {number!r}: take a whole number of at least 1")
    return whole


def _share(number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise InputError(f"min_graph_score is {number!r}: take a number from 0 to 1")
    return float(number)


def _check_has(given: object, method: str, kind: str, needed: str) -> None:
    if isinstance(given, type) or not callable(getattr(given, method, None)):
        raise InputError(f"{given!r} is no {kind}: it needs {needed}; pass an object, not a class or a name")


def _check_method(method: object) -> None:
    if method not in get_args(Method):
        raise InputError(f"unknown method {method!r}: use one of {', '.join(get_args(Method))}")
