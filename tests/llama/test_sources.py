"""Sources of nodes: documents, an existing index, a property graph, a folder, an LLM."""

from __future__ import annotations

import json
import logging

import pytest
from llama_index.core import Document, PropertyGraphIndex, StorageContext, VectorStoreIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    Relation,
)
from llama_index.core.indices.property_graph import ImplicitPathExtractor, SimpleLLMPathExtractor
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode, TransformComponent
from llama_support import QUESTION, Hashed, ids, make_nodes

from graphrag_core.errors import EmbedderMismatch, InputError
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


def test_transformations_of_the_caller_are_run(model):
    cut = SentenceSplitter(chunk_size=40, chunk_overlap=0)
    text = " ".join(f"Sentence {i} is about the Auth Service." for i in range(40))
    retriever = GraphRAGRetriever.from_documents([Document(text=text)], model, transformations=[cut, model])
    assert len(retriever.index) > 5
    assert len(model.texts) == len(retriever.index), "embedded once, by the transformation"


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


def test_documents_are_not_changed_by_extractors_either(model):
    documents = [Document(text="a thin layer.", metadata={"file": "x.md"})]
    check_knowledge(GraphRAGRetriever.from_documents(documents, model, transformations=[Knows()]))
    assert documents[0].metadata == {"file": "x.md"}


def test_llama_indexs_own_extractors_are_read(model):
    llm = Scripted(answer="(Auth Service, delegates to, OAuth Provider)\nnonsense")
    steps = [SentenceSplitter(), SimpleLLMPathExtractor(llm=llm, num_workers=1), ImplicitPathExtractor()]
    retriever = GraphRAGRetriever.from_documents([Document(text="it does so daily.")], model, transformations=steps)
    (fact,) = [fact for fact in retriever.index.graph.facts("auth service") if fact.relation]
    assert fact.text == "Auth service Delegates to Oauth provider", "as that extractor writes it"
    names = {entity.id for entity in retriever.index.graph.entities()}
    assert names == {"auth service", "oauth provider"}, "links between nodes are no knowledge"


def test_an_extractor_that_found_nothing_leaves_nothing(model):
    node = TextNode(id_="n", text="A fox.", metadata={KG_NODES_KEY: [], KG_RELATIONS_KEY: []})
    retriever = GraphRAGRetriever.from_nodes([node], model)
    assert retriever.retrieve("fox")[0].metadata == {}
    assert model.texts == ["A fox."]


def test_metadata_that_only_has_the_name_of_knowledge_is_the_users(model):
    node = TextNode(id_="n", text="A fox.", metadata={KG_NODES_KEY: 3})
    found = GraphRAGRetriever.from_nodes([node], model).retrieve("fox")[0]
    assert found.metadata[KG_NODES_KEY] == 3


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


@pytest.fixture
def existing(nodes, model):
    index = VectorStoreIndex(nodes, embed_model=model)
    model.asked.clear()
    return index


def test_an_existing_index_gains_the_graph_and_nothing_is_embedded_again(existing, model, caplog):
    with caplog.at_level(logging.INFO, "llama_graphrag"):
        retriever = GraphRAGRetriever.from_index(existing, similarity_top_k=3)
    assert model.asked == []
    assert "5 nodes: 5 with their own embedding" in caplog.text
    assert "keyring" in ids(retriever.retrieve(QUESTION))
    assert "keyring" not in ids(existing.as_retriever(similarity_top_k=3).retrieve(QUESTION))


def test_the_vectors_are_the_indexs_own(existing):
    only_vectors = GraphRAGRetriever.from_index(existing, method="vector", similarity_top_k=5)
    for question in ("Lunch in the old hall", "Keyring of Tallinn"):
        plain = existing.as_retriever(similarity_top_k=5).retrieve(question)
        found = only_vectors.search(question).hits
        scores = [one.channels["vector"].score for one in found]
        assert scores == pytest.approx([one.score for one in plain], abs=0.005)  # the index stores rounded vectors
        assert found[0].chunk.id == plain[0].node_id


def test_nodes_that_were_deleted_from_the_index_stay_out(existing):
    existing.delete_nodes(["lunch"])
    existing.delete_ref_doc("umbrella.md")
    retriever = GraphRAGRetriever.from_index(existing)
    assert {d.id for d in retriever.index.documents()} == {"auth", "oauth", "keyring"}


def test_an_index_loaded_from_disk_is_taken_over_too(existing, model, tmp_path):
    from llama_index.core import load_index_from_storage

    existing.storage_context.persist(str(tmp_path))
    loaded = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(tmp_path)), embed_model=model)
    assert len(GraphRAGRetriever.from_index(loaded).retrieve(QUESTION)) == 5
    assert [text for way, text in model.asked if way == "text"] == []


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


