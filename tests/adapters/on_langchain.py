"""The LangChain adapter as the tests of both adapters use it."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_text_splitters import RecursiveCharacterTextSplitter

import langchain_graphrag as package
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import (
    GraphRAGRetriever,
    create_memory_search_tool,
)

NAMES = [
    "GraphRAGRetriever",
    "compressor_reranker", "create_memory_search_tool", "llm_extractor",
]  # fmt: skip
WRITE = """
import sys
from langchain_core.documents import Document
from langchain_graphrag import GraphRAGRetriever
from graphrag_core import KnowledgeExtractor
from graphrag_core.testing import HashEmbedder
with GraphRAGRetriever.load(sys.argv[1], HashEmbedder()) as retriever:
    retriever.add_documents([Document("Lena Holm wrote the Ledger.", id="lena")])
"""
package_name, extra, library, scenario = package.__name__, "langchain", "langchain_core", "langchain"


# -- retrievers


def conversation(asked, answered, aside):
    """Return messages of the framework: a turn of the user and the assistant, and what the system and a tool say."""
    blocks = [{"type": "text", "text": answered}]
    return [SystemMessage(aside), HumanMessage(asked), ToolMessage(aside, tool_call_id="1"), AIMessage(blocks)]


def to_items(documents):
    """Return documents of the core as what the framework's users index."""
    titles = [{"title": one.title} if one.title else {} for one in documents]
    return [
        Document(id=one.id, page_content=one.text, metadata={**one.metadata, **title})
        for one, title in zip(documents, titles, strict=True)
    ]


def build(documents, embedder=HashEmbedder(), **settings):  # noqa: B008 - it has no state
    return GraphRAGRetriever.from_documents(to_items(documents), embedder, **settings)


def over(index, **settings):
    return GraphRAGRetriever(index=index, **settings)


def changed(retriever, **settings):
    """Return a retriever of the same index with other settings."""
    return retriever.model_copy(update=settings)


def load(path, embedder, **settings):
    return GraphRAGRetriever.load(path, embedder, **settings)


def where(**values):
    """Return a filter as keywords of a retriever."""
    return {"filter": values}


def add(retriever, documents):
    retriever.add_documents(to_items(documents))


async def aadd(retriever, documents):
    await retriever.aadd_documents(to_items(documents))


def retrieve(retriever, question, **settings):
    return retriever.invoke(question, **settings)


async def aretrieve(retriever, question, **settings):
    return await retriever.ainvoke(question, **settings)


# -- results


def ids(found):
    return [document.id for document in found]


def texts(found):
    return [document.page_content for document in found]


def scores(found):
    return metadata(found, "score")


def metadata(found, name):
    return [document.metadata[name] for document in found]


# -- models


def embedders():
    return [HashEmbedder(), DeterministicFakeEmbedding(size=8)]


# -- tools


class Tool:
    def __init__(self, tool):
        self.tool, self.name, self.description = tool, tool.name, tool.description

    def call(self, **arguments) -> tuple[str, list[Any] | None]:
        """Return what the agent reads, and the results."""
        message = self.tool.invoke(self._call(arguments))
        return message.content, message.artifact

    async def acall(self, **arguments) -> tuple[str, list[Any] | None]:
        message = await self.tool.ainvoke(self._call(arguments))
        return message.content, message.artifact

    def schema(self):
        return self.tool.tool_call_schema.model_json_schema()

    def _call(self, arguments):
        return {"name": self.name, "args": arguments, "id": "1", "type": "tool_call"}


def tool(retriever, **settings):
    return Tool(create_memory_search_tool(retriever, **settings))


# -- sources that the application cuts


def build_cut(sources, *, positions=True, **settings):
    """Return a retriever of texts by source, cut by LangChain's splitter into pieces that overlap."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=240, chunk_overlap=80, add_start_index=positions)
    documents = [Document(page_content=text, metadata={"source": name}) for name, text in sources.items()]
    return GraphRAGRetriever.from_documents(splitter.split_documents(documents), HashEmbedder(), **settings)


# -- async use


class OnTheLoop(Embeddings):
    """An embedding model with coroutines alone. It records its texts; ``fail`` is raised, ``vector`` returned."""

    fail = vector = None

    def __init__(self):
        self.batches, self.questions = [], []

    def embed_documents(self, texts):
        raise AssertionError("the plain method was called")

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        self.batches.append(list(texts))
        return [await self._vector(text) for text in texts]

    async def aembed_query(self, text):
        self.questions.append(text)
        return await self._vector(text)

    async def _vector(self, text):
        await asyncio.sleep(0)
        if self.fail:
            raise self.fail
        return HashEmbedder().embed_query(text).tolist() if self.vector is None else self.vector


async def adelete(retriever, ids):
    await retriever.adelete(ids)
