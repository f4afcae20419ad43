"""The two plain channels: passages near a question, and passages that share its words."""

from __future__ import annotations

import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk
from graphrag_core.ports import Keys, Scores
from graphrag_core.where import Where

Ranked = list[tuple[Chunk, float]]


def vector_search(index: KnowledgeIndex, question: str, k: int = 5, where: Where | None = None) -> Ranked:
    """Return the ``k`` passages nearest to a question by cosine; ties by id."""
    if index.embedding is None:
        raise InputError("vector search needs the index's embedder: KnowledgeIndex.open(path, embedder)")
    vector = index.embedding.query(question)
    with index.reading() as derived:
        ((keys, scores),) = derived.vectors["chunks"].search(vector[None, :], k, index.scope(where))
        return _ranked(index, keys, scores, k)


def keyword_search(index: KnowledgeIndex, question: str, k: int = 5, where: Where | None = None) -> Ranked:
    """Return the ``k`` passages that best match a question's words by BM25; ties by id."""
    with index.reading() as derived:
        keys, scores = derived.keywords["chunks"].search(question, k, index.scope(where))
        # A reader's keyword index may be a moment ahead of its records.
        known = np.isin(keys, derived.vectors["chunks"].keys)
        return _ranked(index, keys[known], scores[known], k)


def _ranked(index: KnowledgeIndex, keys: Keys, scores: Scores, k: int) -> Ranked:
    found = list(zip(index.records.chunks(keys), scores.tolist(), strict=True))
    return sorted(found, key=lambda hit: (-hit[1], hit[0].id))[:k]
