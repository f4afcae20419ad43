"""The LlamaIndex adapter as the tests of both adapters use it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import llama_index.core
import nltk
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

import llama_graphrag as package
from graphrag_core.testing import HashEmbedder
from llama_graphrag import (
    GraphRAGRetriever,
    memory_search_tool,
)

# LlamaIndex 0.13 has the data its splitter needs in its own folder, but does not look there.
nltk.data.path.append(str(Path(llama_index.core.__path__[0], "_static", "nltk_cache")))

NAMES = [
    "GraphRAGRetriever", "GraphRAGVectorStore", "LocalEmbedding", "memory_search_tool",
]  # fmt: skip
WRITE = """
import sys
from llama_graphrag import GraphRAGRetriever
from llama_index.core.schema import TextNode
from graphrag_core.testing import HashEmbedder
with GraphRAGRetriever.from_persist_dir(sys.argv[1], HashEmbedder()) as retriever:
    retriever.insert_nodes([TextNode(text="Lena Holm wrote the Ledger.", id_="lena")])
"""
package_name, extra, library, scenario = package.__name__, "llama", "llama_index", "llama"


# -- retrievers


def conversation(asked, answered, aside):
    """Return messages of the framework: a turn of the user and the assistant, and what the system and a tool say."""
    answer = ChatMessage(role="assistant", blocks=[TextBlock(text=answered)])
    return [ChatMessage(aside, role="system"), ChatMessage(asked), ChatMessage(aside, role="tool"), answer]


def to_items(documents):
    """Return documents of the core as what the framework's users index. The embedding sees the title and the text."""
    nodes = []
    for one in documents:
        metadata = {**one.metadata, **({"title": one.title} if one.title else {})}
        hidden = sorted(one.metadata)
        nodes.append(TextNode(id_=one.id, text=one.text, metadata=metadata, excluded_embed_metadata_keys=hidden))
    return nodes


def _settings(settings):
    settings = dict(settings)
    return {"similarity_top_k": settings.pop("k", None), **settings}


def build(documents, embedder=HashEmbedder(), **settings):  # noqa: B008 - it has no state
    embedder = False if embedder is None else embedder
    return GraphRAGRetriever.from_nodes(to_items(documents), embedder, **_settings(settings))


def over(index, **settings):
    return GraphRAGRetriever(index, **_settings(settings))


def changed(retriever, **settings):
    """Return a retriever of the same index with other settings."""
    kept = {"settings": retriever.settings, "filters": retriever.filters, "add_metadata": retriever.add_metadata}
    return GraphRAGRetriever(retriever.index, **{**kept, **_settings(settings)})


def load(path, embedder, **settings):
    embedder = False if embedder is None else embedder
    return GraphRAGRetriever.from_persist_dir(path, embedder, **_settings(settings))


def where(**values):
    """Return a filter as keywords of a retriever."""
    return {"filters": MetadataFilters(filters=[MetadataFilter(key=key, value=value) for key, value in values.items()])}


def add(retriever, documents):
    retriever.insert_nodes(to_items(documents))


async def aadd(retriever, documents):
    await retriever.ainsert_nodes(to_items(documents))


def retrieve(retriever, question, **settings):
    return retriever.retrieve(question, **settings)


async def aretrieve(retriever, question, **settings):
    return await retriever.aretrieve(question, **settings)


# -- results


def ids(found):
    return [one.node_id for one in found]


def texts(found):
    return [one.node.get_content(MetadataMode.NONE) for one in found]


def scores(found):
    return [one.score for one in found]


def metadata(found, name):
    return [one.node.metadata[name] for one in found]


# -- models


def embedders():
    return [HashEmbedder(), MockEmbedding(8)]


# -- tools


class Tool:
    def __init__(self, tool):
        self.tool, self.name, self.description = tool, tool.metadata.name, tool.metadata.description

    def call(self, **arguments) -> tuple[str, list[Any] | None]:
        """Return what the agent reads, and the results."""
        output = self.tool.call(**arguments)
        return output.content, output.raw_output

    async def acall(self, **arguments) -> tuple[str, list[Any] | None]:
        output = await self.tool.acall(**arguments)
        return output.content, output.raw_output

    def schema(self):
        return self.tool.metadata.fn_schema.model_json_schema()


def tool(retriever, **settings):
    return Tool(memory_search_tool(retriever, **settings))


# -- sources that the application cuts


def build_cut(sources, *, positions=True, **settings):
    """Return a retriever of texts by source, cut by LlamaIndex's splitter into nodes that overlap."""
    documents = [llama_index.core.Document(text=text, id_=name) for name, text in sources.items()]
    nodes = SentenceSplitter(chunk_size=60, chunk_overlap=20).get_nodes_from_documents(documents)
    for node in nodes:
        node.start_char_idx = node.start_char_idx if positions else None
    return GraphRAGRetriever.from_nodes(nodes, HashEmbedder(), **_settings(settings))


# -- async use


class OnTheLoop(BaseEmbedding):
    """An embedding model with coroutines alone. It records its texts; ``fail`` is raised, ``vector`` returned."""

    fail: Any = None
    vector: Any = None
    batches: list = []  # noqa: RUF012 - pydantic copies it
    questions: list = []  # noqa: RUF012

    def _get_query_embedding(self, query):
        raise AssertionError("the plain method was called")

    _get_text_embedding = _get_query_embedding

    async def _aget_text_embeddings(self, texts):
        self.batches.append(list(texts))
        return [await self._vector(text) for text in texts]

    async def _aget_text_embedding(self, text):
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_query_embedding(self, query):
        self.questions.append(query)
        return await self._vector(query)

    async def _vector(self, text):
        await asyncio.sleep(0)
        if self.fail:
            raise self.fail
        return HashEmbedder().embed_query(text).tolist() if self.vector is None else self.vector


async def adelete(retriever, ids):
    await retriever.as_vector_store().adelete_nodes(ids)
