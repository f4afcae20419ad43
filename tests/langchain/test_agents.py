"""Middleware of agents, with LangChain's own agents and a scripted model."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever
from langchain_graphrag.agents import RememberMiddleware, RetrieveMiddleware

TEXTS = ["The Auth Service delegates to the OAuth Provider.", "The OAuth Provider has a secret door."]
QUESTION = "What does the Auth Service delegate to?"


class Scripted(GenericFakeChatModel):
    seen: list = []  # noqa: RUF012 - a field of pydantic

    def _generate(self, messages, *given, **settings):
        self.seen.append(messages)
        return super()._generate(messages, *given, **settings)


@pytest.fixture
def retriever():
    owners = [{"user": "ada"}, {"user": "bo"}]
    with GraphRAGRetriever.from_texts(TEXTS, HashEmbedder(), owners, ["a", "b"], filter={"user": "ada"}) as retriever:
        yield retriever


@pytest.mark.parametrize("awaited", [False, True])
async def test_an_agent_gets_passages_and_remembers_the_turn(retriever, awaited):
    model = Scripted(messages=iter([AIMessage("To the OAuth Provider."), AIMessage("I said so.")]), seen=[])
    layers = [RetrieveMiddleware(retriever), RememberMiddleware(retriever, metadata={"user": "ada"})]
    agent = create_agent(model, system_prompt="Be brief.", middleware=layers)
    for question in (QUESTION, "To what did you say it delegates?"):
        given = {"messages": [("user", question)]}
        state = await agent.ainvoke(given) if awaited else agent.invoke(given)
        assert len(state["messages"]) == 2, "passages are not among the messages of the agent"
    first, second = (messages[0].text for messages in model.seen)
    assert first.startswith("Be brief.")
    assert TEXTS[0] in first
    assert "Answer: To the OAuth Provider." in second, "the turn before"
    assert "secret" not in first + second
    assert len(retriever.index) == 4


def test_nothing_is_added_if_nothing_is_found_or_said(retriever):
    model = Scripted(messages=iter([AIMessage("")]), seen=[])
    layers = [RetrieveMiddleware(retriever, filter={"user": "bo"}), RememberMiddleware(retriever)]
    create_agent(model, middleware=layers).invoke({"messages": [("user", QUESTION)]})
    assert [message.type for message in model.seen[0]] == ["human"]
    assert len(retriever.index) == 2
