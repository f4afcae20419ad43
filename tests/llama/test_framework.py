"""The retriever in LlamaIndex's query engines, fusion, routers and agents."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, RecursiveRetriever, RouterRetriever
from llama_index.core.schema import TextNode
from llama_index.core.selectors import EmbeddingSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import RetrieverTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_support import QUESTION, ids

from graphrag_core.errors import InputError
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


def test_recursion_goes_through_it(retriever):
    recursive = RecursiveRetriever("graph", {"graph": retriever})
    assert ids(recursive.retrieve(QUESTION)) == ids(retriever.retrieve(QUESTION))


def test_a_retriever_tool_offers_it(retriever):
    tool = RetrieverTool.from_defaults(retriever)
    assert "Tallinn" in tool.call(QUESTION).content


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


class Thinks(MockLLM):
    """Writes a thought and an action, then an answer."""

    def chat(self, messages, **kwargs):
        seen = "".join(str(message.content) for message in messages)
        if "Observation:" in seen.split(QUESTION, 1)[-1]:
            text = f"Thought: I can answer.\nAnswer: {'Tallinn' if 'Tallinn' in seen else 'unknown'}"
        else:
            text = f"Thought: I must look.\nAction: memory_search\nAction Input: {json.dumps({'query': QUESTION})}"
        return ChatResponse(message=ChatMessage(role="assistant", content=text), delta=text)

    async def astream_chat(self, messages, **kwargs):
        async def gen():
            yield self.chat(messages)

        return gen()


@quiet
def test_a_reasoning_agent_searches_memory(retriever):
    agent = ReActAgent(tools=[memory_search_tool(retriever)], llm=Thinks())
    answer, (call,) = asyncio.run(run(agent, QUESTION))
    assert answer == "Tallinn"
    assert not call.tool_output.is_error


def test_the_description_of_the_tool_is_short_enough_for_openai(retriever):
    tool = memory_search_tool(retriever)
    assert len(tool.metadata.to_openai_tool()["function"]["description"]) < 1024


@quiet
def test_a_wrong_question_is_told_to_the_agent(retriever):
    llm = Calls(arguments={"query": "", "max_results": 3})
    agent = FunctionAgent(tools=[memory_search_tool(retriever)], llm=llm)
    _, (call,) = asyncio.run(run(agent, QUESTION))
    assert call.tool_output.content == "Nothing was found. The question is empty: ask in words."
    with pytest.raises(InputError):
        memory_search_tool(retriever).call(query="x" * 100_001)


def test_a_similarity_cutoff_can_leave_nothing(retriever):
    from llama_index.core.postprocessor import SimilarityPostprocessor

    cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
    unrelated = "What is the capital of Mongolia?"
    assert retriever.retrieve(unrelated)
    assert cutoff.postprocess_nodes(retriever.retrieve(unrelated)) == []
    assert cutoff.postprocess_nodes(retriever.retrieve("What does the Auth Service delegate to?"))
    assert not retriever.search(unrelated, score_threshold=0.5).hits


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


def test_merging_goes_from_its_leaves_to_their_parents(model):
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[512, 128, 64], chunk_overlap=0)
    nodes = parser.get_nodes_from_documents([Document(id_="a", text=ENGINE)])
    context = StorageContext.from_defaults()
    context.docstore.add_documents(nodes)
    leaves = GraphRAGRetriever.from_nodes(get_leaf_nodes(nodes), model, similarity_top_k=8)
    merging = AutoMergingRetriever(leaves, context)
    for found in (merging.retrieve("Analytical Engine"), asyncio.run(merging.aretrieve("Analytical Engine"))):
        assert {one.node_id for one in found} - {node.node_id for node in get_leaf_nodes(nodes)}


def test_a_sentence_is_replaced_by_its_window(model):
    parser = SentenceWindowNodeParser.from_defaults(window_size=2)
    nodes = parser.get_nodes_from_documents([Document(id_="a", text=ENGINE)])
    retriever = GraphRAGRetriever.from_nodes(nodes, model, similarity_top_k=1)
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    (found,) = retriever.as_query_engine(MockLLM(), node_postprocessors=[window]).query("note 7").source_nodes
    assert found.node.get_content() == found.metadata["window"]
    assert found.node.get_content().count("Ada Lovelace") == 5
    assert all("window" not in text for text in model.texts), "the window is hidden from the embedding"


def test_filters_nest_with_or_and_not(retriever):
    either = MetadataFilters(
        condition="or",
        filters=[
            MetadataFilters(
                filters=[
                    MetadataFilter(key="tenant", value="acme"),
                    MetadataFilter(key="year", operator=">", value=2019),
                ]
            ),
            MetadataFilters(condition="not", filters=[MetadataFilter(key="tenant", value="acme")]),
        ],
    )
    retriever = GraphRAGRetriever(retriever.index, filters=either)
    found = retriever.retrieve(QUESTION)
    assert {(one.metadata["tenant"], one.metadata["year"] > 2019) for one in found} == {
        ("acme", True),
        ("umbrella", True),
    }
    assert "auth" not in ids(found)


def test_found_nodes_can_be_pickled_and_copied(retriever):
    found = retriever.retrieve(QUESTION)
    assert pickle.loads(pickle.dumps(found)) == found
    copies = copy.deepcopy(found)
    assert [one.node.hash for one in copies] == [one.node.hash for one in found]
    assert [TextNode.from_json(one.node.to_json()).node_id for one in found] == ids(found)
