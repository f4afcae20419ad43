"""LlamaIndex's language models and its tokenizer, in the form that the core takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import LLM
from llama_index.core.utils import get_tokenizer

from graphrag_core.llm import ChatModel, Message, read_pieces


def to_chat_model(llm: Any) -> ChatModel | Any:
    """Return a LlamaIndex LLM as a model of the core, and everything else as it is."""
    return _ChatModel(llm) if isinstance(llm, LLM) else llm


def count_tokens(text: str) -> int:
    """Count tokens with LlamaIndex's tokenizer: ``Settings.tokenizer`` if it is set, else that of its default model."""
    return len(get_tokenizer()(text))


class _ChatModel:
    """A LlamaIndex LLM that writes its answer in pieces."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.model = llm.metadata.model_name

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        written = ""

        def text_of(piece: ChatResponse) -> str:
            nonlocal written
            text = piece.delta
            if text is None:  # a model that tells the whole text so far
                text = str(piece.message.content or "")[len(written) :]
            written += text
            return text

        chat = [ChatMessage(role=message["role"], content=message["content"]) for message in messages]
        return read_pieces(self._llm.stream_chat(chat), text_of)
