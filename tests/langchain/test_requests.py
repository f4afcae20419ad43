"""One agent or graph for all users: filters and metadata that are functions of the request."""

from __future__ import annotations

import json
import sys
from typing import TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool, create_memory_tools
from langchain_graphrag.agents import RememberMiddleware, RetrieveMiddleware
from langchain_graphrag.store import GraphRAGStore

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
    texts, owners = ["Ada keeps a red diary.", "Bob keeps a blue diary."], [{"user": "ada"}, {"user": "bob"}]
    with GraphRAGRetriever.from_texts(texts, HashEmbedder(), owners) as retriever:
        yield retriever


async def run(graph, given, awaited, **settings):
    return await graph.ainvoke(given, **settings) if awaited else graph.invoke(given, **settings)


async def call(agent, awaited, name, arguments, **settings):
    given = {"messages": [("user", json.dumps([name, arguments]))]}
    return (await run(agent, given, awaited, **settings))["messages"][-1].text


@AWAITED
async def test_the_memory_tools_of_one_agent_are_those_of_the_user(retriever, awaited):
    tools = create_memory_tools(retriever, metadata=of_user, filter=of_user)
    agent = create_agent(CallsTools(), tools, context_schema=Context)
    ids = {}
    for user, drink in (("ada", "Tea"), ("bob", "Coffee")):
        fact = {"subject": "User", "relation": "prefers", "object": drink}
        told = await call(agent, awaited, "memory_remember", fact, context={"user": user})
        ids[user] = told.rpartition("(")[2].rstrip(")")
    for user, own, other in (("ada", ("Tea", "red"), ("Coffee", "blue")), ("bob", ("Coffee", "blue"), ("Tea", "red"))):
        found = await call(
            agent, awaited, "memory_search", {"query": "What does User prefer and which diary?"}, context={"user": user}
        )
        assert all(word in found for word in own), found
        assert not any(word in found for word in other), found
    answer = await call(agent, awaited, "memory_forget", {"fact_id": ids["bob"]}, context={"user": "ada"})
    assert "there is no fact" in answer
    assert "Confirmed" in await call(agent, awaited, "memory_confirm", {"fact_id": ids["bob"]}, context={"user": "bob"})


@AWAITED
async def test_documents_are_shared_unless_a_filter_names_the_user(retriever, awaited):
    search, *_ = create_memory_tools(retriever, metadata=of_config)
    config = {"configurable": {"user": "ada"}}
    found = await search.ainvoke({"query": "diary"}, config) if awaited else search.invoke({"query": "diary"}, config)
    assert "blue" in found
    own = create_memory_search_tool(retriever, filter=of_config)
    found = await own.ainvoke({"query": "diary"}, config) if awaited else own.invoke({"query": "diary"}, config)
    assert "red" in found
    assert "blue" not in found


UNKNOWN = [{}, {"context": {}}, {"context": {"user": None}}, {"context": {"user": " "}}]


@pytest.mark.parametrize("request_without_user", UNKNOWN)
@AWAITED
async def test_without_a_user_a_tool_ends_the_run(retriever, request_without_user, awaited):
    tools = create_memory_tools(retriever, metadata=of_user, filter={"team": "a"})
    agent = create_agent(CallsTools(), [*tools], context_schema=Context)
    for name, arguments in (
        ("memory_search", {"query": "diary"}),
        ("memory_remember", {"subject": "User", "relation": "likes", "object": "Tea"}),
        ("memory_forget", {"fact_id": "fact:0123456789abcdef"}),
    ):
        with pytest.raises(InputError, match=r"the function for metadata of the memory tools .*names the user"):
            await call(agent, awaited, name, arguments, **request_without_user)
    assert len(retriever.index) == 2


class State(TypedDict, total=False):
    do: str
    found: list


