"""Agents of LlamaIndex with a scripted model: one for all users, too."""

from __future__ import annotations

import gc
import json
import warnings

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import TextNode
from llama_index.core.workflow import Context
from llama_support import Hashed, Scripted

from llama_graphrag import GraphRAGRetriever, memory_search_tool


@pytest.fixture(autouse=True)
def connections():
    """Collect the SQLite connections that LlamaIndex's ``Memory`` leaves open, before they warn in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


class CallsTools(Scripted):
    """Calls the tool that the user names, with the arguments that the user names, and repeats its answer."""

    def respond(self, messages):
        self.seen.append(list(messages))
        return ChatResponse(message=ChatMessage(messages[-1].content, role="assistant"))

    def get_tool_calls_from_response(self, response, **_):
        if self.seen[-1][-1].role != "user":
            return []
        name, arguments = json.loads(self.seen[-1][-1].content)
        return [ToolSelection(tool_id="1", tool_name=name, tool_kwargs=arguments)]


@pytest.fixture
def diaries():
    texts = {"ada": "Ada keeps a red diary.", "bob": "Bob keeps a blue diary."}
    nodes = [TextNode(id_=user, text=text, metadata={"user": user}) for user, text in texts.items()]
    with GraphRAGRetriever.from_nodes(nodes, Hashed()) as retriever:
        yield retriever


def of_state(state):
    return {"user": state["user"]}


async def call(agent, name, arguments, **state):
    """Return what the agent answers after a call of a tool, with the state of a run."""
    context = Context(agent)
    for key, value in state.items():
        await context.store.set(key, value)
    return str(await agent.run(json.dumps([name, arguments]), ctx=context))


ignores_warnings_of_workflows = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@ignores_warnings_of_workflows
async def test_an_agent_gets_the_context_and_its_caller_the_nodes(diaries):
    agent = FunctionAgent(llm=CallsTools(), tools=[memory_search_tool(diaries)])
    run = agent.run(json.dumps(["memory_search", {"query": "Which diary is red?", "max_results": 1}]))
    (called,) = [event async for event in run.stream_events() if isinstance(event, ToolCallResult)]
    assert "Ada keeps a red diary." in str(await run)
    assert [one.node_id for one in called.tool_output.raw_output] == ["ada"]
    json.loads(called.model_dump_json())


@ignores_warnings_of_workflows
async def test_the_memory_search_of_one_agent_is_that_of_the_user(diaries):
    agent = FunctionAgent(llm=CallsTools(), tools=[memory_search_tool(diaries, where=of_state)])
    for user, own, other in (("ada", "red", "blue"), ("bob", "blue", "red")):
        found = await call(agent, "memory_search", {"query": "Which diary?"}, user=user)
        assert own in found
        assert other not in found


@ignores_warnings_of_workflows
@pytest.mark.parametrize("state", [{}, {"user": None}, {"user": ""}])
async def test_without_a_user_the_tool_answers_with_an_error(diaries, state):
    agent = FunctionAgent(llm=CallsTools(), tools=[memory_search_tool(diaries, where=of_state)])
    answer = await call(agent, "memory_search", {"query": "diary", "ctx": {"user": "ada"}}, **state)
    assert "the function for filter of the memory search tool" in answer
    assert "diary." not in answer


async def test_a_tool_of_one_user_needs_the_context_of_a_run(diaries):
    tool = memory_search_tool(diaries, where=of_state)
    assert "ctx" not in tool.metadata.get_parameters_dict()["properties"]
    for given in ({}, {"ctx": {"user": "ada"}}, {"state": {"user": "ada"}}):
        with pytest.raises(ValueError, match=r"Context is required|call it in an agent"):
            await tool.acall(query="diary", **given)
