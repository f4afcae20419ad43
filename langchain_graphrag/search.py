"""``search_type`` and ``search_kwargs``, as LangChain's vector store retrievers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphrag_core import Chunk, KnowledgeIndex, Result
from graphrag_core.errors import InputError

SEARCH_TYPES = ("similarity", "mmr", "similarity_score_threshold")
_CORE = (
    "k", "method", "use_graph", "score_threshold", "min_graph_score", "min_score", "min_confidence", "as_of",
    "count_access", "seed_entities", "exclude",
)  # fmt: skip
_KNOWN = frozenset({"filter", "fetch_k", "lambda_mult", *_CORE})


@dataclass(frozen=True)
class Search:
    """The settings of one search.

    Attributes
    ----------
    core
        Arguments of :meth:`graphrag_core.GraphRetriever.retrieve`.
    filter
        The filter in ``search_kwargs``.
    k
        How many documents to return.
    lambda_mult
        From 0 for the most diverse documents to 1 for the most relevant ones; None if diversity does not count.
    """

    core: Mapping[str, Any]
    filter: Mapping[str, Any] | None
    k: int
    lambda_mult: float | None

    @classmethod
    def of(cls, k: int, search_type: str, search_kwargs: Mapping[str, Any], asked: Mapping[str, Any]) -> Search:
        """Return the settings of a call. What it asks for overrides ``search_kwargs``; None is not asked for.

        Raises
        ------
        InputError
            A setting is unknown or cannot be used.
        """
        given = {name: value for name, value in asked.items() if value is not None}
        kind = given.pop("search_type", search_type)
        if not (search_kwargs.keys() <= _KNOWN and given.keys() <= _KNOWN):
            unknown = min({*search_kwargs, *given} - _KNOWN)
            raise InputError(f"unknown search setting {unknown!r}: use {', '.join(sorted(_KNOWN))}")
        if kind not in SEARCH_TYPES:
            raise InputError(f"unknown search_type {kind!r}: use {', '.join(SEARCH_TYPES)}")
        merged = {**{name: value for name, value in search_kwargs.items() if value is not None}, **given}
        if "score_threshold" not in merged and kind == "similarity_score_threshold":
            raise InputError("search_type='similarity_score_threshold' needs search_kwargs={'score_threshold': ...}")
        k = merged.setdefault("k", k)
        lambda_mult = None
        if kind == "mmr":
            lambda_mult = merged.get("lambda_mult", 0.5)
            if not 0 <= lambda_mult <= 1:
                raise InputError(f"lambda_mult is {lambda_mult!r}: it must be from 0 to 1")
            merged["k"] = max(k, merged.get("fetch_k", 20))
        core = {name: value for name, value in merged.items() if name in _CORE}
        return cls(core, merged.get("filter"), k, lambda_mult)


def most_diverse(index: KnowledgeIndex, result: Result, k: int, lambda_mult: float) -> Result:
    """Return ``k`` hits by maximal marginal relevance, in the order in which they are chosen.

    Each next hit has the highest ``lambda_mult * score - (1 - lambda_mult) * similarity``: its score, and its highest
    cosine similarity to a hit chosen before. With ``lambda_mult`` 1 the order is that of the result. Vectors are read
    from the index; nothing is embedded.
    """
    hits = result.hits
    if not hits:
        return result
    vectors = _vectors(index, [hit.chunk for hit in hits])
    similarities = vectors @ vectors.T
    scores = np.array([hit.score for hit in hits])
    scores = scores / max(1.0, float(scores.max()))  # BM25 scores exceed 1
    chosen: list[int] = []
    while len(chosen) < min(k, len(hits)):
        redundancy = similarities[:, chosen].max(axis=1, initial=0) if chosen else np.zeros(len(hits))
        marginal = lambda_mult * scores - (1 - lambda_mult) * redundancy
        marginal[chosen] = -np.inf
        chosen.append(int(marginal.argmax()))
    return replace(result, hits=tuple(hits[place] for place in chosen))


def _vectors(index: KnowledgeIndex, chunks: Sequence[Chunk]) -> Any:
    """Return the stored vectors of chunks, one per row; zeros for a chunk without one."""
    documents = index.engine.parsed(list(dict.fromkeys(chunk.document_id for chunk in chunks)))
    by_id = {
        chunk.id: vector
        for one in documents
        if one.chunk_vectors is not None
        for chunk, vector in zip(one.chunks, one.chunk_vectors, strict=True)
    }
    found = [by_id.get(chunk.id) for chunk in chunks]
    dim = next((len(vector) for vector in found if vector is not None), 1)
    return np.stack([np.zeros(dim, np.float32) if vector is None else vector for vector in found])
