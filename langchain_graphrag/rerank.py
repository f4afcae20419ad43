"""LangChain's document compressors (``CohereRerank``, ...) as rerankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError, RerankerError

Scores = list[float | None]


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
        return self._scores(texts, self.compressor.compress_documents(documents, question))

    @property
    def ascore(self) -> Callable[[str, Sequence[str]], Awaitable[Scores]] | None:
        """Awaits the compressor, if it has a coroutine."""
        return self._ascore if overrides(self.compressor, BaseDocumentCompressor, "acompress_documents") else None

    async def _ascore(self, question: str, texts: Sequence[str]) -> Scores:
        documents = [Document(text) for text in texts]
        return self._scores(texts, await self.compressor.acompress_documents(documents, question))

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
