"""One agent for all users: filters that are functions of the request."""

from __future__ import annotations

import json
import sys
from typing import TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool
from langchain_graphrag.agents import RetrieveMiddleware

NEEDS_311 = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="LangGraph passes no context to tasks before Python 3.11"
)
AWAITED = pytest.mark.parametrize("awaited", [False, pytest.param(True, marks=NEEDS_311)])


class Context(TypedDict, total=False):
    user: str | None


def of_user(request):
    return {"user": request.context["user"]}


def of_config(request):
    return {"user": request.config["configurable"]["user"]}


class CallsTools(BaseChatModel):
    """Calls the tool that the user names, with the arguments that the user names, and repeats its answer."""

    @property
    def _llm_type(self):
        return "calls-tools"

    def bind_tools(self, tools, **settings):
        return self

    def _generate(self, messages, *given, **settings):
        last = messages[-1]
        message = AIMessage(last.text)
        if last.type == "human":
            name, arguments = json.loads(last.text)
            message = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.fixture
def retriever():
    texts = {"ada": "Ada keeps a red diary.", "bob": "Bob keeps a blue diary."}
    documents = [Document(text, metadata={"user": user}) for user, text in texts.items()]
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever


async def run(graph, given, awaited, **settings):
    return await graph.ainvoke(given, **settings) if awaited else graph.invoke(given, **settings)


async def call(agent, awaited, name, arguments, **settings):
    given = {"messages": [("user", json.dumps([name, arguments]))]}
    return (await run(agent, given, awaited, **settings))["messages"][-1].text


@AWAITED
async def test_the_memory_search_of_one_agent_is_that_of_the_user(retriever, awaited):
    for filter_, named in ((of_user, "context"), (of_config, "config")):
        agent = create_agent(
            CallsTools(), [create_memory_search_tool(retriever, filter=filter_)], context_schema=Context
        )
        for user, own, other in (("ada", "red", "blue"), ("bob", "blue", "red")):
            given = {"context": {"user": user}} if named == "context" else {"config": {"configurable": {"user": user}}}
            found = await call(agent, awaited, "memory_search", {"query": "Which diary?"}, **given)
            assert own in found
            assert other not in found


UNKNOWN = [{}, {"context": {}}, {"context": {"user": None}}, {"context": {"user": " "}}]


@pytest.mark.parametrize("request_without_user", UNKNOWN)
@AWAITED
async def test_without_a_user_a_tool_ends_the_run(retriever, request_without_user, awaited):
    agent = create_agent(CallsTools(), [create_memory_search_tool(retriever, filter=of_user)], context_schema=Context)
    with pytest.raises(InputError, match=r"the function for filter of the memory search tool .*names the user"):
        await call(agent, awaited, "memory_search", {"query": "diary"}, **request_without_user)


@AWAITED
async def test_the_middleware_may_read_the_config(retriever, awaited):
    class Sees(CallsTools):
        def _generate(self, messages, *given, **settings):
            text = "".join(message.text for message in messages if message.type == "system")
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I read: {text}"))])

    agent = create_agent(Sees(), middleware=[RetrieveMiddleware(retriever, filter=of_config)])
    given = {"messages": [("user", "What colour is the diary?")]}
    state = await run(agent, given, awaited, config={"configurable": {"user": "bob"}})
    assert "blue" in state["messages"][-1].text
    assert "red" not in state["messages"][-1].text
    with pytest.raises(InputError, match="the function for filter of RetrieveMiddleware failed with KeyError"):
        await run(agent, given, awaited)
