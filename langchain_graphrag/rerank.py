"""LangChain's document compressors (``CrossEncoderReranker``, ``CohereRerank``, ``FlashrankRerank``) as rerankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core import Chunk
from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.external_rerank import Returned, Scores, scores_of_returned
from graphrag_core.strategies import Coverage, ScoreReranker
from langchain_graphrag.documents import to_document

_OWN_SCORE = "relevance_score"  # the metadata key under which compressors write their score
_ID = "graphrag_id"  # the metadata key of the passage's id: some compressors return copies without Document.id


def compressor_reranker(
    compressor: BaseDocumentCompressor, *, passages: int = 20, first: Reranker | None = None
) -> ScoreReranker:
    """Return a reranker that orders the best passages with a LangChain document compressor.

    ``GraphRAGRetriever(..., reranker=compressor)`` does the same with the defaults. What the compressor returns comes
    first, in its order; what it leaves out is dropped, and so are the passages that it has not seen. With ``top_n=3``
    a query returns at most 3 documents, so set it to at least ``k``. The score of a document is the compressor's
    (``relevance_score`` in the metadata it returns) if it falls with the rank, otherwise 1 / rank.

    A compressor that changes texts cannot order passages: use LangChain's ``ContextualCompressionRetriever``.

    Parameters
    ----------
    compressor
        It gets documents as the retriever returns them, best first, and the question. ``ainvoke`` awaits its own
        ``acompress_documents`` on the event loop; without one, ``compress_documents`` runs in a thread. An
        exception that it raises is not caught.
    passages
        How many passages it gets, and at least as many as the query returns.
    first
        Orders the passages before; :class:`graphrag_core.strategies.Coverage` by default.
    """
    if not isinstance(compressor, BaseDocumentCompressor):
        raise InputError(f"{compressor!r:.80} is not a document compressor: pass a LangChain BaseDocumentCompressor")
    return ScoreReranker(_CompressorScores(compressor), passages, first or Coverage())


def to_reranker(reranker: Any) -> Any:
    """Return a compressor as a reranker of the core, and everything else as it is."""
    return compressor_reranker(reranker) if isinstance(reranker, BaseDocumentCompressor) else reranker


RUN: ContextVar[CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun | None] = ContextVar(
    "run", default=None
)
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
    same_text = (one for one, text in texts.items() if text == document.page_content)
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
