"""Sources of nodes: documents, an existing index, a property graph, a folder, an LLM."""

from __future__ import annotations

import json

import pytest
from llama_index.core import Document, PropertyGraphIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    TRIPLET_SOURCE_KEY,
    EntityNode,
    Relation,
)
from llama_index.core.indices.property_graph import ImplicitPathExtractor, SimpleLLMPathExtractor
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode, TransformComponent
from llama_support import make_nodes

from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever


class Scripted(CustomLLM):
    """Answers every prompt with the same text."""

    answer: str

    @property
    def metadata(self):
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.answer)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError


# -- documents


def test_documents_are_cut_as_llama_index_cuts_them(model):
    text = " ".join(f"Sentence {i} is about the Auth Service." for i in range(400))
    documents = [Document(id_="long", text=text, metadata={"team": "identity"}), Document(id_="short", text="A fox.")]
    before = [document.model_copy(deep=True) for document in documents]
    retriever = GraphRAGRetriever.from_documents(documents, model, similarity_top_k=3)
    expected = SentenceSplitter().get_nodes_from_documents(documents)
    assert sorted(d.text for d in retriever.index.documents()) == sorted(node.text for node in expected)
    assert {found.node.ref_doc_id for found in retriever.retrieve("Auth Service")} == {"long"}
    assert documents == before
    assert retriever.delete_ref_doc("long") == len(expected) - 1


class Knows(TransformComponent):
    """Writes entities and relations as an extractor does."""

    def __call__(self, nodes, **kwargs):
        for node in nodes:
            node.metadata[KG_NODES_KEY] = [
                EntityNode(name="Keyring", label="VENDOR", properties={"description": "A company.", **node.metadata}),
                EntityNode(name="OAuth Provider"),
            ]
            node.metadata[KG_RELATIONS_KEY] = [
                Relation(label="RESTS_ON", source_id="OAuth Provider", target_id="Keyring", properties=node.metadata)
            ]
        return nodes


def check_knowledge(retriever):
    keyring = retriever.index.graph.entity("keyring")
    assert (keyring.type, keyring.description) == ("vendor", "A company.")
    (fact,) = [fact for fact in retriever.index.graph.facts("Keyring") if fact.relation]
    assert (fact.relation, fact.entities) == ("RESTS_ON", ("oauth provider", "keyring"))


def test_what_an_extractor_among_the_transformations_finds_goes_into_the_graph(model):
    documents = [Document(id_="d", text="a thin layer in lower case.", metadata={"file": "x.md"})]
    retriever = GraphRAGRetriever.from_documents(documents, model, transformations=[SentenceSplitter(), Knows()])
    check_knowledge(retriever)
    assert retriever.index.graph.entity("x.md") is None, "bookkeeping is no knowledge"
    node = retriever.retrieve("Keyring")[0].node
    assert set(node.metadata) == {"file"}
    assert model.texts == ["file: x.md\n\na thin layer in lower case."]
    assert documents[0].metadata == {"file": "x.md"}


def test_llama_indexs_own_extractors_are_read(model):
    llm = Scripted(answer="(Auth Service, delegates to, OAuth Provider)\nnonsense")
    steps = [SentenceSplitter(), SimpleLLMPathExtractor(llm=llm, num_workers=1), ImplicitPathExtractor()]
    retriever = GraphRAGRetriever.from_documents([Document(text="it does so daily.")], model, transformations=steps)
    (fact,) = [fact for fact in retriever.index.graph.facts("auth service") if fact.relation]
    assert fact.text == "Auth service Delegates to Oauth provider", "as that extractor writes it"
    names = {entity.id for entity in retriever.index.graph.entities()}
    assert names == {"auth service", "oauth provider"}, "links between nodes are no knowledge"


# -- a language model


def test_any_llm_reads_entities_and_relations(model):
    answer = {
        "entities": [{"name": "Keyring", "type": "vendor", "description": "A company."}],
        "relations": [{"source": "OAuth Provider", "type": "RESTS_ON", "target": "Keyring", "strength": 9}],
    }
    retriever = GraphRAGRetriever.from_nodes(make_nodes()[:1], model, llm=Scripted(answer=json.dumps(answer)))
    check_knowledge(retriever)
    assert retriever.index.graph.entity("Auth Service") is not None, "beside what is read without a model"


