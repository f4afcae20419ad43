"""LangChain's own agents with a scripted model: middleware, and one agent for all users."""

from __future__ import annotations

import json
import sys
from typing import TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool
from langchain_graphrag.agents import RetrieveMiddleware

TEXTS = ["The Auth Service delegates to the OAuth Provider.", "The OAuth Provider has a secret door."]
QUESTION = "What does the Auth Service delegate to?"


class Scripted(GenericFakeChatModel):
    seen: list = []  # noqa: RUF012 - a field of pydantic

    def _generate(self, messages, *given, **settings):
        self.seen.append(messages)
        return super()._generate(messages, *given, **settings)


@pytest.fixture
def retriever():
    owned = [("a", "ada", TEXTS[0]), ("b", "bo", TEXTS[1])]
    documents = [Document(text, id=name, metadata={"user": user}) for name, user, text in owned]
    with GraphRAGRetriever.from_documents(documents, HashEmbedder(), filter={"user": "ada"}) as retriever:
        yield retriever


@pytest.mark.parametrize("awaited", [False, True])
async def test_an_agent_gets_passages(retriever, awaited):
    model = Scripted(messages=iter([AIMessage("To the OAuth Provider."), AIMessage("I said so.")]), seen=[])
    agent = create_agent(model, system_prompt="Be brief.", middleware=[RetrieveMiddleware(retriever)])
    for question in (QUESTION, "To what did you say it delegates?"):
        given = {"messages": [("user", question)]}
        state = await agent.ainvoke(given) if awaited else agent.invoke(given)
        assert len(state["messages"]) == 2, "passages are not among the messages of the agent"
    first, second = (messages[0].text for messages in model.seen)
    assert first.startswith("Be brief.")
    assert TEXTS[0] in first
    assert "secret" not in first + second


async def call(agent, question, awaited, **settings):
    """Return the last message of an agent's answer."""
    given = {"messages": [("user", question)]}
    state = await agent.ainvoke(given, **settings) if awaited else agent.invoke(given, **settings)
    return state["messages"][-1].text


class Runs(BaseCallbackHandler):
    def __init__(self):
        self.started, self.found = [], []

    def on_retriever_start(self, serialized, query, *, parent_run_id=None, tags=None, **given):
        self.started.append((query, parent_run_id is not None, tags))

    def on_retriever_end(self, documents, **given):
        self.found.append([document.id for document in documents])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="LangChain passes no callbacks to tasks before Python 3.11")
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_tracer_sees_what_was_retrieved(retriever, awaited):
    runs, tagged = Runs(), retriever.model_copy(update={"tags": ["handbook"]})
    model = Scripted(messages=iter([AIMessage("Yes.")]), seen=[])
    agent = create_agent(model, middleware=[RetrieveMiddleware(tagged)])
    await call(agent, QUESTION, awaited, config={"callbacks": [runs], "tags": ["request"]})
    ((query, has_parent, tags),) = runs.started
    assert (query, has_parent, {"handbook", "request"} <= set(tags)) == (QUESTION, True, True)
    assert runs.found == [["a"]]


@pytest.mark.parametrize("awaited", [False, True])
async def test_the_messages_before_the_last_question_are_the_history_of_the_retriever(awaited):
    noise = [f"An owner of things, number {at}, owns what it owns." for at in range(12)]
    texts = ["The Tariff Engine is owned by Tomas Vael.", "The Quay Planner is owned by Rosa Millan.", *noise]
    with GraphRAGRetriever.from_documents([Document(text) for text in texts], HashEmbedder(), k=1) as retriever:
        model = Scripted(messages=iter([AIMessage("Tomas Vael does.")]), seen=[])
        agent = create_agent(model, middleware=[RetrieveMiddleware(retriever)])
        said = [("user", "What is the Tariff Engine?"), ("ai", "It computes prices."), ("user", "Who owns it?")]
        _ = await agent.ainvoke({"messages": said}) if awaited else agent.invoke({"messages": said})
        assert texts[0] in model.seen[0][0].text


