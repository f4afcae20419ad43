"""What LangChain applications rely on: retries, fallbacks, deduplication, blank pages, settings changed later."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from uuid import UUID

import pytest
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import (
    DocumentCompressorPipeline,
    EmbeddingsFilter,
    LLMChainExtractor,
)
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumps, loads
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from graphrag_core import KnowledgeIndex
from graphrag_core.errors import EmbedderError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

with warnings.catch_warnings():  # the package says that it will not be continued
    warnings.simplefilter("ignore")
    from langchain_community.document_transformers import EmbeddingsRedundantFilter

ASKED = ["Who runs the Auth Service?", "Where is Keyring?", "What does the OAuth Provider speak to?"]
ID = UUID("12345678-1234-5678-1234-567812345678")


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
        "types", [{}, {"retry_if_exception_type": (EmbedderError,)}, {"retry_if_exception_type": (RateLimitError,)}]
    )
    async def test_is_tried_again(self, limited, types):
        retrying = limited.with_retry(stop_after_attempt=3, wait_exponential_jitter=False, **types)
        model = outage(limited, 2)
        assert ids(retrying.invoke("Tallinn"))[0] == "keyring"
        assert model.asked == 3
        model = outage(limited, 2)
        assert ids(await retrying.ainvoke("Who is Keyring?"))[0] == "keyring"
        assert model.asked == 3

    @pytest.mark.parametrize(
        "types", [{}, {"exceptions_to_handle": (EmbedderError,)}, {"exceptions_to_handle": (RateLimitError,)}]
    )
    async def test_leads_to_the_fallback(self, limited, types):
        outage(limited)
        chain = limited.with_fallbacks([limited.bind(method="keyword")], **types)
        assert ids(chain.invoke("Tallinn"))[0] == "keyring"
        assert ids(await chain.ainvoke("Tallinn"))[0] == "keyring"
        assert ids(chain.batch(["Tallinn"])[0])[0] == "keyring"


def restored(found):
    """Return a document as a LangGraph checkpoint restores it."""
    serde = JsonPlusSerializer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return serde.loads_typed(serde.dumps_typed(found))


def rag_fusion(lists):
    """The recipe of LangChain's tutorials."""
    scores = {}
    for found in lists:
        for rank, document in enumerate(found):
            text = dumps(document)
            scores[text] = scores.get(text, 0) + 1 / (rank + 60)
    return [loads(text) for text, _ in sorted(scores.items(), key=lambda pair: -pair[1])]


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

    def test_are_equal(self, twice, documents):
        given = {document.id: document for document in documents}
        for one, two in twice:
            assert type(one.metadata) is dict
            assert one == two == given[one.id]
            assert dumps(one) == dumps(two) == dumps(given[one.id])
            assert json.dumps(one.metadata) == json.dumps(two.metadata)

    @pytest.mark.parametrize(
        "copied",
        [
            copy.copy, copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found)),
            lambda found: found.model_copy(deep=True), lambda found: loads(dumps(found)),
            lambda found: Document(**found.model_dump()), restored,
        ],
    )  # fmt: skip
    def test_keep_everything_when_copied(self, retriever, copied):
        detailed = retriever.model_copy(update={"add_metadata": ["score", "graphrag"]})
        for found in detailed.invoke(QUESTION):
            again = copied(found)
            assert again == found
            assert again.metadata["score"] == found.metadata["score"] >= 0
            assert again.metadata["graphrag"]["entities"] == ["Auth Service"]

    def test_are_unchanged_when_they_are_added_again(self, retriever):
        generation = retriever.index.stats().generation
        retriever.add_documents(retriever.invoke(QUESTION, k=5))
        assert retriever.index.stats().generation == generation

    async def test_come_once_from_a_multi_query(self, retriever):
        llm = FakeListChatModel(responses=["\n".join(ASKED)])
        multi = MultiQueryRetriever.from_llm(retriever, llm)
        for found in (multi.invoke(QUESTION), await multi.ainvoke(QUESTION)):
            assert sorted(ids(found)) == ["auth", "keyring", "lunch", "oauth", "secret"]

    def test_come_once_from_an_ensemble(self, retriever, documents):
        store = InMemoryVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=8))
        for document in documents:
            document.metadata["name"] = document.id
        retriever.add_documents(documents)
        store.add_documents(documents)
        others = [retriever, store.as_retriever(search_kwargs={"k": 5}), retriever.bind(method="keyword")]
        for key in ({}, {"id_key": "name"}):
            found = EnsembleRetriever(retrievers=others, weights=[0.4, 0.3, 0.3], **key).invoke(QUESTION)
            assert len(found) == 5
        merged = MergerRetriever(retrievers=[retriever, store.as_retriever(search_kwargs={"k": 5})]).invoke(QUESTION)
        assert len(merged) == 10
        assert len([one for at, one in enumerate(merged) if one not in merged[:at]]) == 5

    def test_come_once_from_compressors(self, retriever):
        model = HashEmbedder()

        class Model(Embeddings):
            def embed_documents(self, texts):
                return model.embed_documents(texts).tolist()

            def embed_query(self, text):
                return model.embed_query(text).tolist()

        multi = MultiQueryRetriever.from_llm(retriever, FakeListChatModel(responses=["\n".join(ASKED)]))
        redundant = EmbeddingsRedundantFilter(embeddings=Model())
        near = EmbeddingsFilter(embeddings=Model(), k=3)
        extractor = LLMChainExtractor.from_llm(FakeListChatModel(responses=["An extract."]))
        for steps, count in (([redundant], 5), ([redundant, near], 3), ([redundant, extractor], 5)):
            compressor = DocumentCompressorPipeline(transformers=steps)
            found = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=multi).invoke(QUESTION)
            assert len(found) == count
        compressed = ContextualCompressionRetriever(
            base_compressor=DocumentCompressorPipeline(transformers=[redundant]), base_retriever=retriever
        )
        both = [document for question in ASKED for document in compressed.invoke(question)]
        assert len([one for at, one in enumerate(both) if one not in both[:at]]) == 5

    def test_come_once_from_parallel_runs(self, retriever):
        both = RunnableParallel(a=retriever, b=retriever.bind(method="vector"), c=retriever.bind(use_graph=False))
        fused = (both | RunnableLambda(lambda found: rag_fusion(found.values()))).invoke(QUESTION)
        assert len(fused) == 5
        union = {
            json.dumps(one.metadata) + one.page_content for found in both.invoke(QUESTION).values() for one in found
        }
        assert len(union) == 5

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
    @pytest.mark.parametrize("kind", [Limited, LimitedOnTheLoop])
    async def test_are_skipped_with_one_warning(self, kind, caplog):
        with GraphRAGRetriever.from_documents(PAGES, kind()) as retriever:
            assert len(retriever.index) == 2
        with GraphRAGRetriever.from_documents([], kind()) as retriever:
            assert retriever.add_documents(PAGES) == ["1", "4"]
            assert await retriever.aadd_documents(PAGES) == ["1", "4"]
            response = {"succeeded": ["1", "4"], "failed": ["2", "3"]}
            assert retriever.upsert(PAGES) == response
            assert await retriever.aupsert(PAGES) == response
        with GraphRAGRetriever.from_texts(["", "Keyring."], kind()) as retriever:
            assert len(retriever.index) == 1
        assert len(caplog.records) == 6
        assert "2 documents without text were skipped: '2' (scan.pdf, page 1), '3' (a.html)" in caplog.text

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


