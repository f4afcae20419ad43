"""Mishaps that an index must come through: interruptions, damage, other threads, foreign output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from support import SERVICES

from graphrag_core import Document, Extraction, Fact, KnowledgeIndex
from graphrag_core.errors import ExtractionError, IndexClosed
from graphrag_core.testing import HashEmbedder


class Reads:
    """An extractor that gives what it is told to."""

    def __init__(self, extraction: Extraction) -> None:
        self.extraction = extraction

    def extract(self, chunks):
        return [self.extraction for _ in chunks]


def test_a_failed_first_call_leaves_a_new_index_new(tmp_path):
    with KnowledgeIndex.open(
        tmp_path, HashEmbedder(), extractor=Reads(Extraction(facts=(Fact(("A", "B"), "x", weight=float("nan")),)))
    ) as index:
        with pytest.raises(ExtractionError, match="cannot be stored"):
            index.add(SERVICES)
        assert index.stats().embedder == ""
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        assert index.add(SERVICES).added == 4
        assert index.stats().dim == 16


def test_closing_waits_for_an_add_in_another_thread(tmp_path):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=5)
    begun = threading.Event()

    def stream():
        for i in range(40):
            begun.set()
            yield Document(str(i), f"Text {i} of Ada Lovelace.")

    errors = []

    def add():
        try:
            index.add(stream())
        except IndexClosed as error:
            errors.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    begun.wait()
    index.close()
    thread.join()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as again:
        assert len(again) == 40
        assert again.verify()


def test_documents_are_never_torn_by_a_replacement(index):
    long = [f"{word} " * 3_000 for word in ("one", "two")]
    index.add([Document("a", long[0])])
    torn = []
    stop = threading.Event()

    def look():
        while not stop.is_set():
            document = index.get("a")
            if document is None or document.text not in long:
                torn.append(document)

    thread = threading.Thread(target=look)
    thread.start()
    for turn in range(8):
        index.add([Document("a", long[turn % 2])])
    stop.set()
    thread.join()
    assert torn == []


def test_verify_is_true_in_the_middle_of_a_long_add():
    with KnowledgeIndex(HashEmbedder(), batch_size=2) as index:
        seen = []

        def stream():
            for i in range(10):
                if i == 7:
                    seen.append(index.verify())
                yield Document(str(i), f"Text {i} of Ada Lovelace.")

        index.add(stream())
        assert seen[0], str(seen[0])


READ_ONLY = """
import encodings.cp437, os, sys
import graphrag_core.engine.engine, scipy.sparse  # before the files of Python cannot be read any more
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
from graphrag_core.errors import DiskError
folder = sys.argv[1]
if os.getuid() == 0:
    os.setuid(65534)
try:
    KnowledgeIndex.open(folder, HashEmbedder())
except DiskError as error:
    assert "read_only=True" in str(error)
else:
    raise AssertionError("a folder that cannot be written was opened for writing")
with KnowledgeIndex.open(folder, HashEmbedder(), read_only=True) as reader:
    assert GraphRetriever(reader).retrieve("tokens", k=1, method="keyword").hits[0].chunk.id == "auth"
    assert reader.verify(), str(reader.verify())
print("read")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_a_folder_that_cannot_be_written_can_be_read():
    folder = Path(tempfile.mkdtemp())
    try:
        with KnowledgeIndex.open(folder / "kb", HashEmbedder()) as index:
            index.add(SERVICES)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / "kb")],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.stdout.strip() == "read", done.stderr
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)