@pytest.mark.parametrize("awaited", [False, True])
async def test_passages_that_a_message_holds_are_left_out(retriever, awaited):
    model = Scripted(messages=iter([AIMessage("Yes.")] * 2), seen=[])
    agent = create_agent(model, system_prompt="Be brief.", middleware=[RetrieveMiddleware(retriever)])
    await call(agent, f"## Source\n{TEXTS[0].replace(' ', chr(10))}\n{QUESTION}", awaited)
    assert model.seen[0][0].text == "Be brief."
    await call(agent, QUESTION, awaited)
    assert TEXTS[0] in model.seen[1][0].text


class Traced(BaseCallbackHandler):
    def __init__(self):
        self.tools, self.searches = [], []

    def on_tool_start(self, serialized, text, *, run_id, **kwargs):
        self.tools.append(run_id)

    def on_retriever_start(self, serialized, query, *, parent_run_id=None, tags=None, **kwargs):
        self.searches.append((parent_run_id, tags))


@pytest.mark.parametrize("awaited", [False, True])
async def test_the_memory_search_is_traced_with_the_search_inside(retriever, awaited):
    tool, traced = create_memory_search_tool(retriever), Traced()
    asked = {"name": tool.name, "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    config = {"callbacks": [traced], "tags": ["call"]}
    _ = await tool.ainvoke(asked, config) if awaited else tool.invoke(asked, config)
    assert traced.searches == [(traced.tools[0], ["call"])]


# -- one agent for all users: filters that are functions of the request

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
def diaries():
    texts = {"ada": "Ada keeps a red diary.", "bob": "Bob keeps a blue diary."}
    documents = [Document(text, metadata={"user": user}) for user, text in texts.items()]
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever


async def run(graph, given, awaited, **settings):
    return await graph.ainvoke(given, **settings) if awaited else graph.invoke(given, **settings)


async def call_tool(agent, awaited, name, arguments, **settings):
    given = {"messages": [("user", json.dumps([name, arguments]))]}
    return (await run(agent, given, awaited, **settings))["messages"][-1].text


@AWAITED
async def test_the_memory_search_of_one_agent_is_that_of_the_user(diaries, awaited):
    for filter_, named in ((of_user, "context"), (of_config, "config")):
        agent = create_agent(CallsTools(), [create_memory_search_tool(diaries, filter=filter_)], context_schema=Context)
        for user, own, other in (("ada", "red", "blue"), ("bob", "blue", "red")):
            given = {"context": {"user": user}} if named == "context" else {"config": {"configurable": {"user": user}}}
            found = await call_tool(agent, awaited, "memory_search", {"query": "Which diary?"}, **given)
            assert own in found
            assert other not in found


UNKNOWN = [{}, {"context": {}}, {"context": {"user": None}}, {"context": {"user": " "}}]


@pytest.mark.parametrize("request_without_user", UNKNOWN)
@AWAITED
async def test_without_a_user_a_tool_ends_the_run(diaries, request_without_user, awaited):
    agent = create_agent(CallsTools(), [create_memory_search_tool(diaries, filter=of_user)], context_schema=Context)
    with pytest.raises(InputError, match=r"the function for filter of the memory search tool .*names the user"):
        await call_tool(agent, awaited, "memory_search", {"query": "diary"}, **request_without_user)


@AWAITED
async def test_the_middleware_may_read_the_config(diaries, awaited):
    class Sees(CallsTools):
        def _generate(self, messages, *given, **settings):
            text = "".join(message.text for message in messages if message.type == "system")
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I read: {text}"))])

    agent = create_agent(Sees(), middleware=[RetrieveMiddleware(diaries, filter=of_config)])
    given = {"messages": [("user", "What colour is the diary?")]}
    state = await run(agent, given, awaited, config={"configurable": {"user": "bob"}})
    assert "blue" in state["messages"][-1].text
    assert "red" not in state["messages"][-1].text
    with pytest.raises(InputError, match="the function for filter of RetrieveMiddleware failed with KeyError"):
        await run(agent, given, awaited)
