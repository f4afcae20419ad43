"""The retriever as a vector store, and with a filter for each request."""

from __future__ import annotations

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_support import Hashed, ids

from graphrag_core.errors import InputError
from llama_graphrag import GraphRAGRetriever

NODES = [
    TextNode(id_="auth", text="The Auth Service delegates sign-in to the OAuth Provider.", metadata={"tenant": "a"}),
    TextNode(id_="oauth", text="The OAuth Provider speaks to Keyring.", metadata={"tenant": "a"}),
    TextNode(id_="secret", text="The Auth Service has a secret door to Keyring.", metadata={"tenant": "b"}),
]
QUESTION = "What does the Auth Service need?"


def tenant(name):
    return MetadataFilters(filters=[MetadataFilter(key="tenant", value=name)])


@pytest.fixture
def retriever():
    with GraphRAGRetriever.from_nodes(NODES, Hashed()) as retriever:
        yield retriever


class TestVectorStore:
    def test_an_ingestion_pipeline_leaves_no_stale_nodes(self, retriever):
        pipeline = IngestionPipeline(
            transformations=[SentenceSplitter(chunk_size=40, chunk_overlap=0), Hashed()],
            vector_store=retriever.as_vector_store(),
            docstore=SimpleDocumentStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        )
        long = " ".join(f"The Harbour Team owns the Quay Planner number {n}." for n in range(20))
        pipeline.run(documents=[Document(id_="team", text=long), Document(id_="gone", text="The Tide Feed is new.")])
        before = len(retriever.index)
        assert before > len(NODES) + 3
        pipeline.run(documents=[Document(id_="team", text="The Harbour Team owns the Tide Feed.")])
        assert len(retriever.index) == len(NODES) + 1
        assert retriever.index.verify()

    async def test_an_index_over_it_finds_what_the_retriever_finds(self, retriever):
        index = VectorStoreIndex.from_vector_store(retriever.as_vector_store(), embed_model=Hashed())
        found = index.as_retriever(similarity_top_k=2, filters=tenant("a"))
        assert ids(found.retrieve(QUESTION)) == ids(retriever.retrieve(QUESTION, k=2, filters=tenant("a")))
        assert ids(await found.aretrieve(QUESTION)) == ids(found.retrieve(QUESTION))
        index.insert_nodes([TextNode(id_="new", text="The Auth Service moved to Tallinn.")])
        assert "new" in retriever.index

    async def test_nodes_are_read_and_deleted_within_the_filters(self, retriever):
        store = retriever.with_filters(tenant("a")).as_vector_store()
        assert ids(store.get_nodes()) == ids(await store.aget_nodes()) == ["auth", "oauth"]
        assert store.get_nodes(["auth"])[0].metadata == {"tenant": "a"}
        assert store.get_nodes(["secret"]) == []
        with pytest.raises(InputError, match="deletes nothing without them"):
            store.delete_nodes()
        await store.adelete_nodes(["auth", "secret"])
        assert [document.id for document in retriever.index.documents()] == ["oauth", "secret"]
        await store.aclear()
        assert [document.id for document in retriever.index.documents()] == ["secret"]

    def test_a_query_needs_the_question(self, retriever):
        store = retriever.as_vector_store()
        vector = Hashed().get_query_embedding(QUESTION)
        with pytest.raises(InputError, match="has no query_str"):
            store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=2))
        found = store.query(VectorStoreQuery(query_embedding=vector, query_str=QUESTION, similarity_top_k=2))
        assert len(found.ids) == len(found.nodes) == len(found.similarities) == 2

    @pytest.mark.parametrize("mode", VectorStoreQueryMode)
    def test_a_mode_is_a_method_or_an_error(self, retriever, mode):
        methods = {"default": "hybrid", "hybrid": "hybrid", "text_search": "keyword"}
        index = VectorStoreIndex.from_vector_store(retriever.as_vector_store(), embed_model=Hashed())
        found = index.as_retriever(similarity_top_k=2, vector_store_query_mode=mode)
        if mode.value in methods:
            expected = retriever.retrieve(QUESTION, k=2, method=methods[mode.value])
            assert [(one.node_id, one.score) for one in found.retrieve(QUESTION)] == [
                (one.node_id, one.score) for one in expected
            ]
        else:
            with pytest.raises(InputError, match="is not supported: use one of DEFAULT, HYBRID, TEXT_SEARCH"):
                found.retrieve(QUESTION)
