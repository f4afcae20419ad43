"""``search_type`` and ``search_kwargs``, as LangChain's vector store retrievers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from graphrag_core import Chunk, KnowledgeIndex, Result
from graphrag_core.errors import InputError

_SEARCH_TYPES = ("similarity", "mmr", "similarity_score_threshold")


class Search(NamedTuple):
    """The settings of one search.

    Attributes
    ----------
    core
        Fields of :class:`graphrag_core.SearchSettings` and arguments of :meth:`graphrag_core.GraphRetriever.retrieve`.
    k
        How many documents to return.
    lambda_mult
        From 0 for the most diverse documents to 1 for the most relevant ones; None if diversity does not count.
    """

    core: dict[str, Any]
    k: int
    lambda_mult: float | None

    @classmethod
    def of(cls, k: int, search_type: str, search_kwargs: Mapping[str, Any], asked: Mapping[str, Any]) -> Search:
        """Return the settings of a call. What it asks for overrides ``search_kwargs``; None is not asked for.

        Raises
        ------
        InputError
            A setting of LangChain cannot be used. Others are checked by the core.
        """
        merged: dict[str, Any] = {
            name: value
            for given in ({"search_type": search_type}, search_kwargs, asked)
            for name, value in given.items()
            if value is not None and name != "filter"
        }
        kind, fetch_k = merged.pop("search_type"), merged.pop("fetch_k", 20)
        lambda_mult = merged.pop("lambda_mult", 0.5)
        if kind not in _SEARCH_TYPES:
            raise InputError(f"unknown search_type {kind!r}: use {', '.join(_SEARCH_TYPES)}")
        if "score_threshold" not in merged and kind == "similarity_score_threshold":
            raise InputError("search_type='similarity_score_threshold' needs search_kwargs={'score_threshold': ...}")
        k = merged.get("k", k)
        if kind != "mmr":
            return cls(merged, k, None)
        if not 0 <= lambda_mult <= 1:
            raise InputError(f"lambda_mult is {lambda_mult!r}: it must be from 0 to 1")
        return cls({**merged, "k": max(k, fetch_k)}, k, lambda_mult)


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
