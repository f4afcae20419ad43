"""``from_index`` over real vector stores: new and opened again, with and without a docstore."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_support import QUESTION, Hashed, make_nodes

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever

DIM = HashEmbedder().dim
# The stores' own libraries warn of what they use themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")


def named(name: str) -> str:
    """Return an id that Qdrant accepts too."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def stored_nodes() -> list[TextNode]:
    """Return the sample nodes with ids that every store accepts, linked to each other."""
    nodes = [node.model_copy(update={"id_": named(node.node_id)}) for node in make_nodes()]
    for before, after in pairwise(nodes):
        before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=after.node_id)
    return nodes


def chroma(folder: Any) -> Any:
    chromadb = pytest.importorskip("chromadb")
    kind = pytest.importorskip("llama_index.vector_stores.chroma").ChromaVectorStore
    if folder is None:
        return kind(chroma_collection=chromadb.EphemeralClient().create_collection(f"kb-{uuid.uuid4()}"))
    client = chromadb.PersistentClient(path=str(folder))
    return kind(chroma_collection=client.get_or_create_collection("notes"))


def qdrant(folder: Any) -> Any:
    client = pytest.importorskip("qdrant_client").QdrantClient
    kind = pytest.importorskip("llama_index.vector_stores.qdrant").QdrantVectorStore
    return kind("kb", client=client(":memory:") if folder is None else client(path=str(folder)))


def faiss(folder: Any) -> Any:
    import faiss as library

    kind = pytest.importorskip("llama_index.vector_stores.faiss").FaissVectorStore
    return kind(faiss_index=library.IndexFlatIP(DIM))


def simple(folder: Any) -> Any:
    return SimpleVectorStore()


STORES = {
    "chroma": chroma, "qdrant": qdrant, "faiss": faiss, "simple": simple,
}  # fmt: skip
KEEP_TEXT = ("chroma", "qdrant", "pgvector")


def maker(name: str, request: Any) -> Any:
    """Return a function that makes a store in a folder, or a new one for None."""
    if name != "pgvector":
        return STORES[name]
    package = pytest.importorskip("llama_index.vector_stores.postgres", reason="its PGVector store is not installed")
    server = urlsplit(request.getfixturevalue("database"))
    tables: dict[Any, str] = defaultdict(lambda: f"kb_{uuid.uuid4().hex}")

    def make(folder: Any) -> Any:
        store = package.PGVectorStore.from_params(
            host=server.hostname, port=server.port, database=server.path[1:], user=server.username,
            password=server.password, table_name=tables[folder or object()], embed_dim=DIM,
        )  # fmt: skip
        request.addfinalizer(lambda: asyncio.run(store.close()))
        return store

    return make


@dataclass
class Existing:
    """An index that was built before, and the model that counts what is embedded from now on."""

    index: VectorStoreIndex
    model: Hashed
    nodes: list[TextNode]


def fill(store: Any, nodes: list[Any] | None = None, **settings: Any) -> Existing:
    model, nodes = Hashed(), stored_nodes() if nodes is None else nodes
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes, embed_model=model, storage_context=context, **settings)
    model.asked.clear()
    return Existing(index, model, nodes)


def open_again(make: Any, folder: Any, nodes: list[Any] | None = None) -> Existing:
    """Fill a store in a folder, close it, and open an index over it that has nothing else."""
    first = fill(make(folder), nodes)
    close(first.index.vector_store)
    model = Hashed()
    return Existing(VectorStoreIndex.from_vector_store(make(folder), embed_model=model), model, first.nodes)


def delete(index: VectorStoreIndex, node_id: str) -> None:
    """Delete a node from the vector store."""
    if type(index.vector_store).__name__ != "FaissVectorStore":  # cannot delete
        index.delete_nodes([node_id])


def close(store: Any) -> None:
    with suppress(AttributeError):
        store.client.close()  # Qdrant locks its folder


@pytest.fixture(params=KEEP_TEXT)
def make(request):
    """Makes stores that keep the text of nodes."""
    return maker(request.param, request)


@pytest.fixture(params=[*STORES, "pgvector", *(f"{name}, opened again" for name in KEEP_TEXT), "simple, opened again"])
def existing(request, tmp_path):
    name, _, again = request.param.partition(", ")
    if not again:
        found = fill(maker(name, request)(None))
    elif name == "simple":
        first = fill(simple(None))
        first.index.storage_context.persist(str(tmp_path / "store"))
        context = StorageContext.from_defaults(persist_dir=str(tmp_path / "store"))
        model = Hashed()
        found = Existing(load_index_from_storage(context, embed_model=model), model, first.nodes)
    else:
        found = open_again(maker(name, request), tmp_path / "store")
    yield found
    close(found.index.vector_store)


