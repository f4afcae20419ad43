"""``GraphContextTransformer``: facts of the graph in any chain's prompt."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import Document
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


def test_documents_get_what_the_graph_knows_and_stay_as_they_were(retriever):
    found = retriever.invoke("Which services does the Harbour Team have?")
    texts = [document.page_content for document in found]
    changed = GraphContextTransformer(max_tokens=200).transform_documents(found)
    assert [document.page_content for document in found] == texts
    assert [document.id for document in changed] == [document.id for document in found]
    added = "\n".join(new.page_content.removeprefix(old) for new, old in zip(changed, texts, strict=True))
    assert "Knowledge graph:" in added
    lines = [line for line in added.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))
    assert asyncio.run(GraphContextTransformer(max_tokens=200).atransform_documents(found)) == changed


def test_it_is_a_step_of_a_compressor_pipeline(retriever):
    pipeline = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    compressor = pipeline.DocumentCompressorPipeline(transformers=[GraphContextTransformer()])
    compressed = retrievers.ContextualCompressionRetriever(base_compressor=compressor, base_retriever=retriever)
    found = compressed.invoke("Which services does the Harbour Team have?")
    assert any("Knowledge graph:" in document.page_content for document in found)


def test_the_stuff_documents_chain_sees_the_facts(retriever):
    combine = pytest.importorskip("langchain_classic.chains.combine_documents")
    model = RecordingModel(prompts=[])
    chain = combine.create_stuff_documents_chain(model, ChatPromptTemplate.from_template("{context}"))
    question = "Which services does the Harbour Team have?"
    chain.invoke({"context": GraphContextTransformer()(retriever.invoke(question))})
    assert model.prompts[-1].count("Knowledge graph:") >= 1


@pytest.mark.parametrize("restricted", [{"filter": {"owner": "B"}}, {"search_kwargs": {"filter": {"owner": "B"}}}])
def test_facts_are_looked_up_within_every_filter_of_the_retriever(restricted):
    texts, owners = ["The Keyring is sold by Solheim.", "Lunch is at noon."], [{"owner": "A"}, {"owner": "B"}]
    with GraphRAGRetriever.from_texts(texts, HashEmbedder(), owners) as everything:
        question = Document("What do the Keyring and Solheim share?")
        assert everything.facts_about([question.page_content]) == ["The Keyring is sold by Solheim."]
        mine = GraphRAGRetriever(index=everything.index, **restricted)
        assert GraphContextTransformer(retriever=mine).transform_documents([question]) == [question]
