"""``GraphContextTransformer``: facts of the graph in any chain's prompt."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from pydantic import Field

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphContextTransformer, GraphRAGRetriever


@pytest.fixture
def retriever():
    retriever = GraphRAGRetriever.from_texts(
        ["The Auth Service calls the Keyring.", "The Keyring is sold by Solheim.", "Solheim is based in Bergen."],
        HashEmbedder(),
        metadatas=[{"owner": "Harbour Team"}, {"owner": "Harbour Team"}, {}],
        ids=["auth", "key", "vendor"],
        edges=["owner"],
        k=3,
        add_metadata=["graphrag"],
    )
    retriever.index.memory.remember("Keyring", "replaces", "Old Vault")
    return retriever


class RecordingModel(FakeListChatModel):
    """A chat model that keeps its prompts."""

    responses: list[str] = Field(default=["answer"])
    prompts: list[str] = Field(default_factory=list)

    def _call(self, messages, *args, **kwargs):
        self.prompts.append(str(messages[0].content))
        return super()._call(messages, *args, **kwargs)


def _joined(documents):
    return "\n\n".join(document.page_content for document in documents)


def test_a_chain_sees_the_facts_once(retriever):
    model = RecordingModel()
    chain = (
        {"context": retriever | GraphContextTransformer() | _joined, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | model
        | StrOutputParser()
    )
    assert chain.invoke("Which services does the Harbour Team have?") == "answer"
    assert asyncio.run(chain.ainvoke("Which services does the Harbour Team have?")) == "answer"
    assert model.prompts[0].count("calls the Keyring owner: Harbour Team") == 1


def test_it_is_a_step_of_a_compressor_pipeline(retriever):
    pipeline = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    compressor = pipeline.DocumentCompressorPipeline(transformers=[GraphContextTransformer()])
    compressed = retrievers.ContextualCompressionRetriever(base_compressor=compressor, base_retriever=retriever)
    found = compressed.invoke("Which services does the Harbour Team have?")
    assert any("Knowledge graph:" in document.page_content for document in found)