def test_a_description_stays_where_it_was_read(graph, model):
    retriever = GraphRAGRetriever.from_property_graph(graph, model)
    assert retriever.index.graph.entity("Keyring").description == "Secret."
    (acme,) = retriever.search("Keyring?", where={"tenant": "acme"}).entities
    assert (acme.type, acme.description) == ("vendor", "")


def test_facts_without_a_text_are_spelt_out(model):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name="Keyring", label="VENDOR", properties={"description": "A company."})])
    store.upsert_relations([
        Relation(label="SITS_IN", source_id="Keyring", target_id="Tallinn"),
        Relation(label="RESTS_ON", source_id="OAuth Provider", target_id="Keyring"),
    ])  # fmt: skip
    store.upsert_nodes([ChunkNode(id_="bare", text="a chunk that was never a node.")])
    retriever = GraphRAGRetriever.from_property_graph(store, model)
    texts = {d.id: d.text for d in retriever.index.documents()}
    assert texts == {
        "bare": "a chunk that was never a node.",
        "entity:Keyring": "Keyring: A company.\nKeyring sits in Tallinn.",
        "entity:OAuth Provider": "OAuth Provider rests on Keyring.",
    }
    assert retriever.index.graph.entity("Keyring").description == "A company."


class OnlyTheProtocol(SimplePropertyGraphStore):
    """A store reduced to the abstract interface."""

    def __new__(cls, inner):
        from llama_index.core.graph_stores.types import PropertyGraphStore

        names = ("get", "get_triplets", "get_rel_map", "upsert_nodes", "upsert_relations", "delete",
                 "structured_query", "vector_query")  # fmt: skip
        kind = type("Other", (PropertyGraphStore,), {name: staticmethod(getattr(inner, name)) for name in names})
        return kind()


def test_any_property_graph_store_will_do(graph, model):
    retriever = GraphRAGRetriever.from_property_graph(OnlyTheProtocol(graph), model)
    assert {fact.relation for fact in retriever.index.graph.facts("Keyring")} >= {"RESTS_ON", "SITS_IN"}


def test_what_property_graph_index_built_is_taken_over_with_its_embeddings(model):
    retriever = GraphRAGRetriever.from_property_graph(built(model).property_graph_store, model)
    assert model.asked == []
    assert any(fact.relation == "Delegates to" for fact in retriever.index.graph.facts("keyring"))
    assert retriever.retrieve("Auth Service")[0].node.ref_doc_id == "acme.md"


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


def test_a_property_graph_index_that_was_loaded_is_taken_over_too(model, tmp_path):
    built(model).storage_context.persist(str(tmp_path))
    store = SimplePropertyGraphStore.from_persist_dir(str(tmp_path))
    index = PropertyGraphIndex.from_existing(store, embed_model=model, llm=MockLLM())
    assert len(GraphRAGRetriever.from_property_graph(index).index) == 2
    assert model.asked == []


def test_embeddings_of_chunks_in_the_vector_store_of_a_property_graph_index_are_used(model):
    index = built(model)
    for node in index.property_graph_store.graph.nodes.values():
        vector, node.embedding = node.embedding, None
        if vector is not None:
            index.vector_store.data.embedding_dict[node.id] = vector
    GraphRAGRetriever.from_property_graph(index)
    assert model.asked == []


def test_a_property_graph_index_without_embeddings_is_embedded(model):
    index = built(model, embed_kg_nodes=False)
    retriever = GraphRAGRetriever.from_property_graph(index, model)
    assert len(model.texts) == len(retriever.index) == 2


def test_what_is_no_property_graph_is_refused(nodes, model):
    with pytest.raises(InputError, match="PropertyGraphIndex"):
        GraphRAGRetriever.from_property_graph(VectorStoreIndex(nodes, embed_model=model))


def test_an_empty_property_graph_gives_an_empty_retriever(model):
    assert GraphRAGRetriever.from_property_graph(SimplePropertyGraphStore(), model).retrieve("Anything?") == []


# -- a folder


def test_another_embedding_than_built_it_is_refused(nodes, model, tmp_path):
    GraphRAGRetriever.from_nodes(nodes, model, path=tmp_path).close()
    with pytest.raises(EmbedderMismatch, match="Hashed"):
        GraphRAGRetriever.from_persist_dir(tmp_path, HashEmbedder(dim=8))
    with pytest.raises(EmbedderMismatch):
        GraphRAGRetriever.from_persist_dir(tmp_path, Hashed(model_name="other"))


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
