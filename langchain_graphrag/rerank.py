"""LangChain's document compressors (``CrossEncoderReranker``, ``CohereRerank``, ``FlashrankRerank``) as rerankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core import Chunk, Coverage, ScoreReranker
from graphrag_core.errors import InputError, RerankerError
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.rerank import scores_of_order
from langchain_graphrag.documents import DETAILS, candidate

_OWN_SCORE = "relevance_score"  # the metadata key under which compressors write their score
_Scores = list[float | None]
_T = TypeVar("_T")


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
        Orders the passages before; :class:`graphrag_core.Coverage` by default.
    """
    if not isinstance(compressor, BaseDocumentCompressor):
        raise InputError(f"{compressor!r:.80} is not a document compressor: pass a LangChain BaseDocumentCompressor")
    return ScoreReranker(_CompressorScores(compressor), passages, first or Coverage())


def to_reranker(reranker: Any) -> Any:
    """Return a compressor as a reranker of the core, and everything else as it is."""
    return compressor_reranker(reranker) if isinstance(reranker, BaseDocumentCompressor) else reranker


class _Run(NamedTuple):
    """The run of a retriever: its callbacks, and the scores awaited so far; None if it cannot await."""

    callbacks: Callbacks = None
    awaited: dict[Hashable, _Scores] | None = None


_run: ContextVar[_Run] = ContextVar("run", default=_Run())  # noqa: B039 - the value is immutable


class _Unscored(Exception):
    """Raised inside of a query in a thread: the event loop has to score these documents first."""

    def __init__(self, key: Hashable, compress: Callable[[Callbacks], Awaitable[_Scores]]) -> None:
        super().__init__("the scores have to be awaited")
        self.key = key
        self.compress = compress


def run_search(search: Callable[[], _T], callbacks: Callbacks) -> _T:
    """Run a search whose reranker may be a compressor."""
    token = _run.set(_Run(callbacks))
    try:
        return search()
    finally:
        _run.reset(token)


async def arun_search(search: Callable[[], Awaitable[_T]], callbacks: Callbacks, sync_callbacks: Callbacks) -> _T:
    """Run a search in a thread whose reranker may have to be awaited.

    The query stops where it needs scores, which are awaited here, and runs again with them. No thread waits for the
    event loop, so any number of queries can run at once, and no snapshot of the index stays open meanwhile.
    """
    awaited: dict[Hashable, _Scores] = {}
    token = _run.set(_Run(sync_callbacks, awaited))
    try:
        while True:
            try:
                return await search()
            except _Unscored as unscored:
                missing = unscored
            awaited[missing.key] = await missing.compress(callbacks)
    finally:
        _run.reset(token)


@dataclass(frozen=True)
class _CompressorScores:
    """Scores passages by the order in which a compressor returns them. Cannot be hashed if the compressor cannot."""

    compressor: BaseDocumentCompressor

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> _Scores:
        run = _run.get()
        documents = [_to_document(chunk, rank) for rank, chunk in enumerate(chunks, 1)]
        has_coroutine = type(self.compressor).acompress_documents is not BaseDocumentCompressor.acompress_documents
        if run.awaited is None or not has_coroutine:
            returned = self.compressor.compress_documents(documents, question, callbacks=run.callbacks)
            return self._scores(chunks, returned)

        async def compress(callbacks: Callbacks) -> _Scores:
            returned = await self.compressor.acompress_documents(documents, question, callbacks=callbacks)
            return self._scores(chunks, returned)

        key = (id(self.compressor), question, tuple((chunk.id, chunk.text) for chunk in chunks))
        if key not in run.awaited:
            raise _Unscored(key, compress)
        return run.awaited[key]

    def _scores(self, chunks: Sequence[Chunk], returned: Sequence[Document]) -> _Scores:
        places = {chunk.id: place for place, chunk in enumerate(chunks)}
        order = [self._place(document, chunks, places) for document in returned]
        own = [_number(document.metadata.get(_OWN_SCORE)) for document in returned]
        return scores_of_order(order, own, len(chunks))

    def _place(self, document: Document, chunks: Sequence[Chunk], places: Mapping[str, int]) -> int:
        """Return which of the passages a returned document is. Some compressors return copies without the id."""
        details = document.metadata.get(DETAILS)
        name = details.get("id") if isinstance(details, Mapping) else document.id
        place = places.get(str(name))
        if place is None:
            place = next((at for at, chunk in enumerate(chunks) if chunk.text == document.page_content), None)
        if place is not None and document.page_content == chunks[place].text:
            return place
        kind = type(self.compressor).__qualname__
        problem = "returned a document that it was not given" if place is None else f"changed the text of {name!r}"
        raise RerankerError(
            f"{kind} {problem}: a reranker may only order and drop documents. Use "
            f"ContextualCompressionRetriever(base_compressor={kind}(...), base_retriever=retriever) instead"
        )


def _to_document(chunk: Chunk, rank: int) -> Document:
    document = candidate(chunk, 1 / rank)
    document.metadata.pop(_OWN_SCORE, None)  # it would be taken for the compressor's
    return document


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
