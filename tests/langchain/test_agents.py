"""Middleware of agents, with LangChain's own agents and a scripted model."""

from __future__ import annotations

import sys

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

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


async def test_the_memory_search_is_traced_with_the_search_inside(retriever):
    tool = create_memory_search_tool(retriever)

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
            tool.invoke({"name": tool.name, "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}, config)
        else:
            await tool.ainvoke({"name": tool.name, "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}, config)
        assert listens.searches == [(listens.tools[0], ["call"])]
