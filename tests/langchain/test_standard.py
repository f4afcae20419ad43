"""LangChain's standard test suites for retrievers and document indexes."""

from __future__ import annotations

import pytest
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.indexer import AsyncDocumentIndexTestSuite, DocumentIndexerTestSuite

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return GraphRAGRetriever

    @property
    def retriever_constructor_params(self):
        made = KnowledgeIndex(WordLlama())
        made.add([Document(str(i), f"Service {i} is run by Team {i % 3}.") for i in range(9)])
        return {"index": made}

    @property
    def retriever_query_example(self):
        return "Who runs Service 4?"


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self):
        with GraphRAGRetriever.from_documents([], HashEmbedder()) as made:
            yield made


class TestDocumentIndexOnTheLoop(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self):
        with GraphRAGRetriever.from_documents([], HashEmbedder()) as made:
            yield made


def test_langchains_indexing_api_keeps_it_in_step_with_a_source(retriever, documents):
    records = InMemoryRecordManager("here")
    records.create_schema()
    for document in documents:
        document.metadata["source"] = document.id
    retriever.delete([document.id for document in documents])

    settings = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    assert index(documents, records, retriever, **settings)["num_added"] == 5
    assert index(documents, records, retriever, **settings)["num_skipped"] == 5
    outcome = index(documents[:3], records, retriever, **settings)
    assert outcome["num_deleted"] == 2
    assert len(retriever.index) == 3
    assert retriever.index.verify()


async def test_and_does_so_on_the_loop(retriever, documents):
    records = InMemoryRecordManager("here")
    await records.acreate_schema()
    outcome = await aindex(documents, records, retriever, cleanup=None, key_encoder="sha256")
    assert outcome["num_added"] == 5
