"""``ask`` and ``aask`` of the LlamaIndex adapter, with LlamaIndex's mock models."""

from __future__ import annotations

import pytest
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.schema import QueryBundle

from graphrag_core.errors import LLMError
from llama_graphrag.models import to_chat_model


class Scripted(CustomLLM):
    """Streams two pieces."""

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text="The answer [1].")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield CompletionResponse(text="The ", delta="The ")
        yield CompletionResponse(text="The answer [1].", delta="answer [1].")


class Failing(Scripted):
    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield CompletionResponse(text="The ", delta="The ")
        raise ConnectionError("no route")


@pytest.fixture
def question(nodes):
    return nodes[0].text.split(".")[0]


async def test_a_model_answers_with_citations(retriever, question):
    for answer in (retriever.ask(question, Scripted()), await retriever.aask(QueryBundle(question), Scripted())):
        assert (answer.text, answer.kind) == ("The answer [1].", "llm")
        assert answer.citations[0].chunk_id == answer.result.hits[0].chunk.id


def test_pieces_arrive_as_they_are_written():
    assert list(to_chat_model(Scripted()).stream([{"role": "user", "content": "?"}])) == ["The ", "answer [1]."]


def test_a_mock_model_gets_the_instructions_first(retriever, question):
    answer = retriever.ask(question, MockLLM())
    assert "You answer a question from numbered passages." in answer.text


async def test_without_a_model_sentences_are_extracted(retriever, question):
    assert retriever.ask(question).kind == "extract"
    assert (await retriever.aask(question)).kind == "extract"


def test_a_model_that_fails_is_an_llm_error_with_what_was_written(retriever, question):
    with pytest.raises(LLMError, match="no route") as error:
        retriever.ask(question, Failing())
    assert error.value.partial == "The "


def test_the_graph_is_steered(retriever, question):
    first = retriever.search(question).hits[0].chunk.document_id
    assert first not in [hit.chunk.document_id for hit in retriever.search(question, exclude=[first]).hits]
