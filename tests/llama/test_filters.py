"""LlamaIndex's metadata filters, applied at every hop."""

from __future__ import annotations

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_support import Hashed, ids

from graphrag_core.errors import FilterError
from llama_graphrag import GraphRAGRetriever

METADATA = {
    "a": {"team": "x", "year": 2020, "tags": ["red", "blue"]},
    "b": {"team": "y", "year": 2021.5, "tags": ["red"], "note": ""},
    "c": {"team": "x", "year": 1999, "tags": [], "note": "n"},
    "d": {"year": 1, "note": None},
}


@pytest.fixture(scope="module")
def retriever():
    nodes = [
        TextNode(
            id_=key,
            text=f"A red fox, {key}.",
            metadata=value,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{key}.md")},
        )
        for key, value in METADATA.items()
    ]
    with GraphRAGRetriever.from_nodes(nodes, Hashed()) as retriever:
        yield retriever


def seen(retriever, *filters, condition=FilterCondition.AND) -> str:
    filters = MetadataFilters(filters=list(filters), condition=condition)
    retriever = GraphRAGRetriever(retriever.index, filters=filters)
    return "".join(sorted(ids(retriever.retrieve("fox"))))


def one(key, operator, value) -> MetadataFilter:
    return MetadataFilter(key=key, operator=operator, value=value)


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("team", FilterOperator.EQ, "x", "ac"),
        ("year", FilterOperator.EQ, 2020, "a"),
        ("team", FilterOperator.NE, "x", "bd"),
        ("year", FilterOperator.GT, 2020, "b"),
        ("year", FilterOperator.GTE, 2020, "ab"),
        ("year", FilterOperator.LT, 2020, "cd"),
        ("year", FilterOperator.LTE, 2020, "acd"),
        ("team", FilterOperator.IN, ["y", "z"], "b"),
        ("team", FilterOperator.NIN, ["y", "z"], "acd"),
        ("tags", FilterOperator.ANY, ["blue", "green"], "a"),
        ("tags", FilterOperator.ALL, ["red", "blue"], "a"),
        ("tags", FilterOperator.ALL, ["red"], "ab"),
        ("tags", FilterOperator.CONTAINS, "red", "ab"),
        ("note", FilterOperator.IS_EMPTY, None, "abd"),
        ("tags", FilterOperator.IS_EMPTY, None, "cd"),
        ("colour", FilterOperator.IS_EMPTY, None, ""),
        ("ref_doc_id", FilterOperator.EQ, "b.md", "b"),
        ("doc_id", FilterOperator.IN, ["a.md", "d.md"], "ad"),
        ("document_id", FilterOperator.NE, "a.md", "bcd"),
    ],
)
def test_a_filter_lets_through(retriever, key, operator, value, expected):
    assert seen(retriever, one(key, operator, value)) == expected


@pytest.mark.parametrize("operator", [one for one in FilterOperator if one.value.startswith("text_match")])
def test_an_operator_that_cannot_be_held_is_refused_by_name(retriever, operator):
    with pytest.raises(FilterError, match=rf"'team': the operator {operator.name} "):
        seen(retriever, one("team", operator, "x"))


def test_filters_nest(retriever):
    x, y = one("team", FilterOperator.EQ, "x"), one("team", FilterOperator.EQ, "y")
    old = one("year", FilterOperator.LT, 2000)
    assert seen(retriever, x, old) == "c"
    assert seen(retriever, x, y, condition=FilterCondition.OR) == "abc"
    assert seen(retriever, x, y, condition=FilterCondition.NOT) == "d"
    either = MetadataFilters(filters=[y, old], condition=FilterCondition.OR)
    assert seen(retriever, x, either) == "c"
    assert seen(retriever, y, MetadataFilters(filters=[x, old]), condition=FilterCondition.OR) == "bc"
    neither = MetadataFilters(filters=[either], condition=FilterCondition.NOT)
    assert seen(retriever, neither) == "a"
    assert seen(retriever) == "abcd", "no filter at all"
    assert seen(retriever, x, MetadataFilters(filters=[])) == "ac"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (one("not", FilterOperator.EQ, "x"), "word of the filter language"),
        (one("$and", FilterOperator.EQ, "x"), "word of the filter language"),
        (one("tags", FilterOperator.ALL, "red"), "ALL takes a list"),
        (one("team", FilterOperator.EQ, ["x"]), "values are texts"),
        (one("team", FilterOperator.IN, "x"), "takes a list"),
    ],
)
def test_what_cannot_be_meant_is_refused(retriever, bad, message):
    with pytest.raises(FilterError, match=message):
        seen(retriever, bad)
