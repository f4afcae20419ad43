"""The LangChain retriever in forked processes, pickled, copied, and as a reader of what another process writes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fork_scenarios
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

DOCUMENTS = [
    Document("The Auth Service delegates logins to the OAuth Provider.", id="auth", metadata={"team": "a"}),
    Document("The OAuth Provider is run by Mara Lindqvist.", id="oauth", metadata={"team": "b"}),
]
QUESTION = "Who runs the OAuth Provider?"

_WRITE = """
import sys
from langchain_core.documents import Document
from langchain_graphrag import GraphRAGRetriever
from graphrag_core.testing import HashEmbedder
with GraphRAGRetriever.load(sys.argv[1], HashEmbedder()) as retriever:
    retriever.add_documents([Document("Lena Holm wrote the Ledger.", id="lena")])
"""


def write_elsewhere(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _WRITE, str(folder)], check=True, timeout=300)


def ids(documents) -> list[str]:
    return [document.id for document in documents]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_reads(tmp_path):
    fork_scenarios.run_scenario(fork_scenarios.langchain, tmp_path)


@pytest.mark.parametrize("embedding", [HashEmbedder(), DeterministicFakeEmbedding(size=8)], ids=["core", "langchain"])
def test_a_pickled_retriever_opens_the_folder(tmp_path, embedding):
    settings = {"k": 1, "filter": {"team": "b"}, "tags": ["mine"], "refresh_every": 5}
    with GraphRAGRetriever.from_documents(DOCUMENTS, embedding, path=tmp_path / "kb", **settings) as retriever:
        with pickle.loads(pickle.dumps(retriever)) as copied:
            assert (copied.settings, copied.filter) == (retriever.settings, retriever.filter)
            assert (copied.settings.k, copied.tags, copied.refresh_every) == (1, ["mine"], 5)
            assert copied._core.index is copied.index
            assert copied.invoke(QUESTION) == retriever.invoke(QUESTION)
            with pytest.raises(ReadOnlyIndex, match="copy"):
                copied.add_documents(DOCUMENTS)
        with pickle.loads(pickle.dumps(retriever | len)).first as in_a_chain:
            assert ids(in_a_chain.invoke(QUESTION)) == ["oauth"]


def test_a_deep_copy_opens_the_folder_and_shares_an_index_in_memory(tmp_path):
    with GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder(), path=tmp_path / "kb") as retriever:
        for copied in (copy.deepcopy(retriever), retriever.model_copy(deep=True)):
            with copied:
                assert copied.index is not retriever.index
                assert copied.invoke(QUESTION) == retriever.invoke(QUESTION)
    in_memory = GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder())
    assert copy.deepcopy(in_memory).index is in_memory.index
    with pytest.raises(InputError, match="in memory cannot be pickled"):
        pickle.dumps(in_memory)


async def test_a_reader_refreshes(tmp_path):
    with GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder(), path=tmp_path / "kb"):
        pass
    settings = {"read_only": True, "k": 1}
    with (
        GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder(), **settings) as told,
        GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder(), **settings) as awaited,
        GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder(), refresh_every=10, **settings) as timed,
    ):
        now = 0.0
        timed._core._clock = lambda: now
        assert ids(timed.invoke("Lena Holm")) != ["lena"]
        write_elsewhere(tmp_path / "kb")
        assert ids(told.invoke("Lena Holm")) != ["lena"]
        assert told.refresh()
        assert ids(told.invoke("Lena Holm")) == ["lena"]
        assert await awaited.arefresh()
        assert ids(await awaited.ainvoke("Lena Holm")) == ["lena"]
        now = 9.0
        assert ids(timed.invoke("Lena Holm")) != ["lena"]
        now = 10.0
        assert ids(await timed.ainvoke("Lena Holm")) == ["lena"]
