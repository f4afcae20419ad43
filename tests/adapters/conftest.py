"""The frameworks on which each test of this folder runs; one that is not installed is skipped."""

from __future__ import annotations

from importlib import import_module

import pytest

from graphrag_core.testing import CHAIN

_NEEDED = {"langchain": "langchain_core", "llama": "llama_index.core"}


@pytest.fixture(params=list(_NEEDED))
def framework(request):
    """What the tests need of an adapter, in one form for both (``on_langchain``, ``on_llama``)."""
    pytest.importorskip(_NEEDED[request.param])
    return import_module(f"on_{request.param}")


@pytest.fixture
def retriever(framework):
    with framework.build(CHAIN) as retriever:
        yield retriever
