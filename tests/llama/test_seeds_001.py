"""The "confident retriever" (seed 001) through LlamaIndex, on the example that is worked out in ``confident``."""

from __future__ import annotations

import pytest
from confident import ANSWER, CONFIDENCE, PASSAGES, QUESTION, RELATIONS, ROUNDING, SUBJECTS, Cosines
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    Relation,
)
from llama_index.core.schema import TextNode

from graphrag_core.designs import CONFIDENT
from graphrag_core.strategies import Gate
from graphrag_core.testing import FixedExtractor
from llama_graphrag import GraphRAGRetriever, memory_search_tool


def extracted(name: str) -> tuple[list[EntityNode], list[Relation]]:
    entities = [EntityNode(name=subject) for subject in [SUBJECTS.get(name)] if subject]
    if name not in RELATIONS:
        return entities, []
    subject, relation, target, strength = RELATIONS[name]
    ends = [EntityNode(name=subject), EntityNode(name=target)]
    link = Relation(label=relation, source_id=ends[0].id, target_id=ends[1].id, properties={"strength": strength})
    return [*entities, *ends], [link]


def make_nodes() -> list[TextNode]:
    nodes = []
    for name, text in PASSAGES.items():
        entities, relations = extracted(name)
        nodes.append(TextNode(id_=name, text=text, metadata={KG_NODES_KEY: entities, KG_RELATIONS_KEY: relations}))
    return nodes


@pytest.fixture
def confident():
    with GraphRAGRetriever.from_nodes(
        make_nodes(), Cosines(), settings=CONFIDENT, extractor=FixedExtractor({}), embed_names=False
    ) as retriever:
        yield retriever


def test_a_relation_keeps_its_strength(confident):
    weights = {fact.entities[1]: fact.weight for fact in confident.index.graph.facts("Auth Service")}
    assert weights == {"oauth provider": 8.0, "login flow": 5.0, "session store": 2.0}


def test_the_tool_returns_as_many_passages_as_asked_for(confident):
    assert len(confident.retrieve(QUESTION, k=2)) > 2, "the graph adds to the two of vector search"
    output = memory_search_tool(confident).call(query=QUESTION, max_results=2)
    assert len(output.raw_output) == 2
    assert output.content.count("[Score: ") == 2


def test_a_relation_of_a_property_graph_keeps_its_strength():
    store = SimplePropertyGraphStore()
    source = {TRIPLET_SOURCE_KEY: "auth"}
    ends = [EntityNode(name="Auth Service", properties=source), EntityNode(name="Session Store", properties=source)]
    strength = {**source, "relationship_strength": "2"}
    link = Relation(label="uses", source_id=ends[0].id, target_id=ends[1].id, properties=strength)
    store.upsert_nodes([ChunkNode(id_="auth", text=PASSAGES["auth"]), *ends])
    store.upsert_relations([link])
    with GraphRAGRetriever.from_property_graph(store, Cosines(), extractor=FixedExtractor({})) as retriever:
        (fact,) = retriever.index.graph.facts("Auth Service")
        assert (fact.relation, fact.weight) == ("uses", 2.0)


def test_metadata_that_an_extractor_copied_is_no_strength():
    node = make_nodes()[0]
    node.metadata["weight"] = 4
    node.metadata[KG_RELATIONS_KEY][0].properties = {"weight": 4}
    with GraphRAGRetriever.from_nodes([node], Cosines(), extractor=FixedExtractor({})) as retriever:
        assert [fact.weight for fact in retriever.index.graph.facts("Auth Service")] == [10.0]


async def test_the_retrieval_of_the_document(confident):
    confident = GraphRAGRetriever(confident.index, confident.settings, add_metadata=["graphrag"])
    for found in (confident.retrieve(QUESTION), await confident.aretrieve(QUESTION)):
        assert [one.node.node_id for one in found] == list(ANSWER)
        assert [one.score for one in found] == pytest.approx(list(ANSWER.values()), abs=ROUNDING)
        details = [one.node.metadata["graphrag"] for one in found]
        assert [one["origin"] for one in details] == ["plain", "plain", "graph", "graph"]
        assert (details[2]["entity"], details[2]["hops"]) == ("OAuth Provider", 1)
        assert details[0]["counts"] == {"plain": 2, "graph": 2}
        assert details[0]["confidence"] == pytest.approx(CONFIDENCE, abs=ROUNDING)


async def test_thresholds_of_a_call(confident):
    for found in (
        confident.search(QUESTION, method="vector", **{"gate.min_score": 0.8}),
        await confident.asearch(QUESTION, method="vector", **{"gate.min_score": 0.8}),
    ):
        assert [hit.chunk.id for hit in found] == ["auth"]
    assert "is below 0.99" in confident.search(QUESTION, **{"gate.min_confidence": 0.99}).expansion_skipped


def test_the_memory_tool_says_what_to_do(confident):
    tool = memory_search_tool(confident, include_relationships=True, include_sources=False)
    content = tool.call(query=QUESTION).content
    assert "## Relationships" in content
    assert f"[Score: 0.88]\n{PASSAGES['auth']}" in content
    with GraphRAGRetriever.from_nodes(make_nodes(), Cosines(), gate=Gate(min_score=0.95), method="vector") as strict:
        output = memory_search_tool(strict).call(query="x")
        assert output.content.startswith("Nothing was found. No passage has the similarity 0.95")
        assert output.raw_output == []