class TestLongDocuments:
    LONG = "# Keyring\n\n" + "Keyring is a company from Tallinn. " * 100 + "\n\n# Lunch\n\n" + "Lunch is at noon. " * 60
    SHORT = "# Keyring\n\n" + "Keyring is a company. " * 12 + "\n\n# Lunch\n\n" + "Lunch is at noon. " * 12

    def test_are_split_and_short_ones_stay_as_they_are(self):
        with GraphRAGRetriever.from_texts([self.LONG, self.SHORT], HashEmbedder(), ids=["long", "short"]) as retriever:
            chunks = retriever.index.chunks("long")
            assert [chunk.id for chunk in chunks] == [f"long#{n}" for n in range(len(chunks))]
            assert len(chunks) > 3
            (short,) = retriever.index.chunks("short")
            assert (short.id, short.text) == ("short", self.SHORT)
            found = retriever.invoke("Tallinn", k=1)
            assert {document.metadata["document_id"] for document in found} == {"long"}
            assert retriever.get(["long"])[0].page_content == self.LONG
            assert retriever.delete(["long"])["num_deleted"] == 1

    def test_that_are_short_are_those_of_an_index_that_splits_nothing(self, tmp_path):
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), chunker=None) as made:
            retriever = GraphRAGRetriever(index=made)
            retriever.add_documents([Document(id="short", page_content=self.SHORT)])
            whole = made.chunks("short")
        with GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder()) as retriever:
            generation = retriever.index.stats().generation
            retriever.add_documents([Document(id="short", page_content=self.SHORT)])
            assert retriever.index.stats().generation == generation, "nothing to do in an older index"
            assert retriever.index.chunks("short") == whole

    def test_of_a_graph_stay_whole(self):
        class Graph:
            nodes, relationships = [], []
            source = Document(id="long", page_content=self.LONG)

        with GraphRAGRetriever.from_graph_documents([Graph], HashEmbedder()) as retriever:
            assert [chunk.id for chunk in retriever.index.chunks("long")] == ["long"]
        with GraphRAGRetriever.from_documents([], HashEmbedder()) as retriever:
            retriever.add_graph_documents([Graph])
            assert [chunk.id for chunk in retriever.index.chunks("long")] == ["long"]
