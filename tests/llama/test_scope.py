"""Nothing that a retriever with filters returns or changes is outside of them."""

from __future__ import annotations

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graphrag_core.errors import FilterError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, memory_search_tool

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
    tool = memory_search_tool(
        everything, filters=MetadataFilters(filters=[hidden]), where={"tenant": {"nin": iter("u")}}
    )
    hidden.value.clear()
    for _ in range(2):
        assert "umbrella" not in str(tool(query="Keyring", max_results=6))


def test_nodes_outside_of_the_filters_are_neither_listed_nor_deleted(everything):
    limited = within(everything, MetadataFilters(filters=[ACME]))
    assert {name.partition("-")[0] for name in limited.ref_doc_info} == {"acme"}
    assert limited.delete_nodes(["umbrella-0", "nobody"]) == 0
    assert limited.delete_ref_doc("umbrella-1") == 0
    assert limited.delete_nodes(["umbrella-0", "acme-0"]) == 1
    assert everything.delete_ref_doc("umbrella-1") == 1
    assert len(everything.index) == 4