# -- an index that exists


# -- a property graph that exists


@pytest.fixture
def graph() -> SimplePropertyGraphStore:
    store = SimplePropertyGraphStore()
    texts = [TextNode(id_=name, text=text, metadata={"tenant": tenant}) for name, text, tenant in [
        ("one", "the provider rests on a vendor.", "acme"), ("two", "the vendor sits by the sea.", "acme"),
        ("three", "another reading of the vendor.", "umbrella")]]  # fmt: skip
    store.upsert_llama_nodes(texts)
    store.upsert_nodes([
        EntityNode(name="Keyring", label="VENDOR", properties={TRIPLET_SOURCE_KEY: "three", "description": "Secret."}),
        EntityNode(name="OAuth Provider", properties={TRIPLET_SOURCE_KEY: "one"}),
        EntityNode(name="Tallinn", label="CITY", properties={TRIPLET_SOURCE_KEY: "two"}),
    ])  # fmt: skip
    store.upsert_relations([
        Relation(label="RESTS_ON", source_id="OAuth Provider", target_id="Keyring",
                 properties={TRIPLET_SOURCE_KEY: "one"}),
        Relation(label="SITS_IN", source_id="Keyring", target_id="Tallinn",
                 properties={TRIPLET_SOURCE_KEY: "two", "description": "Keyring sits in Tallinn since 2011."}),
        Relation(label="NEXT", source_id="one", target_id="two"),
    ])  # fmt: skip
    return store


def test_a_property_graph_is_taken_over(graph, model):
    retriever = GraphRAGRetriever.from_property_graph(graph, model)
    assert sorted(d.id for d in retriever.index.documents()) == ["one", "three", "two"]
    assert retriever.index.graph.entity("Tallinn").type == "city"
    facts = {fact.relation: fact for fact in retriever.index.graph.facts("Keyring")}
    assert (facts["RESTS_ON"].chunk_id, facts["SITS_IN"].chunk_id) == ("one", "two")
    assert facts["SITS_IN"].text == "Keyring sits in Tallinn since 2011."
    assert retriever.index.graph.entity("one") is None, "links between chunks are no knowledge"
    found = retriever.search("Where is what the OAuth Provider rests on?")
    steps = {one.chunk.id: [step.text for step in one.path[1::2]] for one in found}
    assert steps["two"] == ["OAuth Provider", "Keyring"]


def built(model, **settings):
    llm = Scripted(answer="(Auth Service, delegates to, Keyring)")
    index = PropertyGraphIndex(
        make_nodes()[:2],
        llm=llm,
        embed_model=model,
        kg_extractors=[SimpleLLMPathExtractor(llm=llm, num_workers=1)],
        use_async=False,
        **settings,
    )
    model.asked.clear()
    return index


def test_a_property_graph_index_is_taken_over_with_its_model_and_embeddings(model):
    retriever = GraphRAGRetriever.from_property_graph(built(model))
    assert model.asked == []
    assert any(fact.relation == "Delegates to" for fact in retriever.index.graph.facts("keyring"))
    assert {one.node_id for one in retriever.retrieve("Auth Service")} == {"auth", "oauth"}
    assert {way for way, _ in model.asked} == {"query"}, "the questions are embedded by the model of the index"


# -- a folder


def test_documents_indexed_again_do_not_become_twice_as_many(tmp_path):
    def index(*texts):
        documents = [Document(text=text, id_=f"doc{i}") for i, text in enumerate(texts)]
        with GraphRAGRetriever.from_documents(
            documents,
            HashEmbedder(),
            path=tmp_path / "kb",
            transformations=[SentenceSplitter(chunk_size=40, chunk_overlap=0)],
        ) as retriever:
            return sorted(document.id for document in retriever.index.documents())

    long = "Ada Lovelace wrote to Charles Babbage about the Analytical Engine. " * 8
    first = index(long, "Short.")
    assert len(first) > 3
    assert index(long, "Short.") == first
    assert index("Now it is short as well.", "Short.") == ["doc0#0", "doc1#0"]
