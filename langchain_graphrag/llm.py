"""LangChain's language models, in the form that the core takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import Runnable

from graphrag_core.llm import ChatModel, Message, read_pieces


def to_chat_model(llm: Any) -> ChatModel | Any:
    """Return a LangChain chat model, LLM or chain as a model of the core, and everything else as it is."""
    return _ChatModel(llm) if isinstance(llm, Runnable) else llm


def model_name(llm: Any) -> str:
    """Return the name of the model behind a chat model, or an empty text."""
    names = (getattr(llm, attribute, None) for attribute in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str)), "")


class _ChatModel:
    """A LangChain chat model, LLM or other runnable that takes messages, and writes its answer in pieces."""

    def __init__(self, llm: Runnable[Any, Any]) -> None:
        self._llm = llm
        self.model = model_name(llm) or type(llm).__qualname__

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        pieces = self._llm.stream([(message["role"], message["content"]) for message in messages])
        return read_pieces(pieces, text_of)


def text_of(piece: Any) -> str:
    """Return the text of an answer or of a piece of it, which is a text or a message."""
    return piece if isinstance(piece, str) else str(piece.text)
