"""The retriever in LlamaIndex's query engines, fusion, routers and agents."""

from __future__ import annotations

import asyncio
import json

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.node_parser import (
    SentenceSplitter,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, RouterRetriever
from llama_index.core.selectors import EmbeddingSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import RetrieverTool
from llama_support import QUESTION, ids

from llama_graphrag import GraphRAGRetriever, memory_search_tool


def test_a_query_engine_answers_from_it(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    for response in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert "keyring" in ids(response.source_nodes)
        assert "Keyring is a company from Tallinn." in str(response)
        assert "graphrag" not in str(response), "the report is not for the model"


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "simple"])
def test_fusion_takes_it_beside_another_and_knows_their_nodes_for_the_same(nodes, model, mode):
    index = VectorStoreIndex(nodes, embed_model=model)
    both = [GraphRAGRetriever.from_index(index), index.as_retriever(similarity_top_k=5)]
    before = both[0].retrieve(QUESTION)[0].score
    fusion = QueryFusionRetriever(both, llm=MockLLM(), num_queries=1, mode=mode, similarity_top_k=5, use_async=False)
    for found in (fusion.retrieve(QUESTION), asyncio.run(fusion.aretrieve(QUESTION))):
        assert sorted(ids(found)) == ["auth", "keyring", "lunch", "oauth", "secret"]
        assert found[0].node_id == "auth"
    assert both[0].retrieve(QUESTION)[0].score == before, "fusion writes scores into its own answers"


def test_routing_chooses_it(retriever, model):
    retriever = GraphRAGRetriever(retriever.index, add_metadata=["graphrag"])
    other = GraphRAGRetriever(retriever.index, method="keyword")
    tools = [
        RetrieverTool.from_defaults(retriever, name="graph", description="services vendors dependencies"),
        RetrieverTool.from_defaults(other, name="words", description="exact words"),
    ]
    router = RouterRetriever(EmbeddingSingleSelector.from_defaults(embed_model=model), tools, llm=MockLLM())
    found = router.retrieve("services vendors dependencies of the Auth Service")
    assert found[0].metadata["graphrag"]["method"] == "hybrid"
    assert asyncio.run(router.aretrieve("exact words"))[0:1] == router.retrieve("exact words")[0:1]


# LlamaIndex's agents use deprecated parts of LlamaIndex.
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Calls(FunctionCallingLLM):
    """Calls the first tool once with fixed arguments, then repeats its output."""

    arguments: dict

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **kwargs):
        messages = [*(chat_history or []), *([user_msg] if user_msg else [])]
        return {"messages": messages, "tools": [tool.metadata.name for tool in tools]}

    def chat(self, messages, tools=(), **kwargs):
        said = [message for message in messages if message.role == "tool"]
        if said:
            return ChatResponse(message=ChatMessage(role="assistant", content=f"It said: {said[-1].content}"))
        message = ChatMessage(role="assistant", content="", additional_kwargs={"tool": next(iter(tools))})
        return ChatResponse(message=message)

    async def achat(self, messages, **kwargs):
        return self.chat(messages, **kwargs)

    async def astream_chat(self, messages, **kwargs):
        async def gen():
            yield self.chat(messages, **kwargs)

        return gen()

    async def astream_chat_with_tools(self, tools, chat_history=None, **kwargs):
        return await self.astream_chat(chat_history, tools=[tool.metadata.name for tool in tools])

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **kwargs):
        name = response.message.additional_kwargs.get("tool")
        return [ToolSelection(tool_id="1", tool_name=name, tool_kwargs=self.arguments)] if name else []

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text="")

    stream_complete = stream_chat = acomplete = astream_complete = complete


async def run(agent, question):
    handler = agent.run(question)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    return str(await handler), results


@quiet
def test_a_function_calling_agent_searches_memory(retriever):
    llm = Calls(arguments={"query": QUESTION, "max_results": 3})
    agent = FunctionAgent(tools=[memory_search_tool(retriever)], llm=llm, streaming=True)
    answer, (call,) = asyncio.run(run(agent, QUESTION))
    assert "Keyring is a company from Tallinn." in answer
    assert call.tool_name == "memory_search"
    assert ids(call.tool_output.raw_output) == ids(retriever.retrieve(QUESTION))[:3]
    json.loads(call.model_dump_json())


# -- the rest of the framework around it

ENGINE = "# Ada\n\n" + " ".join(f"Ada Lovelace wrote note {i} about the Analytical Engine." for i in range(40))


@pytest.mark.filterwarnings("ignore:docstore_strategy")  # without a vector store it only leaves out known documents
def test_an_ingestion_pipeline_with_a_docstore_feeds_it(model):
    """The pipeline returns the nodes of new and changed documents; ``drop_stale`` removes their old nodes."""
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=60, chunk_overlap=0), model],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
    )
    retriever = GraphRAGRetriever.from_nodes(
        pipeline.run(documents=[Document(id_="a", text=ENGINE), Document(id_="b", text="Babbage lived in London.")]),
        model,
    )
    before = len(retriever.index)
    model.asked.clear()
    changed = [Document(id_="a", text=ENGINE), Document(id_="b", text="Babbage lived in Devon.")]
    nodes = pipeline.run(documents=changed)
    retriever.insert_nodes(nodes)
    assert retriever.drop_stale(nodes) == 1
    assert len(retriever.index) == before
    assert model.texts == ["Babbage lived in Devon."], "embedded by the pipeline, once"
    assert retriever.refresh_ref_docs(changed) == [False, False]
