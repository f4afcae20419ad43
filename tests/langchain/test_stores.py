"""``from_vectorstore`` on the stores people have: documents and vectors are read, nothing is embedded again."""

from __future__ import annotations

import uuid

import faiss
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from postgres_server import server

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

QUESTION = "Who supplies the library behind the Auth Service?"
COUNT = 25
NAMES = [str(uuid.UUID(int=number + 1)) for number in range(COUNT)]  # Qdrant takes UUIDs


class Counted(Embeddings):
    """An embedding model like a hosted one: it counts what it is asked for. Its vectors are not normalised."""

    model = "counted-1"

    def __init__(self, dim: int = 64) -> None:
        self.hashed = HashEmbedder(dim)
        self.texts: list[str] = []
        self.questions: list[str] = []

    def embed_documents(self, texts):
        self.texts += texts
        return [(vector * 3).tolist() for vector in self.hashed.embed_documents(texts)]

    def embed_query(self, text):
        self.questions.append(text)
        return (self.hashed.embed_query(text) * 3).tolist()


def texts() -> list[str]:
    chain = [
        "The Auth Service delegates logins to the OAuth Provider.",
        "The OAuth Provider is built on the Keyring library.",
        "The Keyring library comes from Tallinn Software.",
    ]
    return [*chain, *(f"Canteen menu {number}: soup, bread and apples." for number in range(COUNT - len(chain)))]


def metadatas() -> list[dict]:
    return [{"number": number, "kind": "service" if number < 3 else "menu"} for number in range(COUNT)]


def make_chroma(embedding, tmp_path):
    chroma = pytest.importorskip("langchain_chroma")
    chromadb = pytest.importorskip("chromadb")
    return chroma.Chroma(
        f"c{uuid.uuid4().hex}",
        embedding,
        client=chromadb.EphemeralClient(),
    )


def make_faiss(embedding, tmp_path):
    community = pytest.importorskip("langchain_community.vectorstores")
    docstore = pytest.importorskip("langchain_community.docstore.in_memory")
    return community.FAISS(embedding, faiss.IndexFlatL2(64), docstore.InMemoryDocstore(), {})


def make_qdrant(embedding, tmp_path):
    qdrant = pytest.importorskip("langchain_qdrant")
    client_module = pytest.importorskip("qdrant_client")
    client = client_module.QdrantClient(path=str(tmp_path / "qdrant"))
    vectors = client_module.models.VectorParams(size=64, distance=client_module.models.Distance.COSINE)
    client.create_collection("papers", {"dense": vectors})
    return qdrant.QdrantVectorStore(client, "papers", embedding, vector_name="dense")


def make_in_memory(embedding, tmp_path):
    return InMemoryVectorStore(embedding)


MAKERS = {
    "chroma": make_chroma,
    "faiss": make_faiss,
    "qdrant": make_qdrant,
    "in memory": make_in_memory,
}


@pytest.fixture
def embedding():
    return Counted()


@pytest.fixture(scope="session")
def address():
    pytest.importorskip("langchain_postgres")
    with server() as address:
        yield address


@pytest.fixture(params=[*MAKERS, "pgvector", "pgvectorstore"])
def store(request, embedding, tmp_path):
    if request.param in MAKERS:
        made, close = MAKERS[request.param](embedding, tmp_path), lambda: None
        client = getattr(made, "client", None)
        close = client.close if client is not None else close
    else:
        made, close = _postgres(request.param, request.getfixturevalue("address"), embedding)
    made.add_texts(texts(), metadatas(), ids=NAMES)
    embedding.texts.clear()
    yield made
    close()


