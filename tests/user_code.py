"""What users write, for the type checker: each error that is ignored here has to be one."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import VectorStore
from langgraph.runtime import Runtime
from llama_index.core import Document as LlamaDocument
from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.schema import BaseNode

from graphrag_core import Result
from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool
from langchain_graphrag.agents import RetrieveMiddleware
from llama_graphrag import GraphRAGRetriever as LlamaRetriever
from llama_graphrag import memory_search_tool


def with_langchain(documents: list[Document]) -> Result:
    retriever = GraphRAGRetriever.from_documents(documents, WordLlama(), path="kb", k=5, filter={"tenant": "a"})
    GraphRAGRetriever.from_documents(documents, WordLlama(), kk=5)  # type: ignore[call-arg]
    GraphRAGRetriever.from_documents(["text"], WordLlama())  # type: ignore[list-item]
    GraphRAGRetriever.from_vectorstore(retriever)  # type: ignore[arg-type]
    retriever.similarity_topk = 3  # type: ignore[attr-defined]
    retriever.search("Who?", kk=3)  # type: ignore[call-arg]
    retriever.configurable_fields(k=ConfigurableField(id="k")).invoke("Who?", {"configurable": {"k": 2}})
    return retriever.search("Who?", k=3)


def with_llama_index(documents: list[LlamaDocument]) -> Result:
    retriever = LlamaRetriever.from_documents(documents, WordLlama(), path="kb", similarity_top_k=5, method="keyword")
    LlamaRetriever.from_documents(documents, WordLlama(), kk=5)  # type: ignore[call-arg]
    LlamaRetriever.from_documents(["text"], WordLlama())  # type: ignore[list-item]
    retriever.similarity_topk = 3  # type: ignore[attr-defined]
    retriever.similarity_top_k = 3  # type: ignore[misc]
    retriever.search("Who?", kk=3)  # type: ignore[call-arg]
    retriever.retrieve("Who?", kk=3)  # type: ignore[call-arg]
    retriever.retrieve("Who?", similarity_top_k=2, filters=None, node_ids=["a"], use_graph=False)
    return retriever.search("Who?", doc_ids=["a"])


class Context(TypedDict):
    user: str


def of_user(runtime: Runtime[Context]) -> dict[str, str]:
    return {"user": runtime.context["user"]}


def for_each_request(retriever: GraphRAGRetriever, other: LlamaRetriever) -> None:
    RetrieveMiddleware(retriever, filter=of_user)
    create_memory_search_tool(retriever, filter=lambda request: {"user": request.config["configurable"]["user"]})
    RetrieveMiddleware(retriever, filter=lambda request: None)  # type: ignore[arg-type, return-value]
    memory_search_tool(other, where=lambda state: {"user": state["user"]})


async def constructors_of_langchain(store: VectorStore, documents: list[Document]) -> Result:
    GraphRAGRetriever.from_vectorstore(store, path=Path("kb"), batch_size=10, remove_missing=True, k=5, llm=None)
    GraphRAGRetriever.from_vectorstore(store, kk=5)  # type: ignore[call-arg]
    GraphRAGRetriever.from_documents(documents, None, path="kb", method="keyword", tags=["a"])
    GraphRAGRetriever.from_documents(documents, None, kk=5)  # type: ignore[call-arg]
    retriever = GraphRAGRetriever.load("kb", WordLlama(), read_only=True, k=5)
    await retriever.aadd_documents(documents)
    GraphRAGRetriever(index=retriever.index, k=3, candidates=50)
    GraphRAGRetriever(index=retriever.index, kk=3)  # type: ignore[call-arg]
    GraphRAGRetriever.load("kb", WordLlama(), kk=5)  # type: ignore[call-arg]
    return await retriever.asearch("Who?")


async def constructors_of_llama_index(
    index: VectorStoreIndex, graph: PropertyGraphIndex, documents: list[LlamaDocument], nodes: list[BaseNode]
) -> Result:
    LlamaRetriever.from_index(index, path="kb", remove_missing=True, similarity_top_k=5, llm=None)
    LlamaRetriever.from_index(index, kk=5)  # type: ignore[call-arg]
    LlamaRetriever.from_nodes(nodes, path="kb", remove_missing=True, doc_ids=["a"])
    LlamaRetriever.from_nodes(nodes, kk=5)  # type: ignore[call-arg]
    LlamaRetriever.from_property_graph(graph, path="kb", similarity_top_k=5)
    LlamaRetriever.from_property_graph(graph, kk=5)  # type: ignore[call-arg]
    retriever = LlamaRetriever.from_persist_dir("kb", read_only=True, transformations=[])
    await retriever.ainsert_nodes(nodes)
    LlamaRetriever(retriever.index, similarity_top_k=3, candidates=50)
    LlamaRetriever(retriever.index, kk=3)  # type: ignore[call-arg]
    LlamaRetriever.from_persist_dir("kb", kk=5)  # type: ignore[call-arg]
    return await retriever.asearch("Who?")
