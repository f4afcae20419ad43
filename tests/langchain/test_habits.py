"""What LangChain applications rely on: deduplication and blank pages."""

from __future__ import annotations

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MergerRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

from graphrag_core.testing import CHAIN_QUESTION as QUESTION

ASKED = ["Who runs the Auth Service?", "Where is Keyring?", "What does the OAuth Provider speak to?"]


def ids(documents) -> list[str]:
    return [document.id for document in documents]


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
