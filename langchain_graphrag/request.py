"""What a function for ``filter`` gets: the request that an agent serves."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, NamedTuple

from langchain_core.runnables.config import RunnableConfig, ensure_config


class AgentRequest(NamedTuple):
    """The request that an agent serves.

    Attributes
    ----------
    context
        ``context`` of the call of the agent, as in LangGraph's ``Runtime``. None if the call has none.
    config
        The ``RunnableConfig`` of the call.
    """

    context: Any
    config: RunnableConfig


def current_request(config: RunnableConfig) -> AgentRequest:
    """Return the request in which a tool is called; ``config`` is the one that LangChain passed."""
    context = None
    if langgraph := sys.modules.get("langgraph.runtime"):  # without it nothing runs in LangGraph
        with suppress(AttributeError, KeyError, RuntimeError):  # this call does not
            context = langgraph.get_runtime().context
    return AgentRequest(context, ensure_config(config))
