"""LangChain's document compressors, and rerankers of the core, as the retriever's reranker."""

from __future__ import annotations

import asyncio
import re
from copy import deepcopy

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import (
    CrossEncoderReranker,
    DocumentCompressorPipeline,
    LLMChainExtractor,
    LLMListwiseRerank,
)
from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

from graphrag_core import GraphRetriever
from graphrag_core.errors import RerankerError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

LONG = 120  # timeout in seconds of what must not hang


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def overlap(question: str, text: str) -> float:
    return len(words(question) & words(text)) - len(text) / 1_000


class Overlap(BaseCrossEncoder):
    """A model that scores by common words."""

    def __init__(self):
        self.pairs = []

    def score(self, text_pairs):
        self.pairs.append(list(text_pairs))
        return [overlap(*pair) for pair in text_pairs]


class Copies(BaseDocumentCompressor):
    """Returns copies with a score and without an id, as the packages of Cohere and FlashRank do."""

    top_n: int = 3
    sign: int = 1

    def compress_documents(self, documents, query, callbacks=None):
        scored = [(self.sign * overlap(query, document.page_content), document) for document in documents]
        scored.sort(key=lambda pair: -pair[0])
        return [
            Document(
                page_content=document.page_content,
                metadata={"id": 7, **deepcopy(document.metadata), "relevance_score": score},
            )
            for score, document in scored[: self.top_n]
        ]


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def by_overlap(question, texts):
    return [overlap(question, text) for text in texts]


class TestACompressor:
    def test_orders_what_coverage_found(self, documents):
        model = Overlap()
        with GraphRAGRetriever.from_documents(
            documents, HashEmbedder(), reranker=CrossEncoderReranker(model=model, top_n=20)
        ) as retriever:
            found = retriever.search(QUESTION, k=2)
            covered = GraphRetriever(retriever.index).retrieve(QUESTION, k=5)
            assert [text.split("\n")[-1] for _, text in model.pairs[0]] == [hit.chunk.text for hit in covered]
            expected = GraphRetriever(retriever.index, reranker=by_overlap).retrieve(QUESTION, k=2)
            assert [hit.chunk.id for hit in found] == [hit.chunk.id for hit in expected]
            assert [hit.score for hit in found] == [1, 1 / 2], "it does not tell its scores"
            assert found.hits[0].channels == expected.hits[0].channels
            assert found.hits[0].path == expected.hits[0].path

    def test_of_which_the_score_is_known_gives_it_to_the_document(self, documents):
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), reranker=Copies(top_n=20)) as retriever:
            found = retriever.search(QUESTION, k=4)
            expected = GraphRetriever(retriever.index, reranker=by_overlap).retrieve(QUESTION, k=4)
            assert [(h.chunk.id, h.score) for h in found] == [(h.chunk.id, h.score) for h in expected]
            assert retriever.invoke(QUESTION)[0].metadata.keys() == documents[0].metadata.keys()

    def test_that_knows_documents_by_their_text_alone_is_understood(self, retriever):
        class Bare(Copies):
            def compress_documents(self, documents, query, callbacks=None):
                return [Document(page_content=one.page_content) for one in reversed(documents)]

        order = ids(retriever.invoke(QUESTION))
        assert ids(retriever.model_copy(update={"reranker": Bare()}).invoke(QUESTION)) == order[::-1]

    def test_that_changes_the_text_is_refused_with_advice(self, retriever):
        extractor = LLMChainExtractor.from_llm(FakeListChatModel(responses=["Only this."]))
        retriever = retriever.model_copy(update={"reranker": extractor})
        advice = r"LLMChainExtractor returned a text that it was not given.*ContextualCompressionRetriever"
        with pytest.raises(RerankerError, match=advice):
            retriever.invoke(QUESTION)
        retriever = retriever.model_copy(update={"reranker": True})
        found = ContextualCompressionRetriever(base_compressor=extractor, base_retriever=retriever).invoke(QUESTION)
        assert found[0].page_content == "Only this."

        class Adds(Copies):
            def compress_documents(self, documents, query, callbacks=None):
                return [*documents, Document(page_content="new")]

        retriever = retriever.model_copy(update={"reranker": Adds()})
        with pytest.raises(RerankerError, match="Adds returned a text that it was not given"):
            retriever.invoke(QUESTION)

    async def test_of_an_llm_is_a_part_of_the_trace(self, retriever):
        class Listens(BaseCallbackHandler):
            parents = {}  # noqa: RUF012 - for one test

            def on_retriever_start(self, serialized, query, *, run_id, **kwargs):
                self.retriever = run_id

            def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
                self.parents[run_id] = parent_run_id

        chain = RunnableLambda(lambda given: list(reversed(given["documents"])))
        order = ids(retriever.invoke(QUESTION))
        retriever = retriever.model_copy(update={"reranker": LLMListwiseRerank(reranker=chain, top_n=5)})
        listens = Listens()
        assert ids(retriever.invoke(QUESTION, {"callbacks": [listens]})) == order[::-1]
        assert list(listens.parents.values()) == [listens.retriever]
        listens.parents.clear()
        assert ids(await retriever.ainvoke(QUESTION, {"callbacks": [listens]})) == order[::-1]
        assert list(listens.parents.values()) == [listens.retriever]


class TestSettings:
    def test_survive_copies_and_bindings(self, retriever):
        other = retriever.model_copy(update={"reranker": Copies(top_n=1)})
        assert len(other.invoke(QUESTION)) == len(other.with_config(tags=["x"]).invoke(QUESTION)) == 1
        assert len(other.bind(k=3).invoke(QUESTION)) == 1
        assert len(retriever.invoke(QUESTION)) == 5

    def test_a_compressor_that_can_be_hashed_is_cached(self, retriever):
        calls = []

        class Frozen(Copies, frozen=True):
            def compress_documents(self, documents, query, callbacks=None):
                calls.append(query)
                return documents

        retriever = retriever.model_copy(update={"reranker": Frozen()})
        assert ids(retriever.invoke(QUESTION)) == ids(retriever.invoke(QUESTION))
        assert len(calls) == 1


class TestAsync:
    async def test_more_queries_than_threads_do_not_wait_for_each_other(self, retriever):
        """The pipeline's coroutine needs a thread for its plain compressor, while each query needs one too."""
        retriever = retriever.model_copy(
            update={"reranker": DocumentCompressorPipeline(transformers=[Copies(top_n=4), Copies(top_n=2)])}
        )
        queries = [retriever.ainvoke(f"{QUESTION} {i}") for i in range(100)]
        found = await asyncio.wait_for(asyncio.gather(*queries), LONG)
        assert {len(documents) for documents in found} == {2}
