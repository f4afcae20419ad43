"""The ``memory_search`` tool."""

from __future__ import annotations

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from langchain_graphrag import create_memory_search_tool


def call(**arguments):
    return {"name": "memory_search", "args": arguments, "id": "1", "type": "tool_call"}


@pytest.fixture
def tool(retriever):
    return create_memory_search_tool(retriever)


async def test_its_artifact_is_a_list_of_documents(tool):
    for message in (tool.invoke(call(query=QUESTION)), await tool.ainvoke(call(query=QUESTION))):
        assert type(message.artifact) is list
        assert all(isinstance(document, Document) for document in message.artifact)


async def test_is_traced_with_the_search_inside(tool):
    class Listens(BaseCallbackHandler):
        def __init__(self):
            self.tools, self.searches = [], []

        def on_tool_start(self, serialized, text, *, run_id, **kwargs):
            self.tools.append(run_id)

        def on_retriever_start(self, serialized, query, *, parent_run_id=None, tags=None, **kwargs):
            self.searches.append((parent_run_id, tags))

    for run in ("invoke", "ainvoke"):
        listens = Listens()
        config = {"callbacks": [listens], "tags": ["call"]}
        if run == "invoke":
            tool.invoke(call(query=QUESTION), config)
        else:
            await tool.ainvoke(call(query=QUESTION), config)
        assert listens.searches == [(listens.tools[0], ["call"])]
