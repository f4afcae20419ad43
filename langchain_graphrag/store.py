"""Documents in and out of an index, in LangChain's ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import Any

from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict
from typing_extensions import Self, override

import graphrag_core
from graphrag_core import KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.handed import Ready, at_hand
from langchain_graphrag.documents import as_added, to_core
from langchain_graphrag.embedder import LoopEmbedder
from langchain_graphrag.extraction import sources_of


class Indexed(DocumentIndex):
    """What a retriever has to do with its documents; see :class:`~langchain_graphrag.GraphRAGRetriever`.

    Conforms to LangChain's ``DocumentIndex``, so that ``langchain_core.indexing.index`` keeps it
    in step with a source.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex

    def add_documents(self, documents: Iterable[Document]) -> list[str]:
        """Add documents, replace those whose id is there, and return all their ids."""
        taken = to_core(documents)
        self.index.add(taken)
        return [document.id for document in taken]

    def add_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Add the sources of graph documents with the nodes and relationships found in them; return their ids."""
        taken = sources_of(graph_documents)
        self.index.add(taken)
        return [document.id for document in taken]

    async def aadd_documents(self, documents: Iterable[Document]) -> list[str]:
        """Do as :meth:`add_documents`; embeddings that can are awaited, the rest is done in a thread."""
        taken = await run_in_executor(None, to_core, documents)
        source = iter(taken)
        while batch := list(islice(source, self.index.batch_size)):
            ready = None
            if (embedder := self._embedder) and embedder.reads_on_the_loop:
                ready = await embedder.read(await run_in_executor(None, self.index.to_embed, batch))
            await run_in_executor(None, self._add, batch, ready)
        return [document.id for document in taken]

    def _add(self, documents: Sequence[graphrag_core.Document], ready: Ready | None) -> None:
        with at_hand(ready):
            self.index.add(documents)

    @override
    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents as LangChain's indexing API asks for it."""
        return UpsertResponse(succeeded=self.add_documents(items), failed=[])

    @override
    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Do as :meth:`upsert` without holding up the event loop."""
        return UpsertResponse(succeeded=await self.aadd_documents(items), failed=[])

    @override
    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents with everything that was read in them; ids that are not there are passed over."""
        if ids is None:
            raise InputError("say which documents to delete: delete(ids)")
        wanted = [ids] if isinstance(ids, str) else list(ids)
        there = [name for name in dict.fromkeys(wanted) if name in self.index]
        return DeleteResponse(num_deleted=self.index.delete(there), succeeded=there, num_failed=0, failed=[])

    @override
    async def adelete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Do as :meth:`delete` without holding up the event loop."""
        return await run_in_executor(None, self.delete, ids)

    @override
    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents as they were put in; ids that are not there are passed over."""
        found = (self.index.get(name) for name in dict.fromkeys(ids))
        return [as_added(document) for document in found if document is not None]

    def close(self) -> None:
        """Save and close the index. Closing twice does nothing."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _embedder(self) -> LoopEmbedder | None:
        embedder = self.index.embedding.embedder if self.index.embedding else None
        return embedder if isinstance(embedder, LoopEmbedder) else None
