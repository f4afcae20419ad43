"""``search_type="mmr"``, as LangChain's vector store retrievers have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphrag_core import Chunk, KnowledgeIndex, Result

_LEAST = 1e-4


def most_diverse(index: KnowledgeIndex, result: Result, *, k: int, lambda_mult: float) -> Result:
    """Return ``k`` hits by maximal marginal relevance, in the order in which they are chosen.

    Each next hit has the highest ``lambda_mult * relevance - (1 - lambda_mult) * similarity``: its relevance, and its
    highest cosine similarity to a hit chosen before. The relevance is the score of vector search, which is a cosine. Of
    other methods it is the log odds of the score, from 0 for the last hit to 1 for the first: such scores are
    probabilities, and after the first hits too small to compare with a cosine. With ``lambda_mult`` 1 the order is that
    of the result. Vectors are read from the index; nothing is embedded.
    """
    hits = result.hits
    if not hits:
        return result
    vectors = _vectors(index, [hit.chunk for hit in hits])
    similarities = vectors @ vectors.T
    relevance = np.array([hit.score for hit in hits])
    if result.method != "vector":
        scores = (relevance / max(1.0, float(relevance.max()))).clip(_LEAST, 1 - _LEAST)  # BM25 scores exceed 1
        odds = np.log(scores / (1 - scores))
        relevance = (odds - odds.min()) / max(float(np.ptp(odds)), _LEAST)
    chosen: list[int] = []
    while len(chosen) < min(k, len(hits)):
        redundancy = similarities[:, chosen].max(axis=1, initial=0) if chosen else np.zeros(len(hits))
        marginal = lambda_mult * relevance - (1 - lambda_mult) * redundancy
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
