"""LangChain's document compressors (``CohereRerank``, ...) as rerankers, and ``search_type="mmr"``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core import Chunk, KnowledgeIndex, Result
from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError
from graphrag_core.query.external_rerank import Returned, Scores, scores_of_returned
from graphrag_core.query.linear import Linear
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranker
from langchain_graphrag.documents import to_document

_LEAST = 1e-4  # the distance of a score from 0 and 1 before its log odds are taken
_OWN_SCORE = "relevance_score"  # the metadata key under which compressors write their score
_ID = "graphrag_id"  # the metadata key of the passage's id: some compressors return copies without Document.id


def compressor_reranker(
    compressor: BaseDocumentCompressor, *, passages: int = 20, first: Reranker | None = None
) -> ScoreReranker:
    """Return a reranker that orders the best passages with a LangChain document compressor.

    ``GraphRAGRetriever(..., reranker=compressor)`` does the same with the defaults. ``passages`` and ``first`` are
    those of :class:`graphrag_core.strategies.ScoreReranker`. Passages that the compressor leaves out or has not seen
    are dropped, so set its ``top_n`` to at least ``k``. The score of a document is the compressor's
    (``relevance_score`` in the metadata it returns) if it falls with the rank, otherwise 1 / rank. A compressor that
    changes texts cannot order passages: use LangChain's ``ContextualCompressionRetriever``. ``ainvoke`` awaits the
    compressor's own ``acompress_documents``; without one, ``compress_documents`` runs in a thread.
    """
    if not isinstance(compressor, BaseDocumentCompressor):
        raise InputError(f"{compressor!r:.80} is not a document compressor: pass a LangChain BaseDocumentCompressor")
    return ScoreReranker(_CompressorScores(compressor), passages, first or Linear())


def to_reranker(reranker: Any) -> Any:
    """Return a compressor as a reranker of the core, and everything else as it is."""
    return compressor_reranker(reranker) if isinstance(reranker, BaseDocumentCompressor) else reranker


RUN = ContextVar[CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun | None]("run", default=None)
"""The run of the retriever whose callbacks a compressor gets."""


@dataclass(frozen=True)
class _CompressorScores:
    """Scores passages by the order in which a compressor returns them. Cannot be hashed if the compressor cannot."""

    compressor: BaseDocumentCompressor

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> Scores:
        run = RUN.get()
        now = run.get_sync() if isinstance(run, AsyncCallbackManagerForRetrieverRun) else run
        documents = [_to_document(chunk) for chunk in chunks]
        callbacks = now.get_child() if now else None
        return self._scores(chunks, self.compressor.compress_documents(documents, question, callbacks=callbacks))

    @property
    def ascore(self) -> Callable[[str, Sequence[Chunk]], Awaitable[Scores]] | None:
        """Awaits the compressor, if it has a coroutine."""
        return self._ascore if overrides(self.compressor, BaseDocumentCompressor, "acompress_documents") else None

    async def _ascore(self, question: str, chunks: Sequence[Chunk]) -> Scores:
        run = RUN.get()
        documents = [_to_document(chunk) for chunk in chunks]
        callbacks = run.get_child() if run else None
        return self._scores(chunks, await self.compressor.acompress_documents(documents, question, callbacks=callbacks))

    def _scores(self, chunks: Sequence[Chunk], documents: Sequence[Document]) -> Scores:
        texts = {chunk.id: chunk.text for chunk in chunks}
        returned = [
            Returned(_passage_id(document, texts), document.page_content, _number(document.metadata.get(_OWN_SCORE)))
            for document in documents
        ]
        kind = type(self.compressor).__qualname__
        instead = f"Use ContextualCompressionRetriever(base_compressor={kind}(...), base_retriever=retriever) instead"
        return scores_of_returned(returned, texts, self.compressor, instead)


def _passage_id(document: Document, texts: Mapping[str, str]) -> str:
    """Return which of the passages a returned document is. Some compressors return copies without the id."""
    name = str(document.metadata.get(_ID) or document.id)
    same_text = (passage_id for passage_id, text in texts.items() if text == document.page_content)
    return name if name in texts else next(same_text, name)


def _to_document(chunk: Chunk) -> Document:
    document = to_document(chunk)
    document.metadata.pop(_OWN_SCORE, None)  # it would be taken for the compressor's
    document.metadata[_ID] = chunk.id
    return document


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


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
    documents = index.engine.parsed(list(dict.fromkeys(chunk.document_id for chunk in chunks)))
    by_id: dict[str, Any] = {}
    for document in documents:
        if document.chunk_vectors is not None:
            by_id.update(zip((chunk.id for chunk in document.chunks), document.chunk_vectors, strict=True))
    vectors = [by_id.get(chunk.id) for chunk in chunks]
    dim = next((len(vector) for vector in vectors if vector is not None), 1)
    return np.stack([np.zeros(dim, np.float32) if vector is None else vector for vector in vectors])
