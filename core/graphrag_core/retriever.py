"""``GraphRetriever``: sequences the stages of a query, and holds no algorithm."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import numpy as np

from graphrag_core.entities import read_entities
from graphrag_core.errors import EmbedderError, InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ports import Keys, Matrix
from graphrag_core.query.fuse import Anchored, Fusion, Lead
from graphrag_core.query.gate import VECTOR_ONLY, Gate, confidence
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.hit import Channel, Hit, Trace
from graphrag_core.query.pagerank import PageRank
from graphrag_core.query.path import describe, find_way
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.result import Result
from graphrag_core.where import Where

Method = Literal["hybrid", "vector", "keyword", "graph"]
_LONGEST_QUESTION = 100_000
_VECTOR_SHARE = 0.6


class GraphRetriever:
    """Answers questions from an index by vector, keyword and graph together.

    Parameters
    ----------
    index
        What to search.
    method
        ``"hybrid"`` runs all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` one.
    k
        How many passages come back, where there are as many.
    graph, fusion, gate, recogniser
        How the graph is walked, how rankings become one, when the graph is trusted, and how
        names are found in a question.
    candidates
        How many passages each channel brings to the fusion, at the least.

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
        graph: PageRank | None = None,
        fusion: Fusion | None = None,
        gate: Gate | None = None,
        recogniser: Recogniser | None = None,
        candidates: int = 100,
    ) -> None:
        _check_method(method)
        _check_k(k)
        self.index = index
        self.method: Method = method
        self.k = k
        self.graph = graph or PageRank()
        self.fusion: Fusion = fusion or Anchored()
        self.gate = gate or Gate()
        self.recogniser = recogniser or Recogniser()
        self.candidates = candidates

    def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        method: Method | None = None,
        where: Where | None = None,
        use_graph: bool = True,
        embedding: Iterable[float] | None = None,
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
        """
        _check_question(question)
        k = self.k if k is None else k
        method = method or self.method
        _check_k(k)
        _check_method(method)
        clock = _Clock()
        with clock.stage("embed"):
            vector, fallback = self._embed(question, method, embedding)
        with self.index.reading() as derived:
            with clock.stage("recognise"):
                allowed = self.index.scope(where)
                view = derived.view_of(allowed)
                entities = self.recogniser.by_name(question, view, self.index.records)
                if not entities and vector is not None:
                    entities = self.recogniser.by_vector(vector, view, derived.vectors["names"])
                ground = Ground(question, vector, derived, self.index.records, view, allowed, entities)
            return self._answer(ground, k, method, use_graph, fallback, clock)

    def _answer(self, ground: Ground, k: int, method: Method, use_graph: bool, fallback: str, clock: _Clock) -> Result:
        count = max(self.candidates, k)
        rankings: dict[str, Ranking] = {}
        with clock.stage("search"):
            if method != "keyword":
                rankings["vector"] = ground.near("chunks", count)
            if method != "vector":
                rankings["keyword"] = ground.matching("chunks", count)
            plain = rankings.get(method) if method in ("vector", "keyword") else None
            plain = plain or ground.blended("chunks", count, _VECTOR_SHARE)
            if method == "vector" and ground.vector is None:
                plain = rankings["keyword"] = ground.matching("chunks", count)
        quality = float(rankings["vector"][1][0]) if len(rankings.get("vector", ((), ()))[1]) else 0.0
        lead: Lead = "graph"
        trust, skipped = VECTOR_ONLY, ""
        if method in ("hybrid", "graph") and use_graph:
            trust = confidence(ground.question, len(ground.entities), quality)
            skipped = self.gate.skipped(trust)
            names_subject = bool(ground.view.is_subject[list(ground.entities)].any())
            if not skipped:
                with clock.stage("expand"):
                    rankings["graph"] = self.graph.rank(ground, plain, count)
                if method == "hybrid":
                    lead, skipped = self.gate.lead(names_subject=names_subject, bridged=ground.view.bridged)
        elif not use_graph:
            skipped = "the graph was not asked"
        with clock.stage("fuse"):
            labels, ids = self._labels([plain, *rankings.values()])
            relabelled = {name: _relabel(ranking, labels) for name, ranking in rankings.items()}
            plain = _relabel(plain, labels)
            order = plain[0]
            if method == "graph" and len(relabelled.get("graph", ((),))[0]):
                order = relabelled["graph"][0]
            elif "graph" in relabelled:
                order = self.fusion.fuse(plain, relabelled["graph"], lead=lead)
            chosen = [ids[label] for label in order[:k].tolist()]
        with clock.stage("explain"):
            numbers = {pair: label for label, pair in enumerate(ids)}
            hits = self._hits(ground, chosen, relabelled, numbers, with_paths="graph" in rankings)
            named = read_entities(ground.view, self.index.records, ground.entities)
        return Result(
            ground.question,
            method,
            hits,
            tuple(named),
            trust,
            expansion_skipped=skipped,
            fallback=fallback,
            trace=Trace(dict(clock.stages)),
        )

    def _embed(self, question: str, method: Method, embedding: Iterable[float] | None) -> tuple[Matrix | None, str]:
        if embedding is not None:
            return self._given(embedding), ""
        if method == "keyword":
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

    def _labels(self, rankings: Iterable[Ranking]) -> tuple[dict[int, int], list[tuple[str, int]]]:
        """Return numbers for all chunks of some rankings, in the order of their ids, by which ties break."""
        keys = np.unique(np.concatenate([ranking[0] for ranking in rankings]))
        ids = sorted(zip(self.index.records.chunk_ids(keys), keys.tolist(), strict=True))
        return {key: label for label, (_, key) in enumerate(ids)}, ids

    def _hits(
        self,
        ground: Ground,
        chosen: list[tuple[str, int]],
        rankings: dict[str, Ranking],
        labels: dict[tuple[str, int], int],
        *,
        with_paths: bool,
    ) -> tuple[Hit, ...]:
        ranks = {name: _channels(ranking) for name, ranking in rankings.items()}
        positions = np.searchsorted(ground.view.chunk_keys, [key for _, key in chosen]).tolist()
        chunks = self.index.records.chunks([key for _, key in chosen])
        ways = (
            [(chunk, find_way(ground, at)) for chunk, at in zip(chunks, positions, strict=True)] if with_paths else []
        )
        paths = describe(ground, self.index.records, ways)
        return tuple(
            Hit(
                chunk,
                1.0 / rank,
                {name: found[labels[pair]] for name, found in ranks.items() if labels[pair] in found},
                paths.get(chunk.id, ()),
            )
            for rank, (chunk, pair) in enumerate(zip(chunks, chosen, strict=True), 1)
        )


def _relabel(ranking: Ranking, labels: dict[int, int]) -> Ranking:
    relabelled: Keys = np.array([labels[key] for key in ranking[0].tolist()], np.int64)
    order = np.lexsort((relabelled, -ranking[1]))
    return relabelled[order], ranking[1][order]


def _channels(ranking: Ranking) -> dict[int, Channel]:
    pairs = enumerate(zip(ranking[0].tolist(), ranking[1].tolist(), strict=True), 1)
    return {label: Channel(rank, score) for rank, (label, score) in pairs}


class _Clock:
    """Measures stages."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = (time.perf_counter() - start) * 1000


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
