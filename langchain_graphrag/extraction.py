"""``llm_extractor``: entities and relations found by a chat model."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable

from graphrag_core import Combined, LLMExtractor, SentenceExtractor
from graphrag_core.errors import InputError


def llm_extractor(llm: Runnable[Any, Any], **settings: Any) -> Combined:
    """Return an extractor that combines a chat model with the default sentence extractor.

    Parameters
    ----------
    llm
        A chat model, or any runnable that turns a prompt into a message or a string.
    settings
        Settings of :class:`graphrag_core.LLMExtractor`, such as ``cache="answers.sqlite"`` to
        avoid paying twice for the same passage, ``entity_types``, ``concurrency``, ``retries``.
    """
    if not callable(getattr(llm, "invoke", None)):
        raise InputError(f"{type(llm).__qualname__} is not a chat model: it needs invoke(prompt)")

    def complete(prompt: str) -> str:
        answer = llm.invoke(prompt)
        return answer if isinstance(answer, str) else str(answer.text)

    names = (getattr(llm, name, None) for name in ("model_name", "model", "model_id"))
    model = next((name for name in names if isinstance(name, str)), "")
    return Combined(SentenceExtractor(), LLMExtractor(complete, **{"model": model, **settings}))
