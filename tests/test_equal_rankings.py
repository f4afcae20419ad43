"""The core and both adapters rank the same passages in the same order, with the same scores and reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.schema import TextNode
from llama_support import Hashed
from mixed_documents import DOCUMENTS, QUESTIONS

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.strategies import ExpansionQueries, Linear, Neighbourhood, ReciprocalRank
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever as LangChainRetriever
from llama_graphrag import GraphRAGRetriever as LlamaRetriever

INDEX = {"embed_names": False, "chunker": None}


def titled(document) -> dict[str, str]:
    return {"title": document.title} if document.title else {}


@pytest.fixture(scope="module")
def filled():
    """Three indexes of the same documents, each filled by its own framework, in different orders."""
    nodes = [TextNode(id_=one.id, text=one.text, metadata=titled(one)) for one in DOCUMENTS]
    documents = [LangChainDocument(id=one.id, page_content=one.text, metadata=titled(one)) for one in DOCUMENTS]
    with (
        KnowledgeIndex(HashEmbedder(), **INDEX) as index,
        LangChainRetriever.from_documents(documents[::-1], HashEmbedder(), **INDEX) as langchain,
        LlamaRetriever.from_nodes(nodes[7:] + nodes[:7], Hashed()) as llama,
    ):
        index.add(replace(one, metadata={}) for one in DOCUMENTS)
        yield index, langchain.index, llama.index


def reasons(details):
    """What is told of a hit; the adapters tell more of their own."""
    return {name: details[name] for name in ("channels", "path", "origin", "expansion_skipped", "entities")}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reranker": False},
        {"graph": Neighbourhood()},  # SpreadingActivation counts accesses: its scores change with every question
        {"graph": ExpansionQueries()},
        {"fusion": ReciprocalRank(), "reranker": Linear()},
        {"method": "graph"},
    ],
    ids=lambda settings: ",".join(map(str, settings)) or "default",
)
async def test_rankings_are_equal(filled, settings):
    index, for_langchain, for_llama = filled
    core = GraphRetriever(index, k=10, **settings)
    langchain = LangChainRetriever(index=for_langchain, k=10, add_metadata=["score", "graphrag"], **settings)
    llama = LlamaRetriever(for_llama, similarity_top_k=10, add_metadata=["graphrag"], **settings)
    for question in QUESTIONS[::2]:
        result = core.retrieve(question)
        expected = [(hit.chunk.id, hit.score, reasons(result.details(hit))) for hit in result.hits]
        assert expected, question
        for documents in (langchain.invoke(question), await langchain.ainvoke(question)):
            found = [(one.id, one.metadata["score"], reasons(one.metadata["graphrag"])) for one in documents]
            assert found == expected, question
        for nodes in (llama.retrieve(question), await llama.aretrieve(question)):
            found = [(one.node_id, one.score, reasons(one.node.metadata["graphrag"])) for one in nodes]
            assert found == expected, question
