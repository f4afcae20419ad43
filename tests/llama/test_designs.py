"""What is particular to LlamaIndex in the published designs; tests/adapters has the rest."""

from __future__ import annotations

from confident import PASSAGES, Cosines
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    Relation,
)
from llama_index.core.schema import MetadataMode, TextNode
from seeds_000 import DOCUMENTS, QUESTION

from graphrag_core import KnowledgeExtractor
from graphrag_core.designs import KG2RAG, MEMORY
from graphrag_core.testing import FixedExtractor, HashEmbedder
from llama_graphrag import GraphRAGRetriever


def test_expansion_queries_are_embedded_as_queries(model):
    nodes = [
        TextNode(id_=one.id, text=one.text, metadata=dict(one.metadata), excluded_embed_metadata_keys=["knowledge"])
        for one in DOCUMENTS
    ]
    settings = {"extractor": KnowledgeExtractor(), "settings": KG2RAG, "similarity_top_k": 7}
    with GraphRAGRetriever.from_nodes(nodes, model, **settings) as retriever:
        model.asked.clear()
        found = retriever.search(QUESTION)
        assert {way for way, _ in model.asked} == {"query"}
        assert ("query", "Auth Service OAuth Provider") in model.asked
        assert "Auth Service OAuth Provider" in {hit.graph_expansion for hit in found}


async def test_a_retriever_can_answer_as_of_a_time():
    settings = {"embed_names": True, "graph": MEMORY.graph, "method": "graph"}
    with GraphRAGRetriever.from_nodes([], HashEmbedder(), as_of="2020-01-01", **settings) as then:
        remember = then.index.memory.remember
        remember("Ada", "works_at", "Acme", valid_from="2019-01-01")
        remember("Ada", "works_at", "Globex", valid_from="2022-01-01", supersedes=True)
        (found,) = await then.aretrieve("Ada")
        assert found.text == "Ada works at Acme"
        assert "graphrag_fact" not in found.node.get_content(MetadataMode.LLM), "the record is not for the model"


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
