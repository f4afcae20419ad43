"""``GraphRAGRetriever``: from documents, nodes, an index, a graph or a folder to answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, Document, TransformComponent
from llama_index.core.settings import Settings
from typing_extensions import Self

from graphrag_core.ports import Extractor
from llama_graphrag.asking import Asking
from llama_graphrag.embedding import EmbedModel, to_embedder
from llama_graphrag.opening import open_index
from llama_graphrag.property_graph import read_graph
from llama_graphrag.stable import with_stable_ids
from llama_graphrag.vector_index import read_index
from llama_graphrag.writing import Writing


class GraphRAGRetriever(Writing, Asking):
    """Retrieves nodes by vector, keyword and graph together.

    What comes back is what was put in: the same ids, text, metadata, relationships and
    templates. How a node was found stands in ``metadata["graphrag"]``, which neither a model
    nor an embedding gets to see.

    Parameters
    ----------
    index
        What to search; :meth:`from_documents` and its siblings make one.
    similarity_top_k
        How many nodes come back, where there are as many.
    filters
        Which nodes may be seen; they hold at every hop through the graph.
    method, graph, fusion, gate
        As :class:`~graphrag_core.GraphRetriever` takes them.
    use_graph
        False leaves vectors and keywords.
    callback_manager, object_map, objects, verbose
        As every LlamaIndex retriever takes them.
    settings
        Further settings of :class:`~graphrag_core.GraphRetriever`, such as ``cache``.

    Safe to use from many threads and tasks at once. In a coroutine await ``aretrieve``,
    :meth:`ainsert_nodes` and :meth:`adelete_nodes`: none of the work is done on the event loop.
    """

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embed_model: EmbedModel | None = None,
        *,
        transformations: Sequence[TransformComponent] | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Cut documents into nodes and index them.

        Parameters
        ----------
        documents
            LlamaIndex documents; they are not changed.
        embed_model
            A LlamaIndex embedding, or anything with ``embed_documents`` and ``embed_query``;
            ``Settings.embed_model`` unless given.
        transformations
            ``Settings.transformations`` unless given, which is a ``SentenceSplitter``. What an
            extractor of entities and relations among them finds goes into the graph.
        show_progress
            Whether to show bars.
        settings
            As for :meth:`from_nodes`.
        """
        copies = [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]
        steps = Settings.transformations if transformations is None else transformations
        nodes = with_stable_ids(run_transformations(copies, steps, show_progress=show_progress))
        retriever = cls.from_nodes(nodes, embed_model, show_progress=show_progress, **settings)
        retriever.drop_stale(nodes)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: EmbedModel | None = None,
        *,
        path: str | Path | None = None,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Index nodes as they are.

        Parameters
        ----------
        nodes
            Embeddings they carry are taken; entities and relations that an extractor left in
            them (``KG_NODES_KEY``, ``KG_RELATIONS_KEY``) go into the graph.
        embed_model
            As for :meth:`from_documents`.
        path
            A folder that keeps the index; None for one in memory.
        llm
            Reads entities and relations beside what is read without one.
        extractor, embed_facts, embed_names
            As :class:`~graphrag_core.KnowledgeIndex` takes them.
        show_progress
            Whether to show bars.
        settings
            As for the class: ``similarity_top_k``, ``filters``, ``method``, ...
        """
        index = open_index(
            to_embedder(embed_model),
            path,
            llm=llm,
            extractor=extractor,
            progress=show_progress,
            embed_facts=embed_facts,
            embed_names=embed_names,
        )
        try:
            retriever = cls(index, **settings)
            retriever.insert_nodes(nodes)
        except BaseException:
            index.close()
            raise
        return retriever

    @classmethod
    def from_index(cls, index: VectorStoreIndex, embed_model: EmbedModel | None = None, **settings: Any) -> Self:
        """Give an existing index the graph.

        Its embeddings are taken where its vector store gives them (``SimpleVectorStore``, and
        stores whose nodes carry them); other nodes are embedded. A log line and
        :class:`~llama_graphrag.GraphRAGInsertEvent` say which.

        Parameters
        ----------
        index
            Stays as it is; what is inserted there later is inserted here separately.
        embed_model
            The index's own unless given.
        settings
            As for :meth:`from_nodes`.
        """
        model = index._embed_model if embed_model is None else embed_model  # noqa: SLF001 - it has no public name
        settings.setdefault("object_map", dict(index._object_map))  # noqa: SLF001 - as above
        return cls.from_nodes(read_index(index), model, **settings)

    @classmethod
    def from_property_graph(
        cls, store: PropertyGraphStore, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Take over a property graph: its text nodes, entities, types, descriptions and relations.

        Parameters
        ----------
        store
            Any ``PropertyGraphStore``; it stays as it is.
        embed_model, settings
            As for :meth:`from_nodes`.
        """
        return cls.from_nodes(read_graph(store), embed_model, **settings)

    @classmethod
    def from_persist_dir(
        cls,
        path: str | Path,
        embed_model: EmbedModel | None = None,
        *,
        read_only: bool = False,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Open the index that a folder keeps.

        Parameters
        ----------
        path
            What was given as ``path``, or any folder that the core or its command line filled.
        embed_model
            The one that built the index.
        read_only
            Leaves writing to another process.
        llm, extractor, show_progress
            For what is inserted from now on.
        settings
            As for the class.
        """
        index = open_index(
            to_embedder(embed_model),
            path,
            llm=llm,
            extractor=extractor,
            must_exist=True,
            progress=show_progress,
            read_only=read_only,
        )
        try:
            return cls(index, **settings)
        except BaseException:
            index.close()
            raise
