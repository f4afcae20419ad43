"""One agent of LlamaIndex with a long-term memory for each user, with a scripted model."""

from __future__ import annotations

import gc
import json
import warnings

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import Memory
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.workflow import Context
from llama_support import Hashed, Scripted

from graphrag_core.errors import InputError
from llama_graphrag import GraphRAGMemoryBlock, GraphRAGRetriever, memory_search_tool, memory_tools


@pytest.fixture(autouse=True)
def connections():
    """Collect the SQLite connections that LlamaIndex's ``Memory`` leaves open, before they warn in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def own_block(user: str, retriever: GraphRAGRetriever) -> GraphRAGMemoryBlock:
    filters = MetadataFilters(filters=[MetadataFilter(key="user", value=user)])
    return GraphRAGMemoryBlock(retriever=retriever.with_filters(filters), metadata={"user": user})


def session_of(user: str, block: GraphRAGMemoryBlock) -> Memory:
    """Return a new session of a user. Its short-term memory holds the newest messages only."""
    sizes = {"token_limit": 2_000, "chat_history_token_ratio": 0.015, "token_flush_size": 10}
    return Memory.from_defaults(session_id=user, memory_blocks=[block], **sizes)


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("nodes", [[], [TextNode(id_="handbook", text="The handbook has no owner.")]])
@pytest.mark.parametrize("is_shared", [False, True])
async def test_one_agent_has_a_memory_for_each_of_two_users(nodes, is_shared):
    with GraphRAGRetriever.from_nodes(nodes, Hashed()) as retriever:
        agent = FunctionAgent(llm=Scripted(), tools=[])
        shared = GraphRAGMemoryBlock(retriever=retriever, metadata=lambda session_id: {"user": session_id})

        def memory_of(user: str) -> Memory:
            return session_of(user, shared if is_shared else own_block(user, retriever))

        for user, message in (
            ("ada", "I am Ada, and the project that I work on since Monday is called Lighthouse."),
            ("bob", "What is the name of the project that I work on, please?"),
            ("ada", "What is the name of the project that I work on, please?"),
            ("bob", "I am Bob, and the project that I work on since Friday is called Breakwater."),
            ("ada", "What is the name of the project that I work on, please?"),
            ("bob", "What is the name of the project that I work on, please?"),
        ):
            session = memory_of(user)
            await agent.run(message, memory=session)
            await session.aput(ChatMessage("That was all for today, thank you very much and goodbye.", role="user"))
            await session.sql_store._async_engine.dispose()
        asked = [[name for name in ("Lighthouse", "Breakwater") if name in str(seen)] for seen in agent.llm.seen]
        assert asked == [["Lighthouse"], [], ["Lighthouse"], ["Breakwater"], ["Lighthouse"], ["Breakwater"]]
        for user, name in (("ada", "Lighthouse"), ("bob", "Breakwater")):
            retriever.delete_nodes(retriever.index.document_ids({"user": user}))
            session = memory_of(user)
            await agent.run("What is the name of the project that I work on, please?", memory=session)
            await session.sql_store._async_engine.dispose()
            assert name not in str(agent.llm.seen[-1])


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
async def test_the_memory_tools_of_one_agent_are_those_of_the_user(diaries):
    agent = FunctionAgent(llm=CallsTools(), tools=memory_tools(diaries, metadata=of_state, where=of_state))
    ids = {}
    for user, drink in (("ada", "Tea"), ("bob", "Coffee")):
        fact = {"subject": "User", "relation": "prefers", "object": drink}
        ids[user] = (await call(agent, "memory_remember", fact, user=user)).rpartition("(")[2].rstrip(")")
    for user, own, other in (("ada", ("Tea", "red"), ("Coffee", "blue")), ("bob", ("Coffee", "blue"), ("Tea", "red"))):
        found = await call(agent, "memory_search", {"query": "What does User prefer, and which diary?"}, user=user)
        assert all(word in found for word in own), found
        assert not any(word in found for word in other), found
    assert "there is no fact" in await call(agent, "memory_forget", {"fact_id": ids["bob"]}, user="ada")
    assert "Confirmed" in await call(agent, "memory_confirm", {"fact_id": ids["bob"]}, user="bob")


@ignores_warnings_of_workflows
@pytest.mark.parametrize("state", [{}, {"user": None}, {"user": ""}])
async def test_without_a_user_a_tool_answers_with_an_error(diaries, state):
    agent = FunctionAgent(llm=CallsTools(), tools=memory_tools(diaries, metadata=of_state))
    for name, arguments in (
        ("memory_search", {"query": "diary", "ctx": {"user": "ada"}}),
        ("memory_remember", {"subject": "User", "relation": "likes", "object": "Tea"}),
    ):
        answer = await call(agent, name, arguments, **state)
        assert "the function for metadata of the memory tools" in answer
        assert "diary." not in answer
    assert len(diaries.index) == 2


async def test_a_tool_of_one_user_needs_the_context_of_a_run(diaries):
    search, remember, *_ = memory_tools(diaries, metadata={"user": "ada"}, where=of_state)
    assert "ctx" not in search.metadata.get_parameters_dict()["properties"]
    for tool in (search, memory_search_tool(diaries, where=of_state)):
        for given in ({}, {"ctx": {"user": "ada"}}):
            with pytest.raises(ValueError, match=r"Context is required|call it in an agent"):
                await tool.acall(query="diary", **given)
    assert "Remembered" in str(remember.call(subject="User", relation="likes", object="Tea"))


@pytest.mark.parametrize("users", [{}, {"1": None}, {"1": ""}])
async def test_a_block_refuses_a_session_without_a_user(diaries, users):
    block = GraphRAGMemoryBlock(retriever=diaries, metadata=lambda session_id: {"user": users[session_id]})
    message = ChatMessage("I keep a green diary.", role="user")
    for session in ("1", None):
        with pytest.raises(InputError, match=r"the function for .* of GraphRAGMemoryBlock .*names the user"):
            await block.aget([message], session_id=session)
        with pytest.raises(InputError, match="the function for metadata of GraphRAGMemoryBlock"):
            await block.aput([message], session_id=session)
    assert len(diaries.index) == 2


async def test_the_filter_of_a_block_may_be_wider_than_its_metadata(diaries):
    block = GraphRAGMemoryBlock(
        retriever=diaries,
        metadata=lambda session_id: {"user": session_id},
        where=lambda session_id: {"user": {"in": [session_id, "bob"]}},
    )
    await block.aput([ChatMessage("I keep a green diary.", role="user")], session_id="cyd")
    found = await block.aget([ChatMessage("Which diary?", role="user")], session_id="cyd")
    assert "green" in found
    assert "blue" in found
    assert "red" not in found
