"""``ask`` and ``aask`` of the LangChain adapter, with LangChain's fake models."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

from graphrag_core.errors import LLMError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

QUESTION = "What does the Auth Service call?"


@pytest.fixture
def retriever():
    with GraphRAGRetriever.from_texts(
        ["The Auth Service calls the Keyring.", "The Keyring is sold by Solheim.", "The Auth Service of B is secret."],
        HashEmbedder(),
        metadatas=[{"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}],
        ids=["auth", "key", "secret"],
        k=3,
    ) as retriever:
        yield retriever


@pytest.mark.parametrize(
    "model",
    [
        FakeListChatModel(responses=["The Keyring [1]."]),
        FakeListLLM(responses=["The Keyring [1]."]),
        FakeListChatModel(responses=["The Keyring [1]."]) | StrOutputParser(),
    ],
    ids=["chat model", "llm", "chain"],
)
async def test_a_model_answers_with_citations(retriever, model):
    answer = retriever.ask(QUESTION, model)
    assert (answer.text, answer.kind) == ("The Keyring [1].", "llm")
    assert [citation.document_id for citation in answer.citations] == ["auth"]
    assert (await retriever.aask(QUESTION, model)).text == "The Keyring [1]."


async def test_without_a_model_sentences_are_extracted_within_the_filter(retriever):
    answer = retriever.ask(QUESTION, filter={"tenant": "a"})
    assert answer.kind == "extract"
    assert "calls the Keyring" in answer.text
    retriever = retriever.model_copy(update={"filter": {"tenant": "a"}})
    for answer in (retriever.ask(QUESTION), await retriever.aask(QUESTION)):
        assert "secret" not in answer.text
        assert "secret" not in {hit.chunk.id for hit in answer.result.hits}


def test_the_graph_is_steered_by_a_call_and_by_search_kwargs(retriever):
    result = retriever.search(QUESTION, exclude=["auth"], seed_entities=["solheim"])
    assert "auth" not in [hit.chunk.id for hit in result]
    assert "Solheim" in [entity.name for entity in result.entities]
    retriever = retriever.model_copy(update={"search_kwargs": {"exclude": ["key"]}})
    assert "key" not in [document.id for document in retriever.invoke(QUESTION)]


def test_a_model_that_fails_is_an_llm_error(retriever):
    def fails(_):
        raise ConnectionError("no route")

    with pytest.raises(LLMError, match="no route"):
        retriever.ask(QUESTION, RunnableLambda(fails))