def test_nothing_is_embedded_again(existing, caplog):
    with caplog.at_level(logging.INFO, "llama_graphrag"):
        retriever = GraphRAGRetriever.from_index(existing.index, similarity_top_k=3)
    assert existing.model.asked == []
    assert "5 nodes: 5 with their own embedding" in caplog.text
    ours = [record.levelname for record in caplog.records if record.name.startswith("llama_graphrag")]
    assert ours == ["INFO"]
    assert named("keyring") in [found.node_id for found in retriever.retrieve(QUESTION)]
    assert existing.model.texts == []


def test_nodes_are_those_of_the_store(existing):
    found = GraphRAGRetriever.from_index(existing.index, similarity_top_k=5).retrieve(QUESTION)
    by_id = {one.node_id: one.node for one in found}
    assert by_id.keys() == {node.node_id for node in existing.nodes}
    for node in existing.nodes:
        same = by_id[node.node_id]
        metadata = {key: value for key, value in same.metadata.items() if key != "graphrag"}
        assert (same.text, metadata, same.ref_doc_id) == (node.text, node.metadata, node.ref_doc_id)
        assert same.relationships == node.relationships
        assert type(same) is TextNode


def test_later_changes_are_taken_over(existing, tmp_path):
    with GraphRAGRetriever.from_index(existing.index, path=tmp_path / "kb"):
        pass
    delete(existing.index, named("lunch"))
    existing.index.insert_nodes([TextNode(id_=named("new"), text="Grace Hopper wrote a compiler.")])
    existing.model.asked.clear()
    with GraphRAGRetriever.from_index(existing.index, path=tmp_path / "kb") as retriever:
        assert named("lunch") in retriever.index, "what is gone from the store stays if nobody asks"
        assert named("new") in retriever.index
    with GraphRAGRetriever.from_index(existing.index, path=tmp_path / "kb", remove_missing=True) as retriever:
        assert not retriever.index.verify().problems
        gone = set() if type(existing.index.vector_store).__name__ == "FaissVectorStore" else {named("lunch")}
        expected = {node.node_id for node in existing.nodes} - gone | {named("new")}
        assert set(retriever.index.document_ids()) == expected
    assert existing.model.asked == []


def test_a_collection_that_llama_index_did_not_write():
    """Filled with chromadb alone: text and metadata are there, and no node."""
    store, model = chroma(None), Hashed()
    texts = [node.text for node in make_nodes()]
    store.client.add(
        ids=[node.node_id for node in make_nodes()],
        documents=texts,
        embeddings=model.get_text_embedding_batch(texts),
        metadatas=[{"tenant": node.metadata["tenant"]} for node in make_nodes()],
    )
    model.asked.clear()
    retriever = GraphRAGRetriever.from_index(VectorStoreIndex.from_vector_store(store, embed_model=model))
    assert model.asked == []
    found = {one.node_id: one.node for one in retriever.retrieve(QUESTION)}
    assert found["keyring"].text == next(node.text for node in make_nodes() if node.node_id == "keyring")
    assert found["keyring"].metadata["tenant"] == "acme"


# -- stores without a reader here


class Hosted(BasePydanticVectorStore):
    """A store that nobody has written a reader for. It keeps the nodes."""

    stores_text: bool = True
    kept: dict = {}  # noqa: RUF012 - pydantic copies it

    @property
    def client(self):
        return self.kept

    def add(self, nodes, **kwargs):
        self.kept.update({node.node_id: node for node in nodes})
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id, **kwargs):
        raise NotImplementedError

    def query(self, query, **kwargs):
        raise NotImplementedError


def test_a_store_without_a_reader_says_what_to_do_and_a_function_reads_it(caplog):
    existing = fill(Hosted())
    with pytest.raises(InputError, match=r"Hosted cannot be read: .*read=function.*from_nodes"):
        GraphRAGRetriever.from_index(existing.index)
    retriever = GraphRAGRetriever.from_index(existing.index, read=lambda index: iter(index.vector_store.kept.values()))
    assert len(retriever.index) == 5
    assert existing.model.asked == []
    assert caplog.records == []