def _postgres(kind, address, embedding):
    postgres = pytest.importorskip("langchain_postgres")
    pool = {"poolclass": pytest.importorskip("sqlalchemy").NullPool}  # no connection outlives its use
    if kind == "pgvector":
        name = uuid.uuid4().hex
        made = postgres.PGVector(embedding, connection=address, collection_name=name, engine_args=pool)

        def close():
            made.delete_collection()
            made._engine.dispose()

        return made, close
    engine = postgres.PGEngine.from_connection_string(address, **pool)
    table = f"t{uuid.uuid4().hex}"
    engine.init_vectorstore_table(table, 64, metadata_columns=[postgres.Column("kind", "TEXT")])
    made = postgres.PGVectorStore.create_sync(engine, embedding, table, metadata_columns=["kind"])
    return made, lambda: engine._run_as_sync(engine.close())


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestEveryStore:
    def test_is_read_without_embedding_a_document(self, store, embedding):
        with GraphRAGRetriever.from_vectorstore(store, k=3) as retriever:
            assert embedding.texts == []
            assert len(retriever.index) == COUNT
            assert retriever.index.verify()
            assert {document.id: document.text for document in retriever.index.documents()} == dict(
                zip(NAMES, texts(), strict=True)
            )
            assert [retriever.get([name])[0].metadata["number"] for name in NAMES] == list(range(COUNT))
            (found,) = retriever.search(texts()[7], k=1, method="vector")
            assert found.chunk.id == NAMES[7]
            assert found.channels["vector"].score == pytest.approx(1, abs=0.01)
            assert ids(retriever.invoke(QUESTION)) == NAMES[:3]
            assert embedding.texts == []
            assert len(embedding.questions) == 2

    def test_is_followed_when_it_changes(self, store, embedding, tmp_path):
        folder = tmp_path / "index"
        with GraphRAGRetriever.from_vectorstore(store, path=folder) as retriever:
            generation = retriever.index.stats().generation
        with GraphRAGRetriever.from_vectorstore(store, path=folder) as retriever:
            assert retriever.index.stats().generation == generation
        new = str(uuid.UUID(int=1_000))
        store.delete(ids=[NAMES[4]])
        store.add_texts(["The Keyring library has a new owner."], [{"number": 99, "kind": "service"}], ids=[new])
        embedding.texts.clear()
        with GraphRAGRetriever.from_vectorstore(store, path=folder) as retriever:
            assert len(retriever.index) == COUNT + 1
            assert NAMES[4] in retriever.index
            assert embedding.texts == []
            retriever.index.memory.remember("Ada", "likes", "tea")
        embedding.texts.clear()
        with GraphRAGRetriever.from_vectorstore(store, path=folder, remove_missing=True) as retriever:
            assert NAMES[4] not in retriever.index
            assert new in retriever.index
            assert len(retriever.index) == COUNT + 1
            assert [fact.entities[0] for fact in retriever.index.memory.facts()] == ["Ada"]
            assert retriever.index.verify()
        assert embedding.texts == []


class TestReading:
    def test_an_empty_store_does_not_empty_the_index(self, embedding, tmp_path):
        store = make_in_memory(embedding, tmp_path)
        store.add_texts(["Keyring."], ids=["a"])
        with GraphRAGRetriever.from_vectorstore(store, path=tmp_path / "index"):
            pass
        with pytest.raises(InputError, match="check the name of the collection"):
            GraphRAGRetriever.from_vectorstore(
                InMemoryVectorStore(embedding), path=tmp_path / "index", remove_missing=True
            )
        with GraphRAGRetriever.load(tmp_path / "index", embedding) as retriever:
            assert len(retriever.index) == 1


class TestEmbedding:
    def test_is_the_stores_own_unless_another_is_passed(self, embedding, tmp_path):
        store = make_in_memory(embedding, tmp_path)
        store.add_texts(texts(), ids=NAMES)
        mine = Counted()
        with GraphRAGRetriever.from_vectorstore(store, mine) as retriever:
            retriever.invoke(QUESTION)
        assert (mine.texts, mine.questions) == ([], [QUESTION])


class Closed(VectorStore):
    """A store that answers questions and cannot list its documents."""

    def __init__(self, embedding: Embeddings) -> None:
        self.inner = InMemoryVectorStore(embedding)

    @property
    def embeddings(self):
        return self.inner.embedding

    def similarity_search(self, query, k=4, **kwargs):
        return self.inner.similarity_search(query, k, **kwargs)

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        raise NotImplementedError


class TestOtherStores:
    def test_say_what_to_do(self, embedding):
        with pytest.raises(InputError, match=r"Closed cannot be read: pass read="):
            GraphRAGRetriever.from_vectorstore(Closed(embedding))
        with pytest.raises(InputError, match="takes a LangChain VectorStore, not list"):
            GraphRAGRetriever.from_vectorstore([])

    def test_take_a_reader_of_ones_own(self, embedding):
        def read(store):
            for row in store.inner.store.values():
                yield row["id"], row["text"], None, row["vector"]

        store = Closed(embedding)
        store.inner.add_texts(texts(), ids=NAMES)
        embedding.texts.clear()
        with GraphRAGRetriever.from_vectorstore(store, read=read, k=3) as retriever:
            assert ids(retriever.invoke(QUESTION)) == NAMES[:3]
            assert len(retriever.index) == COUNT
        assert embedding.texts == []


class TestVectorsOfOnesOwn:
    async def test_are_not_embedded_again(self, embedding):
        vectors = embedding.hashed.embed_documents(texts())
        documents = [Document(text, id=name) for name, text in zip(NAMES, texts(), strict=True)]
        with GraphRAGRetriever.from_documents([], embedding) as retriever:
            assert retriever.add_documents(documents, embeddings=vectors) == NAMES
            assert await retriever.aadd_documents([Document("Beta.", id="b")], embeddings=[vectors[1]]) == ["b"]
            with pytest.raises(InputError, match="got 25 documents and 24 embeddings"):
                retriever.add_documents(documents, embeddings=vectors[1:])
            assert embedding.texts == []
            assert retriever.index.verify()
