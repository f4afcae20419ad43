"""Which documents a filter lets through, decided by SQLite and by columns, and compared with plain Python."""

from __future__ import annotations

import operator as operators

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import FilterError
from graphrag_core.filters import parse
from graphrag_core.testing import HashEmbedder

METADATA = {
    "a": {"team": "x", "year": 2020, "draft": True, "tags": ["red", 1]},
    "b": {"team": "y", "year": 2021.5, "draft": False, "author": {"name": "Ada", "born": 1815}},
    "c": {"team": "x", "year": "2020", "draft": None, "tags": []},
    "d": {"year": 1, "draft": 1},
    "e": {},
}


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document(key, f"Text {key}.", metadata=value) for key, value in METADATA.items()])
        yield index


def kind(value):
    """Values of different kinds are never equal."""
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def allowed(index: KnowledgeIndex, where) -> str:
    """Return the documents that are listed and that a query sees."""
    found = index.document_ids(where)
    assert seen(index, where) == found
    return "".join(found)


def seen(index: KnowledgeIndex, where) -> list[str]:
    found = GraphRetriever(index, method="keyword", cache=None).retrieve("text", k=9, where=where)
    return sorted(hit.chunk.id for hit in found)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "abcde"),
        ({"team": "x"}, "ac"),
        ({"team": {"eq": "x"}, "year": 2020}, "a"),
        ({"team": {"ne": "x"}}, "bde"),
        ({"year": {"gte": 1, "lt": 2021}}, "ad"),
        ({"year": {"$gt": "2"}}, "c"),
        ({"draft": True}, "a"),
        ({"draft": 1}, "d"),
        ({"draft": None}, "c"),
        ({"tags": "red"}, "a"),
        ({"tags": 1}, "a"),
        ({"team": {"in": ["y", "z", None]}}, "b"),
        ({"team": {"in": []}}, ""),
        ({"team": {"nin": ["x"]}}, "bde"),
        ({"author.name": "Ada"}, "b"),
        ({"author.born": {"lte": 1815}}, "b"),
        ({"team": {"exists": True}}, "abc"),
        ({"team": {"exists": False}}, "de"),
        ({"or": [{"colour": {"exists": False}}, {"team": "y"}]}, "b"),
        ({"or": [{"team": "y"}, {"year": 1}]}, "bd"),
        ({"$and": [{"team": "x"}, {"not": {"year": 2020}}]}, "c"),
        ({"or": []}, ""),
        ({"not": {"or": [{"team": "x"}, {"team": "y"}]}}, "de"),
        ({"team": "x' OR '1'='1"}, ""),
    ],
)
def test_a_filter_lets_through(index, where, expected):
    assert allowed(index, where) == expected


leaves = st.one_of(
    st.builds(lambda v: {"team": v}, st.sampled_from(["x", "y", "z", 1, None])),
    st.builds(
        lambda op, v: {"year": {op: v}}, st.sampled_from(["lt", "lte", "gt", "gte"]), st.sampled_from([1, 2020, 2021.5])
    ),
    st.builds(lambda v: {"draft": {"ne": v}}, st.sampled_from([True, False, 1])),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)


def holds(where, metadata) -> bool:
    ((key, value),) = where.items()
    if key == "and":
        return all(holds(part, metadata) for part in value)
    if key == "or":
        return any(holds(part, metadata) for part in value)
    if key == "not":
        return not holds(value, metadata)
    operator, operand = next(iter(value.items())) if isinstance(value, dict) else ("eq", value)
    if key not in metadata:
        return operator == "ne"
    have = metadata[key]
    kinds = [kind(have), kind(operand)]
    if operator == "ne":
        return kinds[0] != kinds[1] or have != operand
    compare = {"eq": operators.eq, "lt": operators.lt, "lte": operators.le, "gt": operators.gt, "gte": operators.ge}
    return kinds[0] == kinds[1] and compare[operator](have, operand)


@settings(max_examples=100, deadline=None)
@given(trees)
def test_sqlite_columns_and_python_agree(index, where):
    assert allowed(index, where) == "".join(key for key, value in METADATA.items() if holds(where, value))


@pytest.mark.parametrize("settings", [{}, {"method": "agentic"}])
def test_an_unknown_key_is_told_and_none_that_exists(index, caplog, settings):
    result = GraphRetriever(index).retrieve("2501.03236", where={"teem": "x"}, **settings)
    assert not result.hits
    assert "no document has the metadata key 'teem': check its spelling" in result.advice
    assert not any(key in result.advice for key in ("team", "year", "draft", "tags", "born"))
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "no document has the metadata key 'teem'" in logged


def test_the_key_of_remembered_facts_is_never_told():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.memory.remember("User", "prefers", "tea", status="rejected")
        assert "graphrag_fact" not in GraphRetriever(index).retrieve("tea", where={"teem": "x"}).advice
        assert not GraphRetriever(index).retrieve("tea").hits


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ({"tag": ["a", "b"]}, {"tag": {"in": ["a", "b"]}}),
        ({"tag": {"$eq": "a"}}, {"tag": "a"}),
    ],
)
def test_other_ways_to_write_a_condition(where, same):
    assert parse(where) == parse(same)


def test_an_operator_that_does_not_exist_says_what_to_write():
    with pytest.raises(FilterError, match=r"unknown operator .\$like.; use one of eq, exists"):
        parse({"team": {"$like": "sea%"}})


def test_a_filter_is_bounded():
    parse({"or": [{"team": str(n)} for n in range(1_000)]})
    with pytest.raises(FilterError, match="1,001 conditions, at most 1,000"):
        parse({"or": [{"team": str(n)} for n in range(1_001)]})
    deep = {"team": "x"}
    for _ in range(19):
        deep = {"not": deep}
    parse(deep)
    with pytest.raises(FilterError, match="deeper than 20 levels"):
        parse({"not": deep})
