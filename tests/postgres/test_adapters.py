"""Both adapters over an index in PostgreSQL: the same code with another path."""

from __future__ import annotations

import copy
import os
import pickle
import traceback

import pytest

from graphrag_core.testing import CHAIN, CHAIN_QUESTION, HashEmbedder

QUESTIONS, PASSAGES = 12, 150


class LangChain:
    """The LangChain adapter, as the tests use it."""

    def __init__(self):
        self.documents = pytest.importorskip("langchain_core.documents")
        self.kind = pytest.importorskip("langchain_graphrag").GraphRAGRetriever

    def make(self, rows, embedder, **settings):
        documents = [
            self.documents.Document(id=key, page_content=text, metadata={"title": title}) for key, text, title in rows
        ]
        return self.kind.from_documents(documents, embedder, k=10, chunker=None, **settings)

    def load(self, path, embedder, **settings):
        return self.kind.load(path, embedder, k=10, chunker=None, **settings)

    def ids(self, retriever, question):
        return [document.id for document in retriever.invoke(question)]

    def add(self, retriever, key, text):
        retriever.add_documents([self.documents.Document(id=key, page_content=text)])


class LlamaIndex:
    """The LlamaIndex adapter, as the tests use it."""

    def __init__(self):
        self.schema = pytest.importorskip("llama_index.core.schema")
        self.kind = pytest.importorskip("llama_graphrag").GraphRAGRetriever

    def make(self, rows, embedder, **settings):
        nodes = [self.schema.TextNode(id_=key, text=text, metadata={"title": title}) for key, text, title in rows]
        return self.kind.from_nodes(nodes, embedder, similarity_top_k=10, **settings)

    def load(self, path, embedder, **settings):
        return self.kind.from_persist_dir(path, embedder, similarity_top_k=10, **settings)

    def ids(self, retriever, question):
        return [node.node.node_id for node in retriever.retrieve(question)]

    def add(self, retriever, key, text):
        retriever.insert_nodes([self.schema.TextNode(id_=key, text=text)])


@pytest.fixture(params=[LangChain, LlamaIndex], ids=["langchain", "llama_index"])
def adapter(request):
    return request.param()


ROWS = [(one.id, one.text, one.title) for one in CHAIN]


def test_pickles_and_copies_open_the_database_anew(adapter, url):
    with adapter.make(ROWS, HashEmbedder(), path=url.replace("postgres@", "postgres:s3cr3t@")) as retriever:
        expected = adapter.ids(retriever, CHAIN_QUESTION)
        assert "s3cr3t" not in repr(retriever) + str(retriever)
        pickled = pickle.dumps(retriever)
        copied = copy.deepcopy(retriever)
    for other in (pickle.loads(pickled), copied):
        with other:
            assert [key for key in adapter.ids(other, CHAIN_QUESTION) if key != "new"] == expected
            adapter.add(other, "new", "Zerzura Seven was described by Ada Lovelace.")
            assert adapter.ids(other, "Zerzura Seven")[0] == "new"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_connections_of_its_own(adapter, url):
    with adapter.make(ROWS, HashEmbedder(), path=url) as retriever:
        expected = adapter.ids(retriever, CHAIN_QUESTION)
        child = os.fork()
        if child == 0:
            try:
                assert adapter.ids(retriever, CHAIN_QUESTION) == expected
                adapter.add(retriever, "child", "Zerzura Seven was described by Ada Lovelace.")
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the child must not return
                traceback.print_exc()
                os._exit(1)
        for _ in range(5):
            assert set(expected) <= set(adapter.ids(retriever, CHAIN_QUESTION)) | {"child"}
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert adapter.ids(retriever, "Zerzura Seven")[0] == "child"
