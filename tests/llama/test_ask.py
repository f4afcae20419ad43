"""``ask`` and ``aask`` of the LlamaIndex adapter, with LlamaIndex's mock models."""

from __future__ import annotations

import pytest
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM, MockLLM

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


def test_pieces_arrive_as_they_are_written():
    assert list(to_chat_model(Scripted()).stream([{"role": "user", "content": "?"}])) == ["The ", "answer [1]."]


def test_a_mock_model_gets_the_instructions_first(retriever, question):
    answer = retriever.ask(question, MockLLM())
    assert "You answer a question from numbered passages." in answer.text


def test_a_model_that_fails_is_an_llm_error_with_what_was_written(retriever, question):
    with pytest.raises(LLMError, match="no route") as error:
        retriever.ask(question, Failing())
    assert error.value.partial == "The "
