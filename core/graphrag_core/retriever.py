"""``GraphRetriever``, the public read side: validates a call, looks it up in the cache, runs the query pipeline."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from dataclasses import replace
from operator import index as as_integer
from typing import Any, Literal, get_args

from graphrag_core.errors import InputError
from graphrag_core.filters import Where, parse
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import unit_vector
from graphrag_core.ports import Matrix
from graphrag_core.query.coverage import Coverage, Reranker
from graphrag_core.query.fusion import Anchored, Fusion, Gate
from graphrag_core.query.pipeline import Plan, answer
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import PassageScores, ScoreReranker
from graphrag_core.query.routing import Router
from graphrag_core.query.strategies import GraphStrategy, PageRank
from graphrag_core.result import Result, Trace

Method = Literal["hybrid", "vector", "keyword", "graph", "agentic"]
_METHODS = get_args(Method)
_MAX_QUESTION = 100_000  # characters


class Cache:
    """A least-recently-written cache with expiry.

    The retriever's key has everything a result depends on: the question, the settings, the parsed
    filter and the generation of the index. Results are never stale after an add or a delete and never
    cross scopes. Thread-safe.

    Parameters
    ----------
    seconds
        How long a result is kept.
    entries
        The maximum number of results.
    clock
        Returns the time in seconds.
    """

    def __init__(
        self, *, seconds: float = 60.0, entries: int = 1_024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if seconds <= 0 or entries < 1:
            raise InputError("seconds must be positive and entries at least 1: pass cache=None to disable the cache")
        self.seconds = seconds
        self.entries = entries
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, Result]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Result | None:
        """Return the result of a key, unless it has expired."""
        with self._lock:
            until, result = self._entries.get(key, (0.0, None))
            if result is not None and self._clock() >= until:
                del self._entries[key]
                return None
        return None if result is None else _copied(result)

    def put(self, key: Hashable, result: Result) -> None:
        """Store a result."""
        stored = _copied(result)
        with self._lock:
            self._entries[key] = (self._clock() + self.seconds, stored)
            self._entries.move_to_end(key)
            while len(self._entries) > self.entries:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._entries.clear()


class GraphRetriever:
    """Retrieves passages from an index by vector, keyword and graph search.

    Parameters
    ----------
    index
        The index to search.
    method
        ``"hybrid"`` uses all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` use one, of
        which the last two may find fewer than ``k``; ``"agentic"`` lets ``router`` choose a method for
        each question.
    k
        How many passages to return.
    graph
        The graph strategy; :class:`~graphrag_core.PageRank` by default.
    fusion
        How plain search and graph become one ranking. By default the strategy's own, which for
        PageRank is :class:`~graphrag_core.Anchored`.
    reranker
        Orders the passages of the hybrid method. True uses :class:`~graphrag_core.Coverage` where both the
        strategy and the fusion are the default; False orders them by the fusion alone. A function that scores
        passages, such as a :class:`~graphrag_core.CrossEncoder`, orders the best of them
        (:class:`~graphrag_core.ScoreReranker`).
    gate, recogniser, router
        When the graph is trusted, how entities are found in a question, and how ``"agentic"`` chooses.
    candidates
        How many passages each channel is asked for, at least ``k``.
    cache
        True for a new :class:`~graphrag_core.Cache`, or a cache to share; False or None for none.

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
        reranker: Reranker | PassageScores | bool = True,
        gate: Gate | None = None,
        recogniser: Recogniser | None = None,
        router: Router | None = None,
        candidates: int = 100,
        cache: Cache | bool | None = True,
    ) -> None:
        self.index = index
        self.method: Method = method
        self.k = k
        self.graph: GraphStrategy = graph if graph is not None else PageRank()
        _require(self.graph, "expand", "graph strategy", "expand(query, plain, k)")
        self.fusion: Fusion = fusion if fusion is not None else getattr(self.graph, "fusion", PageRank.fusion)
        _require(self.fusion, "fuse", "fusion", "fuse(plain, graph, lead=...)")
        if reranker is True:
            by_default = fusion is None and isinstance(self.graph, PageRank) and isinstance(self.fusion, Anchored)
            self.reranker: Reranker | None = Coverage() if by_default else None
        elif callable(reranker) and not isinstance(reranker, type) and not hasattr(reranker, "rerank"):
            self.reranker = ScoreReranker(reranker)
        else:
            self.reranker = reranker or None  # type: ignore[assignment]
        if self.reranker is not None:
            _require(self.reranker, "rerank", "reranker", "rerank(query, plain, graph)")
        self.gate = gate or Gate()
        _require(self.gate, "lead", "gate", "lead(names_subject=..., bridged=...)")
        self.recogniser = recogniser or Recogniser()
        self.router = router or Router()
        self.candidates = _positive(candidates, "candidates")
        self.cache = Cache() if cache is True else None if cache is False else cache
        if self.cache is not None:
            _require(self.cache, "get", "cache", "get(key) and put(key, result)")
        self._plan("", k, method, True, None)  # validates

    def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        method: Method | None = None,
        where: Where | None = None,
        use_graph: bool = True,
        embedding: Iterable[float] | Exception | None = None,
        min_graph_score: float | None = None,
    ) -> Result:
        """Return the passages that answer a question, best first, with the reason for each.

        Parameters
        ----------
        question
            The question.
        k, method
            Override the retriever's settings.
        where
            A filter on document metadata; it applies at every hop (:mod:`graphrag_core.filters`).
        use_graph
            False restricts the hybrid method to vector and keyword search.
        embedding
            The question's vector, if it was computed before, or the exception that computing it raised.
        min_graph_score
            Overrides the gate's setting: passages that the graph finds with a lower strength (0 to 1)
            are left to plain search.
        """
        if not isinstance(question, str) or len(question) > _MAX_QUESTION:
            raise InputError(f"the question must be a str of at most {_MAX_QUESTION:,} characters: {question!r:.80}")
        if not question.strip():
            raise InputError("the question is empty")
        try:
            question.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"the question has a lone surrogate at {error.start}: decode it correctly") from error
        scope = None if where is None else parse(where)
        given = embedding if embedding is None or isinstance(embedding, Exception) else self._as_vector(embedding)
        plan = self._plan(question, self.k if k is None else k, method or self.method, use_graph, min_graph_score)
        key: Hashable = None
        if self.cache is not None and not isinstance(given, Exception):
            start = time.perf_counter()
            key = (self.index.engine, question, plan, scope, None if given is None else given.tobytes())
            try:
                cached = self.cache.get((self.index.engine.generation, key))
            except TypeError:  # a custom strategy that cannot be hashed
                key = cached = None
            if cached is not None:
                return replace(cached, trace=Trace({"cache": (time.perf_counter() - start) * 1000}))
        embedder = self.index.embedding
        result, generation = answer(self.index.engine, embedder, question, plan, scope, given)
        if self.cache is not None and key is not None and not (embedder is not None and result.fallback):
            self.cache.put((generation, key), result)
        return result

    def warm(self, questions: Iterable[str] | int = 10) -> int:
        """Run questions in advance to fill the cache; return how many.

        An integer uses the names of that many of the most frequent entities. The first query on a
        new generation of the index also loads the graph for all later ones.
        """
        if isinstance(questions, int):
            count = _positive(questions, "the number of entities to warm")
            with self.index.engine.snapshot() as snapshot:
                questions = [entity.name for entity in snapshot.entities(snapshot.top_entities(count))]
        return len([self.retrieve(question) for question in questions])

    def _plan(self, question: str, k: int, method: Method, use_graph: bool, min_graph_score: float | None) -> Plan:
        if method not in _METHODS:
            raise InputError(f"unknown method {method!r}: use one of {', '.join(_METHODS)}")
        gate = self.gate
        if min_graph_score is not None:
            is_number = isinstance(min_graph_score, (int, float)) and not isinstance(min_graph_score, bool)
            if not is_number or not 0 <= min_graph_score <= 1:
                raise InputError(f"min_graph_score is {min_graph_score!r}: use a number from 0 to 1")
            gate = replace(gate, min_graph_score=float(min_graph_score))
        route = self.router.route(question) if method == "agentic" else None
        return Plan(
            k=_positive(k, "k"),
            method=route.method if route else method,  # type: ignore[arg-type]
            use_graph=bool(use_graph),
            candidates=self.candidates,
            recogniser=self.recogniser,
            strategy=self.graph,
            fusion=self.fusion,
            reranker=self.reranker,
            gate=gate,
            route=str(route) if route else "",
        )

    def _as_vector(self, embedding: Iterable[float]) -> Matrix:
        try:
            return unit_vector(embedding, int(self.index.engine.settings().get("dim", "0")) or None)
        except ValueError as error:
            raise InputError(f"the embedding {error}") from error


def _positive(number: Any, name: str) -> int:
    try:
        integer = as_integer(number)
    except TypeError:
        integer = 0
    if isinstance(number, bool) or integer < 1:
        raise InputError(f"{name} is {number!r}: use an integer of at least 1")
    return integer


def _require(value: object, method: str, kind: str, signature: str) -> None:
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        raise InputError(f"{value!r} is not a {kind}: it needs {signature}; pass an object, not a class or a name")


def _copied(result: Result) -> Result:
    """Return a copy that shares no mutable value."""
    hits = [
        replace(hit, channels=dict(hit.channels), chunk=replace(hit.chunk, metadata=deepcopy(dict(hit.chunk.metadata))))
        for hit in result.hits
    ]
    return replace(result, hits=tuple(hits), known=dict(result.known))
