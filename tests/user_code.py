"""What users write, for the type checker: each error that is ignored here has to be one."""

from __future__ import annotations

from langchain_core.documents import Document
from llama_index.core import Document as LlamaDocument

from graphrag_core import Result
from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever
from llama_graphrag import GraphRAGRetriever as LlamaRetriever


def with_langchain(documents: list[Document]) -> Result:
    retriever = GraphRAGRetriever.from_documents(documents, WordLlama(), path="kb", k=5, filter={"tenant": "a"})
    GraphRAGRetriever.from_documents(documents, WordLlama(), kk=5)  # type: ignore[call-arg]
    GraphRAGRetriever.from_documents(["text"], WordLlama())  # type: ignore[list-item]
    GraphRAGRetriever.from_vectorstore(retriever)  # type: ignore[arg-type]
    return retriever.search("Who?", k=3)


def with_llama_index(documents: list[LlamaDocument]) -> Result:
    retriever = LlamaRetriever.from_documents(documents, WordLlama(), path="kb", similarity_top_k=5, method="keyword")
    LlamaRetriever.from_documents(documents, WordLlama(), kk=5)  # type: ignore[call-arg]
    LlamaRetriever.from_documents(["text"], WordLlama())  # type: ignore[list-item]
    return retriever.with_filters(doc_ids=["a"]).search("Who?")
