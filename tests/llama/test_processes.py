"""The LlamaIndex retriever in forked processes, pickled, copied, and as a reader of what another process writes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fork_scenarios
import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever

QUESTION = "Who runs the OAuth Provider?"

_WRITE = """
import sys
from llama_graphrag import GraphRAGRetriever
from llama_index.core.schema import TextNode
from graphrag_core.testing import HashEmbedder
with GraphRAGRetriever.from_persist_dir(sys.argv[1], HashEmbedder()) as retriever:
    retriever.insert_nodes([TextNode(text="Lena Holm wrote the Ledger.", id_="lena")])
"""


def nodes() -> list[TextNode]:
    return [
        TextNode(text="The Auth Service delegates to the OAuth Provider.", id_="auth", metadata={"team": "a"}),
        TextNode(text="The OAuth Provider is run by Mara Lindqvist.", id_="oauth", metadata={"team": "b"}),
    ]


def write_elsewhere(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _WRITE, str(folder)], check=True, timeout=300)


def ids(found) -> list[str]:
    return [one.node.node_id for one in found]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_reads(tmp_path):
    fork_scenarios.run_scenario(fork_scenarios.llama, tmp_path)


@pytest.mark.parametrize("llm", [None, MockLLM()], ids=["rules", "llm"])
@pytest.mark.parametrize("embedding", [HashEmbedder(), MockEmbedding(8)], ids=["core", "llama"])
def test_a_pickled_retriever_opens_the_folder(tmp_path, embedding, llm):
    filters = MetadataFilters(filters=[MetadataFilter(key="team", value="b")])
    settings = {"similarity_top_k": 1, "filters": filters, "refresh_every": 5, "llm": llm}
    with (
        GraphRAGRetriever.from_nodes(nodes(), embedding, path=tmp_path / "kb", **settings) as retriever,
        pickle.loads(pickle.dumps(retriever)) as copied,
    ):
        assert copied.similarity_top_k == 1
        assert copied.filters == filters
        assert copied.retrieve(QUESTION) == retriever.retrieve(QUESTION)
        with pytest.raises(ReadOnlyIndex, match="copy"):
            copied.insert_nodes([TextNode(text="Something new.", id_="new")])


def test_a_deep_copy_opens_the_folder_and_shares_an_index_in_memory(tmp_path):
    with (
        GraphRAGRetriever.from_nodes(nodes(), HashEmbedder(), path=tmp_path / "kb") as retriever,
        copy.deepcopy(retriever) as copied,
    ):
        assert copied.index is not retriever.index
        assert ids(copied.retrieve(QUESTION)) == ids(retriever.retrieve(QUESTION))
    in_memory = GraphRAGRetriever.from_nodes(nodes(), HashEmbedder())
    assert copy.deepcopy(in_memory).index is in_memory.index
    with pytest.raises(InputError, match="in memory cannot be pickled"):
        pickle.dumps(in_memory)


async def test_a_reader_refreshes(tmp_path):
    with GraphRAGRetriever.from_nodes(nodes(), HashEmbedder(), path=tmp_path / "kb"):
        pass
    settings = {"read_only": True, "similarity_top_k": 1}
    with (
        GraphRAGRetriever.from_persist_dir(tmp_path / "kb", HashEmbedder(), **settings) as told,
        GraphRAGRetriever.from_persist_dir(tmp_path / "kb", HashEmbedder(), **settings) as awaited,
        GraphRAGRetriever.from_persist_dir(tmp_path / "kb", HashEmbedder(), refresh_every=10, **settings) as timed,
    ):
        now = 0.0
        timed._core._clock = lambda: now
        assert ids(timed.retrieve("Lena Holm")) != ["lena"]
        write_elsewhere(tmp_path / "kb")
        assert ids(told.retrieve("Lena Holm")) != ["lena"]
        assert told.refresh()
        assert ids(told.retrieve("Lena Holm")) == ["lena"]
        assert await awaited.arefresh()
        assert ids(await awaited.aretrieve("Lena Holm")) == ["lena"]
        now = 9.0
        assert ids(timed.retrieve("Lena Holm")) != ["lena"]
        now = 10.0
        assert ids(await timed.aretrieve("Lena Holm")) == ["lena"]
