"""The names that programs outside of the project use, in the form of the documentation."""

from __future__ import annotations

import pytest

from graphrag_core.testing import HashEmbedder

QUESTION = "Who runs the OAuth Provider?"
TEXTS = {"auth": "The Auth Service delegates to the OAuth Provider.", "oauth": "The OAuth Provider is run by Keyring."}


async def test_langchain(tmp_path):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool

    path, embedding = tmp_path / "kb", HashEmbedder()
    documents = [Document(text, id=name, metadata={"tenant": "acme"}) for name, text in TEXTS.items()]
    with GraphRAGRetriever.from_documents(documents, embedding, k=5, path=None) as retriever:
        assert sorted(document.id for document in retriever.invoke(QUESTION)) == ["auth", "oauth"]
    GraphRAGRetriever.from_documents(documents, embedding, k=5, path=path).close()
    with GraphRAGRetriever.load(path, embedding) as retriever:
        assert retriever.add_documents([Document("Lunch is served at noon.", id="lunch")]) == ["lunch"]
        assert retriever.delete(["lunch"])["num_deleted"] == 1
        settings = {"k": 1, "method": "graph", "filter": {"tenant": "acme"}}
        given = {"k": 3, "filter": {"tenant": "acme"}, "use_graph": False}
        assert len(retriever.invoke(QUESTION, **settings)) == 1
        found = retriever.invoke(QUESTION, **given)
        assert found == await retriever.ainvoke(QUESTION, **given) == retriever.batch([QUESTION], **given)[0]
        assert sorted(found, key=lambda one: one.id) == documents, "ids and metadata are those that were put in"
        result = retriever.search(QUESTION)
        assert result.hits[0].chunk.id == "oauth"
        assert "Keyring" in create_memory_search_tool(retriever).invoke({"query": QUESTION})
    store = InMemoryVectorStore(embedding)
    store.add_documents(documents)
    with GraphRAGRetriever.from_vectorstore(store) as retriever:
        assert retriever.invoke(QUESTION)[0].id == "oauth"


async def test_llama_index(tmp_path):
    pytest.importorskip("llama_index.core")
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.graph_stores import SimplePropertyGraphStore
    from llama_index.core.schema import TextNode

    from llama_graphrag import GraphRAGRetriever, LocalEmbedding, memory_search_tool

    path, embed_model = tmp_path / "kb", LocalEmbedding(HashEmbedder())
    documents = [Document(text=text, id_=name) for name, text in TEXTS.items()]
    nodes = [TextNode(text=text, id_=name, metadata={"tenant": "acme"}) for name, text in TEXTS.items()]
    with GraphRAGRetriever.from_documents(documents, embed_model, similarity_top_k=5, path=None) as retriever:
        assert retriever.retrieve(QUESTION)[0].node.ref_doc_id == "oauth"
    with GraphRAGRetriever.from_index(VectorStoreIndex(nodes, embed_model=embed_model)) as retriever:
        assert retriever.retrieve(QUESTION)[0].node_id == "oauth"
    with GraphRAGRetriever.from_property_graph(SimplePropertyGraphStore(), embed_model) as retriever:
        assert retriever.retrieve(QUESTION) == []
    GraphRAGRetriever.from_nodes(nodes, embed_model, path=path).close()
    with GraphRAGRetriever.from_persist_dir(path, embed_model) as retriever:
        retriever.insert_nodes([TextNode(text="Lunch is served at noon.", id_="lunch")])
        assert retriever.delete_ref_doc("lunch") == 1
        found = [one.node for one in retriever.retrieve(QUESTION)]
        assert found == [one.node for one in await retriever.aretrieve(QUESTION)]
        assert sorted(found, key=lambda one: one.node_id) == nodes, "ids and metadata are those that were put in"
        result = retriever.search(QUESTION)
        assert result.hits[0].chunk.id == "oauth"
        assert "Keyring" in str(memory_search_tool(retriever)(query=QUESTION))
        assert len(retriever.as_vector_store().get_nodes()) == 2
