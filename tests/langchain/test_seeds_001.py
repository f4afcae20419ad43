"""The "confident retriever" (seed 001) through LangChain, on the example that is worked out in ``confident``."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from confident import ANSWER, CONFIDENCE, PASSAGES, QUESTION, RELATIONS, ROUNDING, SUBJECTS, Cosines
from langchain_core.documents import Document

from graphrag_core.designs import CONFIDENT
from graphrag_core.strategies import Gate
from graphrag_core.testing import FixedExtractor
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool


@dataclass
class Node:
    id: str
    type: str = "Node"
    properties: dict = field(default_factory=dict)


@dataclass
class Relationship:
    source: Node
    target: Node
    type: str
    properties: dict = field(default_factory=dict)


@dataclass
class GraphDocument:
    nodes: list
    relationships: list
    source: Document


def graph_documents():
    for name, text in PASSAGES.items():
        nodes, relationships = [Node(subject) for subject in [SUBJECTS.get(name)] if subject], []
        if name in RELATIONS:
            subject, relation, target, strength = RELATIONS[name]
            relationships = [Relationship(Node(subject), Node(target), relation, {"strength": strength})]
        yield GraphDocument(nodes, relationships, Document(id=name, page_content=text))


@pytest.fixture
def confident():
    with GraphRAGRetriever.from_graph_documents(
        graph_documents(),
        Cosines(),
        settings=CONFIDENT,
        extractor=FixedExtractor({}),
        embed_names=False,
    ) as retriever:
        yield retriever


def test_a_relationship_keeps_its_strength(confident):
    weights = {fact.entities[1]: fact.weight for fact in confident.index.graph.facts("Auth Service")}
    assert weights == {"oauth provider": 8.0, "login flow": 5.0, "session store": 2.0}


async def test_the_retrieval_of_the_document(confident):
    confident = confident.model_copy(update={"add_metadata": ("score", "graphrag")})
    for found in (confident.invoke(QUESTION), await confident.ainvoke(QUESTION)):
        assert [document.id for document in found] == list(ANSWER)
        scores = [document.metadata["score"] for document in found]
        assert scores == pytest.approx(list(ANSWER.values()), abs=ROUNDING)
        details = [document.metadata["graphrag"] for document in found]
        assert [one["origin"] for one in details] == ["plain", "plain", "graph", "graph"]
        assert (details[2]["entity"], details[2]["hops"]) == ("OAuth Provider", 1)
        assert details[0]["counts"] == {"plain": 2, "graph": 2}
        assert details[0]["confidence"] == pytest.approx(CONFIDENCE, abs=ROUNDING)


async def test_thresholds_of_a_call(confident):
    confident = GraphRAGRetriever(index=confident.index)
    for found in (
        confident.invoke(QUESTION, method="vector", **{"gate.min_score": 0.7}),
        await confident.ainvoke(QUESTION, method="vector", **{"gate.min_score": 0.7}),
    ):
        assert [document.id for document in found] == ["auth", "lunch"]
    found = confident.invoke(QUESTION, method="graph", **{"gate.min_graph_score": 0.3}, k=6)
    assert {"auth", "login"} <= {document.id for document in found}
    assert not {"store", "redis"} & {document.id for document in found}
    assert "is below 0.99" in confident.search(QUESTION, **{"gate.min_confidence": 0.99}).expansion_skipped


def test_the_tool_returns_as_many_passages_as_asked_for(confident):
    assert len(confident.invoke(QUESTION, k=2)) > 2, "the graph adds to the two of vector search"
    call = {"name": "memory_search", "args": {"query": QUESTION, "max_results": 2}, "id": "1", "type": "tool_call"}
    message = create_memory_search_tool(confident).invoke(call)
    assert len(message.artifact) == 2
    assert message.content.count("[Score: ") == 2


def test_a_call_of_the_tool_lowers_the_threshold(confident):
    tool = create_memory_search_tool(confident)
    assert "remembers" not in tool.invoke({"query": QUESTION})
    assert PASSAGES["store"] in tool.invoke({"query": QUESTION, "min_graph_score": 0.1})


def test_the_memory_tool_says_what_to_do(confident):
    tool = create_memory_search_tool(confident, include_relationships=True, include_sources=False)
    content = tool.invoke({"query": QUESTION})
    assert "## Relationships" in content
    assert f"[Score: 0.88]\n{PASSAGES['auth']}" in content
    unclear = tool.invoke({"query": "x"})
    # "x": 0.003 + 0.15 + 0.35 = 0.503, the graph is skipped as there is no entity, with enough confidence.
    assert "Note:" not in unclear
    strict = confident.model_copy(update={"gate": Gate(min_score=0.95, min_confidence=0.5)})
    assert create_memory_search_tool(strict).invoke({"query": "x"}) == (
        "Nothing was found. No passage has the similarity 0.95 that min_score asks for, the nearest has 0.88: "
        "lower min_score, or ask in other words."
    )
    unsure = confident.model_copy(update={"gate": Gate(min_confidence=0.9)})
    noted = create_memory_search_tool(unsure).invoke({"query": "x"})
    assert noted.endswith(
        "Note: the confidence is low, 0.50: name something that the index knows, ask in a whole sentence, "
        "or lower min_confidence."
    )
