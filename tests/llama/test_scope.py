"""Filters narrow: what a retriever with filters, or one made of it, returns or changes is within them."""

from __future__ import annotations

import copy

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.tools import RetrieverTool
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graphrag_core.errors import FilterError, InputError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, LocalEmbedding, memory_search_tool

ACME = MetadataFilter(key="tenant", value="acme")
EMPTY = MetadataFilters(filters=[])
NOTHING = MetadataFilters(filters=[], condition=FilterCondition.OR)


@pytest.fixture
def everything():
    nodes = [
        TextNode(id_=f"{tenant}-{number}", text=f"Keyring {number} of {tenant}.", metadata={"tenant": tenant})
        for tenant in ("acme", "umbrella")
        for number in range(3)
    ]
    with GraphRAGRetriever.from_nodes(nodes, HashEmbedder(), similarity_top_k=6) as retriever:
        yield retriever


def within(retriever, filters):
    return GraphRAGRetriever(retriever.index, retriever.settings, filters=filters)


def tenants(nodes):
    return {one.node.metadata["tenant"] for one in nodes}


def test_an_empty_group_never_opens_a_scope(everything):
    for condition in (FilterCondition.OR, FilterCondition.NOT):
        with pytest.raises(FilterError, match="empty group"):
            within(everything, MetadataFilters(filters=[ACME, EMPTY], condition=condition))
    either = MetadataFilters(filters=[ACME, NOTHING], condition=FilterCondition.OR)
    for filters in (MetadataFilters(filters=[ACME, EMPTY]), either):
        assert tenants(within(everything, filters).retrieve("Keyring")) == {"acme"}
    for none in (NOTHING, MetadataFilters(filters=[ACME, NOTHING])):
        assert within(everything, none).retrieve("Keyring") == []
    assert tenants(within(everything, EMPTY).retrieve("Keyring")) == {"acme", "umbrella"}


async def test_filters_are_read_once(everything):
    filters = MetadataFilters(filters=[ACME])
    limited = within(everything, filters)
    filters.filters.clear()
    filters.condition = FilterCondition.NOT
    assert tenants(limited.retrieve("Keyring")) == {"acme"}
    assert tenants(await limited.aretrieve("Keyring")) == {"acme"}
    hidden = MetadataFilter(key="tenant", value=["umbrella"], operator=FilterOperator.NIN)
    narrow = everything.with_filters(MetadataFilters(filters=[hidden]))
    tool = memory_search_tool(narrow, where={"tenant": {"nin": ["u"]}})
    hidden.value.clear()
    for _ in range(2):
        assert "umbrella" not in str(tool(query="Keyring", max_results=6))


def test_nodes_outside_of_the_filters_are_neither_listed_nor_deleted(everything):
    limited = within(everything, MetadataFilters(filters=[ACME]))
    assert limited.delete_nodes(["umbrella-0", "nobody"]) == 0
    assert limited.delete_ref_doc("umbrella-1") == 0
    assert limited.delete_nodes(["umbrella-0", "acme-0"]) == 1
    assert everything.delete_ref_doc("umbrella-1") == 1
    assert len(everything.index) == 4


UMBRELLA = MetadataFilters(filters=[MetadataFilter(key="tenant", value="umbrella")])
BOTH = MetadataFilters(filters=[MetadataFilter(key="tenant", value=["acme", "umbrella"], operator=FilterOperator.IN)])
IDS = ["umbrella-0", "umbrella-1", "acme-0"]
OWN = {
    "filters": {"filters": MetadataFilters(filters=[ACME])},
    "node_ids": {"node_ids": ["acme-0", "acme-1"]},
    "doc_ids": {"doc_ids": ["acme-0", "acme-1"]},
}
MADE = {
    "copy": lambda mine, _: copy.copy(mine),
    "deep copy": lambda mine, _: copy.deepcopy(mine),
    "with_filters": lambda mine, it: mine.with_filters(it),
    "with_settings": lambda mine, it: mine.with_settings(similarity_top_k=6, method="vector").with_filters(it),
    "with_memory": lambda mine, it: mine.with_memory(ChatMemoryBuffer.from_defaults()).with_filters(it),
    "vector store": lambda mine, it: _over(mine).as_retriever(filters=it, similarity_top_k=6),
    "vector store, ids": lambda mine, it: _over(mine).as_retriever(filters=it, doc_ids=IDS),
    "client of the vector store": lambda mine, it: mine.as_vector_store().client.with_filters(it),
    "query engine": lambda mine, it: mine.with_filters(it).as_query_engine(llm=MockLLM()),
    "other query engine": lambda mine, _: RetrieverQueryEngine.from_args(mine, llm=MockLLM()),
    "fusion": lambda mine, it: QueryFusionRetriever([mine, mine.with_filters(it)], llm=MockLLM(), num_queries=1),
}


def _over(retriever):
    return VectorStoreIndex.from_vector_store(retriever.as_vector_store(), embed_model=LocalEmbedding(HashEmbedder()))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
async def test_what_is_made_of_a_tenants_retriever_finds_its_nodes_alone(everything, make):
    for own in OWN.values():
        for other in (None, EMPTY, UMBRELLA, BOTH):
            made = make(GraphRAGRetriever(everything.index, everything.settings, **own), other)
            assert "umbrella" not in tenants(made.retrieve(QueryBundle("Keyring")))
            assert "umbrella" not in tenants(await made.aretrieve(QueryBundle("Keyring")))


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
async def test_arguments_tools_and_engines_stay_in_the_scope(everything, own):
    mine = GraphRAGRetriever(everything.index, everything.settings, **own)
    calls = (
        {"filters": None},
        {"filters": EMPTY},
        {"filters": BOTH},
        {"where": {}},
        {"node_ids": IDS},
        {"doc_ids": IDS},
    )
    for given in calls:
        assert tenants(mine.retrieve("Keyring", **given)) == {"acme"}
        assert tenants(await mine.aretrieve("Keyring", **given)) == {"acme"}
    for tool in (
        memory_search_tool(mine),
        memory_search_tool(mine.with_filters(BOTH)),
        memory_search_tool(mine, where={"tenant": {"in": ["acme", "umbrella"]}}),
    ):
        for output in (tool(query="Keyring"), await tool.acall(query="Keyring")):
            assert "acme" in str(output)
            assert "umbrella" not in str(output)
    assert "umbrella" not in str(RetrieverTool.from_defaults(mine).call("Keyring"))
    assert {node.metadata["tenant"] for node in mine.as_vector_store().get_nodes()} == {"acme"}


def test_filters_cannot_be_assigned_and_are_no_setting(everything):
    mine = within(everything, MetadataFilters(filters=[ACME]))
    for name in ("filters", "scope"):
        with pytest.raises(AttributeError):
            setattr(mine, name, None)
    for name in ("filters", "where", "filter"):
        with pytest.raises(InputError, match=name):
            mine.with_settings(**{name: {"tenant": "umbrella"}})
    mine.filters.filters.clear()
    assert tenants(mine.retrieve("Keyring")) == {"acme"}


def test_other_settings_share_the_index_and_the_cache(everything):
    mine = within(everything, MetadataFilters(filters=[ACME]))
    other = mine.with_settings(similarity_top_k=1, method="keyword")
    assert (other.index is mine.index, other.similarity_top_k, other.settings.method) == (True, 1, "keyword")
    assert (mine.similarity_top_k, other.filters) == (6, mine.filters)
    assert len(other.retrieve("Keyring")) == 1
