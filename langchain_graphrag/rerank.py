"""LangChain's document compressors (``CohereRerank``, ...) as rerankers, and ``search_type="mmr"``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core import Chunk, KnowledgeIndex, Result
from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError, RerankerError

Scores = list[float | None]

_LEAST = 1e-4  # the distance of a score from 0 and 1 before its log odds are taken

CALLBACKS: ContextVar[Callbacks] = ContextVar("callbacks", default=None)
"""Those of the retriever's run, for a compressor."""


def compressor_reranker(compressor: BaseDocumentCompressor) -> CompressorScores:
    """Return a LangChain document compressor as a function that scores passages.

    ``GraphRAGRetriever(..., reranker=compressor)`` does the same. Passages that the compressor leaves out or has not
    seen are dropped, so set its ``top_n`` to at least ``k``. The score of a document is the compressor's
    (``relevance_score`` in the metadata it returns) if it falls with the rank, otherwise 1 / rank. A compressor that
    changes texts cannot order passages: use LangChain's ``ContextualCompressionRetriever``. ``ainvoke`` awaits the
    compressor's own ``acompress_documents``; without one, ``compress_documents`` runs in a thread.
    """
    if not isinstance(compressor, BaseDocumentCompressor):
        raise InputError(f"{compressor!r:.80} is not a document compressor: pass a LangChain BaseDocumentCompressor")
    return CompressorScores(compressor)


@dataclass(frozen=True)
class CompressorScores:
    """Scores texts by the order in which a compressor returns them. Cannot be hashed if the compressor cannot."""

    compressor: BaseDocumentCompressor

    def __call__(self, question: str, texts: Sequence[str]) -> Scores:
        """Return a score for each text; None for one that the compressor leaves out."""
        documents = [Document(text) for text in texts]
        return self._scores(texts, self.compressor.compress_documents(documents, question, CALLBACKS.get()))

    @property
    def ascore(self) -> Callable[[str, Sequence[str]], Awaitable[Scores]] | None:
        """Awaits the compressor, if it has a coroutine."""
        return self._ascore if overrides(self.compressor, BaseDocumentCompressor, "acompress_documents") else None

    async def _ascore(self, question: str, texts: Sequence[str]) -> Scores:
        documents = [Document(text) for text in texts]
        return self._scores(texts, await self.compressor.acompress_documents(documents, question, CALLBACKS.get()))

    def _scores(self, texts: Sequence[str], documents: Sequence[Document]) -> Scores:
        """Return the compressor's own scores if each is lower than the one before, otherwise 1 / rank."""
        places: dict[str, list[int]] = {}  # of equal texts all, in order
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        order, given = list[int](), list[Any]()
        for document in documents:
            same = places.get(document.page_content)
            if same is None:
                kind = type(self.compressor).__qualname__
                raise RerankerError(
                    f"{kind} returned a text that it was not given: a reranker may only order and drop passages. Use "
                    f"ContextualCompressionRetriever(base_compressor={kind}(...), base_retriever=retriever) instead"
                )
            if same:  # a passage that is returned again is ignored
                order.append(same.pop(0))
                given.append(document.metadata.get("relevance_score"))
        try:
            values = [float(score) for score in given]
        except (TypeError, ValueError):
            values = [np.nan]
        if not np.isfinite(values).all() or any(one <= other for one, other in pairwise(values)):
            values = [1 / rank for rank in range(1, len(order) + 1)]
        scores = dict(zip(order, values, strict=True))
        return [scores.get(place) for place in range(len(texts))]


# -- maximal marginal relevance


def most_diverse(index: KnowledgeIndex, result: Result, *, k: int, lambda_mult: float) -> Result:
    """Return ``k`` hits by maximal marginal relevance, in the order in which they are chosen.

    Each next hit has the highest ``lambda_mult * relevance - (1 - lambda_mult) * similarity``: its relevance, and its
    highest cosine similarity to a hit chosen before. The relevance is the score of vector search, which is a cosine.
    For other methods it is the log odds of the score, scaled from 0 for the last hit to 1 for the first: such scores
    are probabilities, too small after the first hits to compare with a cosine.
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
    by_id: dict[str, Any] = {}
    for document in index.engine.parsed(list({chunk.document_id: None for chunk in chunks})):
        if document.chunk_vectors is not None:
            by_id.update(zip((chunk.id for chunk in document.chunks), document.chunk_vectors, strict=True))
    nothing = np.zeros(len(next(iter(by_id.values()), [0])), np.float32)
    return np.stack([by_id.get(chunk.id, nothing) for chunk in chunks])
