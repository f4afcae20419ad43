"""Forks, pickles, deep copies and readers of an index that another process writes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import fork_scenarios
import pytest
from support import SERVICES

from graphrag_core import Cache, Document, GraphRetriever, KnowledgeIndex, forks
from graphrag_core.errors import InputError, NotAnIndex, ReadOnlyIndex
from graphrag_core.testing import HashEmbedder

FORKS = [
    "writer_is_inherited reader_is_inherited garbage_in_the_child with_block_ends_in_the_child index_in_memory",
    "child_holds_locks_of_its_own grandchildren the_parent_dies",
    "others_read others_write",
    "warming fork_pool",
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("scenarios", FORKS)
def test_a_process_forks(tmp_path, scenarios):
    fork_scenarios.run_scenarios(scenarios, tmp_path)


# -- copies


def opened(folder: Path, **settings) -> KnowledgeIndex:
    index = KnowledgeIndex.open(folder, HashEmbedder(), **settings)
    index.add(SERVICES)
    return index


def ids(retriever: GraphRetriever, question: str = "Who runs the OAuth Provider?") -> list[str]:
    return [hit.chunk.id for hit in retriever.retrieve(question).hits]


def test_a_pickled_index_opens_the_folder_for_reading(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(Path("kb"), batch_size=7) as index:
        data = pickle.dumps(index)
        monkeypatch.chdir("/")  # a worker has another folder
        with pickle.loads(data) as copied:
            assert copied.read_only
            assert copied.batch_size == 7
            assert list(copied.documents()) == list(index.documents())
            with pytest.raises(ReadOnlyIndex, match="open it for writing"):
                copied.add([Document("new", "Something new.")])
            index.delete("log")
            assert len(copied) == len(SERVICES) - 1


def test_a_pickled_retriever_has_its_settings_and_an_empty_cache(tmp_path):
    with opened(tmp_path / "kb") as index:
        retriever = GraphRetriever(index, k=2, method="keyword", cache=Cache(seconds=5))
        expected = ids(retriever)
        copied = pickle.loads(pickle.dumps(retriever))
        with copied.index:
            settings = copied.settings
            assert (settings.k, settings.method, copied.cache.seconds) == (2, "keyword", 5)
            assert len(copied.cache) == 0
            assert ids(copied) == expected


def test_a_deep_copy_of_a_retriever_opens_the_folder(tmp_path):
    with opened(tmp_path / "kb") as index:
        retriever = GraphRetriever(index)
        copied = copy.deepcopy(retriever)
        with copied.index:
            assert copied.index is not index
            assert copied.index.embedding.embedder is index.embedding.embedder
            assert ids(copied) == ids(retriever)


def test_a_deep_copy_shares_an_index_in_memory(services):
    retriever = GraphRetriever(services)
    assert copy.deepcopy(retriever).index is services


def test_an_index_in_memory_cannot_be_pickled(services):
    for value in (services, GraphRetriever(services)):
        with pytest.raises(InputError, match=r"in memory cannot be pickled.*path"):
            pickle.dumps(value)


class _Connected(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.connection = threading.Lock()

    def __repr__(self) -> str:
        return "<my client>"


def test_an_embedder_that_cannot_be_pickled_is_named(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", _Connected()) as index:
        with pytest.raises(InputError, match=r"<my client> cannot be pickled.*lock.*__getstate__"):
            pickle.dumps(GraphRetriever(index))
        with copy.deepcopy(index) as copied:  # shares it
            assert copied.embedding.embedder is index.embedding.embedder


# -- readers of an index that another process writes


_WRITE = """
import sys
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
with KnowledgeIndex.open(sys.argv[1], HashEmbedder()) as index:
    if sys.argv[2] == "add":
        index.add([Document(sys.argv[3], sys.argv[4])])
    else:
        index.delete(sys.argv[3])
"""


def write_elsewhere(folder: Path, *what: str) -> None:
    """Change an index in another process."""
    subprocess.run([sys.executable, "-c", _WRITE, str(folder), *what], check=True, timeout=300)


@pytest.fixture
def reader(tmp_path):
    opened(tmp_path / "kb").close()
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), read_only=True) as index:
        yield index


def test_a_reader_sees_at_once_what_another_process_writes(reader):
    retriever = GraphRetriever(reader)
    assert "lena" not in ids(retriever, "Lena Holm")
    write_elsewhere(reader.path, "add", "lena", "Lena Holm wrote the Ledger.")
    assert ids(retriever, "Lena Holm")[0] == "lena"  # no stale answer from the cache
    write_elsewhere(reader.path, "delete", "lena")
    assert "lena" not in ids(retriever, "Lena Holm")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_calls_into_libraries():
    """Tantivy initialises some values when they are first used: a child would wait for the thread that did so."""
    started, steps = threading.Event(), []

    def call():
        with forks.fork_waits:
            started.set()
            time.sleep(0.2)
            steps.append("the call ended")

    thread = threading.Thread(target=call)
    thread.start()
    started.wait()
    if (child := os.fork()) == 0:
        with forks.fork_waits:  # the child has no call of another thread
            os._exit(0 if steps else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    with forks.fork_waits:
        pass


def test_a_reader_waits_for_an_index_that_is_being_created(tmp_path):
    """Another process creates indexes one after the other: a reader sees none, an empty one, or a complete one."""
    code = """
import sys
from graphrag_core import Document, KnowledgeIndex
for number in range(12):
    with KnowledgeIndex.open(f"{sys.argv[1]}/{number}", progress=False) as index:
        index.add([Document("a", "The Auth Service calls Keyring.")])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment) as process:
        found = 0
        while found < 12:
            with suppress(NotAnIndex), KnowledgeIndex.open(tmp_path / str(found), read_only=True) as index:
                index.refresh()
                found += len(index) > 0
            assert process.poll() in (None, 0)
    assert process.returncode == 0