def graph_with(store, awaited):
    """Return a graph with one node, which writes an item of the store or reads all of them."""

    def node(state: State, runtime: Runtime[Context]):
        if state["do"] != "read":
            runtime.store.put(("notes",), "1", {"text": state["do"]})
            return {}
        found = [*runtime.store.search(("notes",)), *runtime.store.search((), query="note")]
        one = runtime.store.get(("notes",), "1")
        return {"found": [item.value["text"] for item in (*found, *filter(None, [one]))]}

    async def anode(state: State, runtime: Runtime[Context]):
        if state["do"] != "read":
            await runtime.store.aput(("notes",), "1", {"text": state["do"]})
            return {}
        found = [*await runtime.store.asearch(("notes",)), *await runtime.store.asearch((), query="note")]
        one = await runtime.store.aget(("notes",), "1")
        return {"found": [item.value["text"] for item in (*found, *filter(None, [one]))]}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("node", anode if awaited else node)
    graph.add_edge(START, "node")
    return graph.compile(store=store)


@pytest.mark.parametrize("named_by", ["context", "config"])
@AWAITED
async def test_one_store_has_the_items_of_each_user(retriever, named_by, awaited):
    store = GraphRAGStore(retriever, metadata=of_user if named_by == "context" else of_config)
    graph = graph_with(store, awaited)

    def named(user):
        return {"context": {"user": user}} if named_by == "context" else {"config": {"configurable": {"user": user}}}

    for user in ("ada", "bob"):
        assert (await run(graph, {"do": "read"}, awaited, **named(user)))["found"] == []
        await run(graph, {"do": f"A note of {user}."}, awaited, **named(user))
    for user in ("ada", "bob"):
        found = (await run(graph, {"do": "read"}, awaited, **named(user)))["found"]
        assert found == [f"A note of {user}."] * 3, "listed, searched and by key"
    assert len(retriever.index) == 4


@pytest.mark.parametrize("request_without_user", UNKNOWN)
@AWAITED
async def test_without_a_user_a_store_is_neither_read_nor_written(retriever, request_without_user, awaited):
    graph = graph_with(GraphRAGStore(retriever, metadata=of_user), awaited)
    for do in ("read", "A note."):
        with pytest.raises(InputError, match=r"the function for .* of GraphRAGStore .*names the user"):
            await run(graph, {"do": do}, awaited, **request_without_user)
    assert len(retriever.index) == 2


def test_outside_of_a_run_there_is_no_user(retriever):
    for store in (GraphRAGStore(retriever, metadata=of_user), GraphRAGStore(retriever, filter=of_config)):
        with pytest.raises(InputError, match="the function for filter of GraphRAGStore failed"):
            store.search(("notes",))
        with pytest.raises(InputError, match="of GraphRAGStore failed"):
            store.put(("notes",), "1", {"text": "A note."})
    assert len(retriever.index) == 2


def test_the_filter_of_a_store_may_be_wider_than_its_metadata(retriever):
    shared = {"user": {"in": ["ada", "all"]}}
    for user in ("ada", "bob", "all"):
        GraphRAGStore(retriever, metadata={"user": user}).put(("notes",), user, {"text": f"A note of {user}."})
    store = GraphRAGStore(retriever, metadata=of_config, filter=lambda _: shared)
    graph = graph_with(store, awaited=False)
    found = graph.invoke({"do": "read"}, {"configurable": {"user": "ada"}})["found"]
    assert set(found) == {"A note of ada.", "A note of all."}


@AWAITED
async def test_the_middlewares_may_read_the_config(retriever, awaited):
    class Sees(CallsTools):
        def _generate(self, messages, *given, **settings):
            text = "".join(message.text for message in messages if message.type == "system")
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I read: {text}"))])

    layers = [RetrieveMiddleware(retriever, filter=of_config), RememberMiddleware(retriever, metadata=of_config)]
    agent = create_agent(Sees(), middleware=layers)
    given = {"messages": [("user", "What colour is the diary?")]}
    state = await run(agent, given, awaited, config={"configurable": {"user": "bob"}})
    assert "blue" in state["messages"][-1].text
    assert "red" not in state["messages"][-1].text
    assert len(retriever.index.document_ids({"user": "bob"})) == 2
    with pytest.raises(InputError, match="the function for filter of RetrieveMiddleware failed with KeyError"):
        await run(agent, given, awaited)
