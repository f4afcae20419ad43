"""Documents come back as they were added; results are those of the core."""

from __future__ import annotations

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from graphrag_core import Chunker
from graphrag_core.errors import (
    EmbedderMismatch,
)
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestDocuments:
    def test_have_what_is_asked_for_beside_their_own(self):
        text = "# Workers\n\n## Pools\n\n" + "A pool forks its workers. " * 150
        own = {"page": 0, "score": "mine"}
        with GraphRAGRetriever.from_documents(
            [Document(text, id="long", metadata=own)], HashEmbedder(), k=2
        ) as retriever:
            first = retriever.invoke("pool")[0]
            assert type(first.metadata) is dict
            assert first.metadata == {**own, "section": "Pools", "document_id": "long"}
            assert retriever.model_copy(update={"add_metadata": []}).invoke("pool")[0].metadata == {
                **own, "document_id": "long",
            }  # fmt: skip
            asked = retriever.model_copy(update={"add_metadata": ("channels", "path", "score")}).invoke("pool")[0]
            assert asked.metadata.keys() == {"page", "score", "document_id", "channels", "path"}
            assert asked.metadata["score"] == "mine"
        short = [Document("Keyring.", id="x")]
        with GraphRAGRetriever.from_documents(short, HashEmbedder(), add_metadata=["document_id"]) as one:
            assert one.invoke("Keyring")[0].metadata == {"document_id": "x"}

    def test_without_id_have_the_same_one_every_time(self):
        documents = [Document(page_content="Keyring."), Document(page_content="Keyring.", metadata={"a": 1})]
        with GraphRAGRetriever.from_documents([], HashEmbedder()) as retriever:
            first = retriever.add_documents(documents)
            assert len(set(first)) == 2
            assert retriever.add_documents([*documents, documents[0]]) == first
            assert len(retriever.index) == 2
            retriever.add_documents(retriever.invoke("Keyring"))
            assert len(retriever.index) == 2

    def test_that_are_long_are_split_unless_told_otherwise(self):
        text, short = "Keyring is a company. " * 200, "# Keyring\n\nA company.\n\n# Lunch\n\nLunch is at noon."
        both = [Document(text, id="long"), Document(short, id="short")]
        with GraphRAGRetriever.from_documents(both[:1], HashEmbedder(), chunker=None) as retriever:
            assert ids(retriever.invoke("Keyring")) == ["long"]
        with GraphRAGRetriever.from_documents(both, HashEmbedder()) as retriever:
            assert [chunk.id for chunk in retriever.index.chunks("long")][:2] == ["long#0", "long#1"]
            assert [(chunk.id, chunk.text) for chunk in retriever.index.chunks("short")] == [("short", short)]
        chunker = Chunker(max_tokens=64, overlap=0, whole_until=64)
        with GraphRAGRetriever.from_documents(both[:1], HashEmbedder(), chunker=chunker) as retriever:
            found = retriever.invoke("Keyring", k=3)
            assert all(document.id.startswith("long#") for document in found)
            assert {document.metadata["document_id"] for document in found} == {"long"}
            assert retriever.get(["long"])[0].page_content == text
            assert retriever.delete(["long"])["num_deleted"] == 1
            assert retriever.invoke("Keyring") == []


class Named(DeterministicFakeEmbedding):
    model: str = ""


class TestFolders:
    def test_refuse_another_embedding(self, documents, tmp_path):
        GraphRAGRetriever.from_documents(documents, Named(size=8, model="small"), path=tmp_path / "kb").close()
        with pytest.raises(EmbedderMismatch, match=r"Named\(small\), not with .*Named\(large\)"):
            GraphRAGRetriever.load(tmp_path / "kb", Named(size=8, model="large"))
        GraphRAGRetriever.load(tmp_path / "kb", Named(size=8, model="small")).close()


class Listens(BaseCallbackHandler):
    def __init__(self):
        self.runs = []

    def on_retriever_start(self, serialized, query, *, tags=None, metadata=None, name=None, **kwargs):
        self.runs.append([name, query, sorted(tags), metadata])

    def on_retriever_end(self, documents, **kwargs):
        self.runs[-1].append(len(documents))

    def on_retriever_error(self, error, **kwargs):
        self.runs[-1].append(type(error).__name__)


class TestTracing:
    async def test_tells_names_tags_and_models(self, documents):
        settings = {"tags": ["kb"], "metadata": {"team": "search"}, "k": 2}
        with GraphRAGRetriever.from_documents(documents, Named(size=8, model="small"), **settings) as retriever:
            listens = Listens()
            config = {"callbacks": [listens], "tags": ["call"], "run_name": "look up"}
            retriever.invoke(QUESTION, config)
            await retriever.ainvoke(QUESTION, {**config, "run_name": None})
            retriever.with_config(tags=["bound"]).invoke(QUESTION, {"callbacks": [listens]})
        first, second, third = listens.runs
        assert [first[0], second[0]] == ["look up", "GraphRAGRetriever"]
        assert first[2] == ["call", "kb"]
        assert third[2] == ["bound", "kb"]
        assert first[3]["team"] == "search"
        assert first[3]["ls_retriever_name"] == "graphrag"
        assert first[4] == second[4] == 2
