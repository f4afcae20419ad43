"""What LangChain applications rely on: retries, fallbacks, deduplication, blank pages, settings changed later."""

from __future__ import annotations

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MergerRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

from graphrag_core.errors import EmbedderError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

ASKED = ["Who runs the Auth Service?", "Where is Keyring?", "What does the OAuth Provider speak to?"]


class RateLimitError(Exception):
    """As in the clients of paid services."""

    def __init__(self, message, *, status_code):
        super().__init__(message)
        self.status_code = status_code


class Limited(Embeddings):
    """Fails on the next ``failures`` questions."""

    def __init__(self, failures=0):
        self.failures, self.asked, self._inner = failures, 0, HashEmbedder()

    def embed_documents(self, texts):
        return self._inner.embed_documents(texts).tolist()

    def embed_query(self, text):
        self.asked += 1
        if self.failures > 0:
            self.failures -= 1
            raise RateLimitError("slow down", status_code=429)
        return self._inner.embed_query(text).tolist()


class LimitedOnTheLoop(Limited):
    async def aembed_query(self, text):
        return self.embed_query(text)


def ids(documents) -> list[str]:
    return [document.id for document in documents]


@pytest.fixture(params=[Limited, LimitedOnTheLoop])
def limited(request, documents):
    with GraphRAGRetriever.from_documents(documents, request.param()) as retriever:
        yield retriever


def outage(retriever, failures=10**6):
    model = retriever.index.embedding.embedder
    model.failures, model.asked = failures, 0
    return model


class TestAnEmbeddingThatFails:
    @pytest.mark.parametrize(
        "types", [{}, {"exceptions_to_handle": (EmbedderError,)}, {"exceptions_to_handle": (RateLimitError,)}]
    )
    async def test_leads_to_the_fallback(self, limited, types):
        outage(limited)
        chain = limited.with_fallbacks([limited.bind(method="keyword")], **types)
        assert ids(chain.invoke("Tallinn"))[0] == "keyring"
        assert ids(await chain.ainvoke("Tallinn"))[0] == "keyring"
        assert ids(chain.batch(["Tallinn"])[0])[0] == "keyring"


@pytest.mark.filterwarnings("ignore:The default value of `allowed_objects`")
@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
class TestDocumentsOfOnePassage:
    @pytest.fixture
    def twice(self, retriever):
        first, second = (
            {document.id: document for document in retriever.invoke(question, k=5)} for question in ASKED[:2]
        )
        assert first.keys() == second.keys()
        return [(first[name], second[name]) for name in first]

    async def test_come_once_from_an_ensemble(self, retriever, documents):
        store = InMemoryVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=8))
        for document in documents:
            document.metadata["name"] = document.id
        retriever.add_documents(documents)
        store.add_documents(documents)
        others = [retriever, store.as_retriever(search_kwargs={"k": 5}), retriever.bind(method="keyword")]
        for key in ({}, {"id_key": "name"}):
            ensemble = EnsembleRetriever(retrievers=others, weights=[0.4, 0.3, 0.3], **key)
            found = ensemble.invoke(QUESTION)
            assert len(found) == 5
            assert ids(await ensemble.ainvoke(QUESTION)) == ids(found)
        merged = MergerRetriever(retrievers=[retriever, store.as_retriever(search_kwargs={"k": 5})]).invoke(QUESTION)
        assert len(merged) == 10
        assert len([one for at, one in enumerate(merged) if one not in merged[:at]]) == 5

    def test_are_indexed_once(self, retriever):
        manager = InMemoryRecordManager("other")
        manager.create_schema()
        store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        for number, question in enumerate(ASKED):
            found = retriever.invoke(question, k=5)
            counts = index([*found, *found], manager, store, cleanup=None, key_encoder="sha256")
            assert counts["num_added"] == (0 if number else 5)
        assert len(store.store) == 5


PAGES = [
    Document(id="1", page_content="Keyring is a company."),
    Document(id="2", page_content=" \n", metadata={"source": "scan.pdf", "page": 1}),
    Document(id="3", page_content="\u00a0", metadata={"source": "a.html"}),
    Document(id="4", page_content="Tallinn is a city."),
]


class TestBlankPages:
    @pytest.mark.parametrize("cleanup", ["incremental", "full"])
    def test_do_not_stop_the_indexing_api(self, retriever, cleanup):
        manager = InMemoryRecordManager("kb")
        manager.create_schema()
        pages = [Document(page_content=page.page_content, metadata={"source": page.id}) for page in PAGES]
        settings = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
        before = len(retriever.index)
        assert index(pages, manager, retriever, **settings)["num_added"] == 4
        assert len(retriever.index) == before + 2
        assert index(pages, manager, retriever, **settings)["num_skipped"] == 4
        pages[0] = Document(page_content="", metadata={"source": "1"})
        index(pages, manager, retriever, **settings)
        assert len(retriever.index) == before + 1
