"""Backups while a process writes, and what stays of deleted text in files."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from pathlib import Path

import pytest
from support import SERVICES

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.testing import CountingEmbedder, HashEmbedder

SECRET = "Zanzibarquux"  # noqa: S105 - a word


def test_a_backup_is_an_index_and_embeds_nothing(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", CountingEmbedder()) as index:
        index.add(SERVICES)
        index.graph.rename("Mara Lindqvist", "Mara Lind")
        index.backup(tmp_path / "copy")
        expected = list(index.documents())
        index.delete("auth")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["records.sqlite"]
    for read_only in (True, False, True):
        embedder = CountingEmbedder()
        with KnowledgeIndex.open(tmp_path / "copy", embedder, read_only=read_only) as copy:
            assert embedder.texts == []
            assert list(copy.documents()) == expected
            assert copy.graph.entity("Mara Lindqvist").name == "Mara Lind"
            assert GraphRetriever(copy).retrieve("auth service tokens").hits[0].chunk.id == "auth"
            assert copy.verify(), str(copy.verify())


def test_an_index_in_memory_can_be_backed_up(services, tmp_path):
    services.backup(tmp_path / "copy")
    with KnowledgeIndex.open(tmp_path / "copy", HashEmbedder()) as copy:
        assert list(copy.documents()) == list(services.documents())
        copy.add([Document("new", "A new document.")])
        assert copy.verify(), str(copy.verify())


def test_a_backup_is_written_to_a_new_folder_only(services, tmp_path):
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(InputError, match="choose a new folder"):
        services.backup(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    services.backup(tmp_path / "empty")
    assert KnowledgeIndex.exists(tmp_path / "empty")


def _write(folder: Path, ready: threading.Event, stop: threading.Event) -> None:
    with KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=2, progress=False) as index:
        number = 0
        while not stop.is_set():
            # Both documents of a batch have the same number: a torn copy would have two numbers.
            index.add(
                [Document(f"a{number % 5}", f"Version {number}."), Document(f"b{number % 5}", f"Version {number}.")]
            )
            if number % 7 == 6:
                index.delete([f"a{number % 5}", f"b{number % 5}"])
            number += 1
            ready.set()


@pytest.mark.skipif(sys.platform == "win32", reason="starts a fork server")
def test_backups_while_another_process_writes_are_whole(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["graphrag_core.testing"])
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=_write, args=(tmp_path / "kb", ready, stop))
    process.start()
    try:
        assert ready.wait(60)
        generations = []
        for turn in range(4):
            with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), read_only=True) as reader:
                reader.backup(tmp_path / f"copy{turn}")
            with KnowledgeIndex.open(tmp_path / f"copy{turn}", HashEmbedder(16)) as copy:
                texts = {document.id: document.text for document in copy.documents()}
                assert texts
                assert all(texts.get(f"b{key[1:]}") == text for key, text in texts.items() if key[0] == "a"), texts
                assert copy.verify(), str(copy.verify())
                generations.append(copy.stats().generation)
            time.sleep(0.05)
        assert process.is_alive()
        assert generations == sorted(generations)
    finally:
        stop.set()
        process.join()


def files_with(folder: Path, text: str) -> list[str]:
    wanted = (text.encode(), text.lower().encode())
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and any(word in path.read_bytes() for word in wanted)
    ]


def test_deleted_text_is_in_no_file_after_erase(tmp_path):
    text = " ".join(f"{SECRET}{number} unique words {number}" for number in range(3))
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        index.add([*SERVICES, Document("secret", f"{text} of {SECRET}.", SECRET)])
        assert files_with(tmp_path, SECRET)
        index.add([Document("secret", "Replaced.")])
        assert not [name for name in files_with(tmp_path, SECRET) if name.startswith("records")]
        assert index.erase() is True
        assert files_with(tmp_path, SECRET) == []
        index.add([Document("other", f"{SECRET} again.")])
        index.delete("other")
        assert index.erase() is True
        assert files_with(tmp_path, SECRET) == []
    assert files_with(tmp_path, SECRET) == []


def test_erase_says_if_a_reader_keeps_deleted_text(tmp_path, caplog):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        index.add([*SERVICES, Document("secret", f"{SECRET} is secret.")])
        with KnowledgeIndex.open(tmp_path, HashEmbedder(16), read_only=True) as reader:
            facts = reader.graph.iter_facts()
            next(facts)  # in the middle of a read
            index.delete("secret")
            assert index.erase() is False
            assert "repeat the call" in caplog.text
            facts.close()
            assert index.erase() is True
            assert "secret" not in reader
            assert files_with(tmp_path, SECRET) == []
