"""Retrievers in forked processes, pickled, copied, and as readers of what another process writes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fork_scenarios
import pytest

from graphrag_core import Document
from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("auth", "The Auth Service delegates logins to the OAuth Provider.", "", {"team": "a"}),
    Document("oauth", "The OAuth Provider is run by Mara Lindqvist.", "", {"team": "b"}),
]
QUESTION = "Who runs the OAuth Provider?"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_reads(framework, tmp_path):
    fork_scenarios.run_scenarios(framework.scenario, tmp_path)


@pytest.mark.parametrize("number", [0, 1], ids=["embedder of the core", "embedder of the framework"])
def test_a_pickled_retriever_opens_the_folder(framework, tmp_path, number):
    settings = {"k": 1, **framework.where(team="b")}
    embedder = framework.embedders()[number]
    with (
        framework.build(DOCUMENTS, embedder, path=tmp_path / "kb", **settings) as retriever,
        pickle.loads(pickle.dumps(retriever)) as copied,
    ):
        assert copied.settings == retriever.settings
        assert (copied.settings.k, copied.scope) == (1, retriever.scope)
        assert framework.retrieve(copied, QUESTION) == framework.retrieve(retriever, QUESTION)
        assert framework.ids(framework.retrieve(copied, QUESTION)) == ["oauth"]
        with pytest.raises(ReadOnlyIndex, match="open it for writing"):
            framework.add(copied, [Document("new", "Something new.")])


def test_a_deep_copy_opens_the_folder_and_shares_an_index_in_memory(framework, tmp_path):
    with (
        framework.build(DOCUMENTS, path=tmp_path / "kb") as retriever,
        copy.deepcopy(retriever) as copied,
    ):
        assert copied.index is not retriever.index
        assert framework.retrieve(copied, QUESTION) == framework.retrieve(retriever, QUESTION)
    in_memory = framework.build(DOCUMENTS)
    assert copy.deepcopy(in_memory).index is in_memory.index
    with pytest.raises(InputError, match="in memory cannot be pickled"):
        pickle.dumps(in_memory)


def write_elsewhere(framework, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", framework.WRITE, str(folder)], check=True, timeout=300)


async def test_a_reader_sees_what_another_process_writes(framework, tmp_path):
    def found(retriever):
        return framework.ids(framework.retrieve(retriever, "Lena Holm"))

    framework.build(DOCUMENTS, path=tmp_path / "kb").close()
    settings = {"read_only": True, "k": 1}
    with (
        framework.load(tmp_path / "kb", HashEmbedder(), **settings) as told,
        framework.load(tmp_path / "kb", HashEmbedder(), **settings) as awaited,
    ):
        assert found(told) != ["lena"]
        write_elsewhere(framework, tmp_path / "kb")
        assert found(told) == ["lena"]
        assert told.refresh()
        assert framework.ids(await framework.aretrieve(awaited, "Lena Holm")) == ["lena"]
