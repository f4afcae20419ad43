"""Documents in and out: how an index is made, filled and emptied from LangChain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict
from typing_extensions import Self, override

import graphrag_core
from graphrag_core import KnowledgeIndex
from graphrag_core.errors import InputError, NotAnIndex
from graphrag_core.folder import Folder
from graphrag_core.ports import Embedder
from langchain_graphrag.documents import as_added, from_texts, to_core
from langchain_graphrag.embedder import LoopEmbedder, Ready, at_hand
from langchain_graphrag.extraction import Told, read_graph, told
from langchain_graphrag.opening import open_index


class Indexed(DocumentIndex):
    """What a retriever has to do with its documents; see :class:`~langchain_graphrag.GraphRAGRetriever`.

    Conforms to LangChain's ``DocumentIndex``, so that ``langchain_core.indexing.index`` keeps it
    in step with a source.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex

    # -- making one

    @classmethod
    def _open(cls, embedding: Embedder, path: str | Path | None, llm: Any, settings: Mapping[str, Any]) -> Self:
        own = {name: value for name, value in settings.items() if name in cls.model_fields}
        index = open_index(embedding, path, llm, {name: settings[name] for name in settings if name not in own})
        try:
            return cls(index=index, **own)
        except BaseException:
            index.close()
            raise

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedder,
        *,
        path: str | Path | None = None,
        llm: Any = None,
        **settings: Any,
    ) -> Self:
        """Index documents and return their retriever.

        Parameters
        ----------
        documents
            Stay whole unless a ``chunker`` is given. One without an id gets one from its content.
        embedding
            Any LangChain ``Embeddings``, or an embedder of the core such as ``WordLlama()``.
        path
            A folder, made if absent; documents are added to what it has. None keeps the index
            in memory.
        llm
            A chat model that reads entities and relations out of every passage, beside the
            reading that needs none. :func:`~langchain_graphrag.llm_extractor` has its settings.
        settings
            ``k``, ``method``, ``fusion``, ``tags`` and the other fields of this class;
            ``chunker``, ``extractor``, ``embed_facts`` and the other settings of
            :class:`graphrag_core.KnowledgeIndex`.
        """
        taken = to_core(documents)
        return _filled(cls._open(embedding, path, llm, settings), taken)

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedder,
        *,
        path: str | Path | None = None,
        llm: Any = None,
        **settings: Any,
    ) -> Self:
        """Do as :meth:`from_documents` without holding up the event loop."""
        retriever = await run_in_executor(None, cls._open, embedding, path, llm, settings)
        try:
            await retriever.aadd_documents(documents)
        except BaseException:
            retriever.close()
            raise
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Index texts and return their retriever; ``settings`` as for :meth:`from_documents`."""
        return cls.from_documents(from_texts(texts, metadatas, ids), embedding, **settings)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Do as :meth:`from_texts` without holding up the event loop."""
        return await cls.afrom_documents(from_texts(texts, metadatas, ids), embedding, **settings)

    @classmethod
    def from_graph_documents(
        cls,
        graph_documents: Iterable[Any],
        embedding: Embedder,
        *,
        path: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Index the sources of graph documents with the nodes and relationships found in them.

        Takes what LangChain's ``LLMGraphTransformer`` returns. Each node is a typed entity, each
        relationship a fact of its source, beside what the sources' sentences say.

        Parameters
        ----------
        graph_documents
            With ``nodes``, ``relationships`` and a ``source`` each. The sources stay whole.
        embedding, path, settings
            As for :meth:`from_documents`.
        """
        if settings.get("chunker") is not None:
            raise InputError("a graph document's relationships belong to its whole source: leave chunker out")
        graphs = list(graph_documents)
        cut = [to_core([graph.source])[0] for graph in graphs]
        sources = {document.id: document for document in cut}
        said = read_graph(graphs, [document.id for document in cut])
        return _filled(cls._open(embedding, path, None, settings), list(sources.values()), said)

    @classmethod
    def load(
        cls, path: str | Path, embedding: Embedder, *, llm: Any = None, read_only: bool = False, **settings: Any
    ) -> Self:
        """Return the retriever of an index that is in a folder.

        Parameters
        ----------
        path
            The folder.
        embedding
            The embedding that built the index; another one is refused by name.
        llm, settings
            As for :meth:`from_documents`; ``chunker``, ``extractor`` and ``llm`` hold for what
            is added from now on.
        read_only
            One process may write while any number read. ``index.refresh()`` lets a reader see
            what was written since.
        """
        if not Folder(Path(path)).records.is_file():
            raise NotAnIndex(f"{path} holds no index: mend the path, or make one with from_documents(..., path=...)")
        return cls._open(embedding, path, llm, {"read_only": read_only, **settings})

    # -- documents in and out

    def add_documents(self, documents: Iterable[Document]) -> list[str]:
        """Add documents, replace those whose id is there, and return all their ids."""
        taken = to_core(documents)
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


_Some = TypeVar("_Some", bound=Indexed)


def _filled(one: _Some, documents: Sequence[graphrag_core.Document], said: Told | None = None) -> _Some:
    try:
        with told(said):
            one.index.add(documents)
    except BaseException:
        one.close()
        raise
    return one
