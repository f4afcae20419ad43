"""One agent of LlamaIndex with a long-term memory for each user, with a scripted model."""

from __future__ import annotations

import gc
import warnings

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_support import Hashed, Scripted

from llama_graphrag import GraphRAGMemoryBlock, GraphRAGRetriever


@pytest.fixture(autouse=True)
def connections():
    """Collect the SQLite connections that LlamaIndex's ``Memory`` leaves open, before they warn in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def memory_of(user: str, retriever: GraphRAGRetriever) -> Memory:
    """Return a new session of a user. Its short-term memory holds the newest messages only."""
    filters = MetadataFilters(filters=[MetadataFilter(key="user", value=user)])
    block = GraphRAGMemoryBlock(retriever=retriever.with_filters(filters), metadata={"user": user})
    sizes = {"token_limit": 2_000, "chat_history_token_ratio": 0.015, "token_flush_size": 10}
    return Memory.from_defaults(session_id=user, memory_blocks=[block], **sizes)


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("nodes", [[], [TextNode(id_="handbook", text="The handbook has no owner.")]])
async def test_one_agent_has_a_memory_for_each_of_two_users(nodes):
    with GraphRAGRetriever.from_nodes(nodes, Hashed()) as retriever:
        agent = FunctionAgent(llm=Scripted(), tools=[])
        for user, message in (
            ("ada", "I am Ada, and the project that I work on since Monday is called Lighthouse."),
            ("bob", "What is the name of the project that I work on, please?"),
            ("ada", "What is the name of the project that I work on, please?"),
            ("bob", "I am Bob, and the project that I work on since Friday is called Breakwater."),
            ("ada", "What is the name of the project that I work on, please?"),
            ("bob", "What is the name of the project that I work on, please?"),
        ):
            session = memory_of(user, retriever)
            await agent.run(message, memory=session)
            await session.aput(ChatMessage("That was all for today, thank you very much and goodbye.", role="user"))
            await session.sql_store._async_engine.dispose()
        asked = [[name for name in ("Lighthouse", "Breakwater") if name in str(seen)] for seen in agent.llm.seen]
        assert asked == [["Lighthouse"], [], ["Lighthouse"], ["Breakwater"], ["Lighthouse"], ["Breakwater"]]
        for user, name in (("ada", "Lighthouse"), ("bob", "Breakwater")):
            retriever.delete_nodes(retriever.index.document_ids({"user": user}))
            session = memory_of(user, retriever)
            await agent.run("What is the name of the project that I work on, please?", memory=session)
            await session.sql_store._async_engine.dispose()
            assert name not in str(agent.llm.seen[-1])
