"""How a retriever is made: from documents, texts, graph documents or a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables.config import run_in_executor
from typing_extensions import Self

import graphrag_core
from graphrag_core.errors import InputError, NotAnIndex
from graphrag_core.folder import Folder
from graphrag_core.ports import Embedder
from langchain_graphrag.documents import from_texts, to_core
from langchain_graphrag.extraction import sources_of
from langchain_graphrag.opening import open_index
from langchain_graphrag.store import Indexed


class Made(Indexed):
    """The ways to make a :class:`~langchain_graphrag.GraphRAGRetriever`."""

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
        taken = sources_of(graph_documents)
        return _filled(cls._open(embedding, path, None, settings), taken)

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


_Some = TypeVar("_Some", bound=Indexed)


def _filled(one: _Some, documents: Sequence[graphrag_core.Document]) -> _Some:
    try:
        one.index.add(documents)
    except BaseException:
        one.close()
        raise
    return one
