"""A language model that streams."""

from __future__ import annotations

import pytest
from serving import StreamingModel

from graphrag_core.llm import OpenAIChat


@pytest.fixture
def model():
    server = StreamingModel()
    yield server
    server.close()


@pytest.fixture
def llm(model):
    chat = OpenAIChat("m", model.url, api_key="", timeout=120)
    yield chat
    chat.close()
