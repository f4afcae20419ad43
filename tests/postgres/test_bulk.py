"""Bulk indexing with a real Ray on this machine: the index is the one that a single process builds."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from graphrag_apps import bulk
from graphrag_apps.demo import FOLDER
from graphrag_apps.documents import FileSource, load_documents, sync_files
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

QUESTIONS = ("Who leads the identity team?", "What did INC-2041 break?", "Which vendor does the Auth Service use?")
SMALL = {"num_cpus": 2, "object_store_memory": 80_000_000, "include_dashboard": False, "log_to_driver": False}


@pytest.fixture(scope="module")
def cluster():
    """A Ray of two processes. They are as important as others: Ray gives its workers a low priority."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'hybrid-graphrag[ray]'")
    pytest.importorskip("ray.data", reason="ray.data is not installed: pip install 'hybrid-graphrag[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        try:
            ray.init(**SMALL, logging_level="error")
        except Exception as error:  # noqa: BLE001 - no shared memory, no free port
            pytest.skip(f"ray cannot be started here: {error}")
        yield ray
        ray.shutdown()


pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray


def rankings(path):
    with KnowledgeIndex.open(path, HashEmbedder(), read_only=True) as index:
        retriever = GraphRetriever(index)
        assert index.verify()
        return [[(hit.chunk.id, round(hit.score, 4)) for hit in retriever.retrieve(text).hits] for text in QUESTIONS]


def test_the_result_is_that_of_one_process(cluster, url, urls):
    documents = list(load_documents([str(FOLDER)]))
    with KnowledgeIndex.open(one := urls(), HashEmbedder()) as index:
        index.add(documents)
        expected = index.stats()
    settings = {"workers": 2, "batch_size": 5, "progress": False}
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        index.add(documents[:7])  # of a run that was stopped
    added = bulk.index_documents(documents, url, HashEmbedder(), **settings)
    assert (added.added, added.unchanged) == (len(documents) - 7, 7)
    assert rankings(url) == rankings(one)
    with KnowledgeIndex.open(url, read_only=True) as index:
        found = index.stats()
    for name in ("documents", "chunks", "entities", "facts", "vectors", "relations"):
        assert getattr(found, name) == getattr(expected, name)


def test_files_are_read_by_workers(cluster, url, urls, tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.md").write_text(f"# Service {number}\n\nThe Auth Service calls Service {number}.")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"id": n, "text": f"Row {n} of Ada"}) for n in range(9)))
    (tmp_path / "broken.json").write_text("{")
    source = FileSource((str(tmp_path),), {"team": "identity"})
    report = bulk.sync_files(source, url, HashEmbedder(), workers=2, batch_size=4, progress=False)
    assert (report.added, len(report.problems)) == (15, 1)
    with KnowledgeIndex.open(one := urls(), HashEmbedder()) as index:
        sync_files(index, source)
    assert rankings(url) == rankings(one)
    (tmp_path / "1.md").unlink()
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": 0, "text": "Row 0 of Ada"}))
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        again = sync_files(index, source)  # one process continues where several were
    assert (again.added, again.removed, again.unchanged) == (0, 9, 6)


KILLED = """
import sys
from graphrag_apps import bulk
from graphrag_core import Document
from graphrag_core.testing import HashEmbedder
import ray
ray.init(num_cpus=2, object_store_memory=80_000_000, include_dashboard=False, log_to_driver=False)
documents = (Document(str(n), f"Ada Lovelace wrote letter {n} to Babbage.") for n in range(1000))
bulk.index_documents(documents, sys.argv[1], HashEmbedder(), workers=2, batch_size=20, progress=False)
"""


def test_a_run_that_was_killed_is_continued(cluster, url):
    KnowledgeIndex.open(url, HashEmbedder()).close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with KnowledgeIndex.open(url, read_only=True) as index:
        for _ in range(5):  # on a busy machine Ray gives up while it starts
            process = subprocess.Popen([sys.executable, "-c", KILLED, url], env=environment, start_new_session=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            try:
                while len(index) == 0 and process.poll() is None:
                    time.sleep(0.1)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
            if len(index):
                break
        else:
            pytest.skip("Ray does not start in another process")
    documents = [Document(str(n), f"Ada Lovelace wrote letter {n} to Babbage.") for n in range(1000)]
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        before = len(index)
        assert before > 0
        added = bulk.index_documents(documents, url, HashEmbedder(), workers=2, progress=False)
        assert added.added + added.unchanged == 1000
        assert added.unchanged >= before > 0
        assert len(index) == 1000
        assert index.verify()


def test_the_example_of_the_docs_runs(cluster, url):
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    (block,) = re.findall(r"```python postgresql ray\n(.*?)```", page, re.DOTALL)
    names = {"Document": Document, "embedder": HashEmbedder()}
    exec(block.replace("postgresql://graphrag@localhost/graphrag", url), names)  # noqa: S102 - our own page
    assert names["report"].added == 100


def test_the_command_takes_workers(cluster, url, tmp_path, monkeypatch):
    from commands import run_command

    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service issues tokens.")
    monkeypatch.setenv("NO_COLOR", "1")
    arguments = ["index", str(tmp_path), "--kb", url, "--embedder", "hash", "--workers"]
    result = run_command(*arguments, 1)
    assert "1 added, 0 changed, 0 removed, 0 unchanged: 1 documents" in result.stdout
    assert run_command(*arguments, 0).exit_code == 2
    folder = run_command("index", tmp_path, "--kb", tmp_path / "kb", "--embedder", "hash", "--workers", 1)
    assert folder.exit_code == 1
    assert "postgresql://" in folder.output
