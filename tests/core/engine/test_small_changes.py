"""Small changes: a writer and its readers follow them one by one, or several at once, and lose none."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from statistics import median

import pytest
from changes import MORE, SETTINGS, TITLES, some_document
from support import snapshot

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.embedded import search_indexes
from graphrag_core.engine.embedded.engine import ReadWriteLock
from graphrag_core.engine.embedded.search_indexes import SearchIndexes
from graphrag_core.engine.graph.memory import MemoryGraph
from graphrag_core.testing import HashEmbedder


def open_index(folder, **more) -> KnowledgeIndex:
    return KnowledgeIndex.open(folder, HashEmbedder(16), **SETTINGS, **more)


def assert_like_fresh(index: KnowledgeIndex) -> None:
    """Compare all that an index answers with what one of the same documents does that is built in one go."""
    assert index.verify(), str(index.verify())
    with KnowledgeIndex(HashEmbedder(16), **SETTINGS) as fresh:
        fresh.add(index.documents())
        assert snapshot(index) == snapshot(fresh)


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_reader_that_missed_many_changes_maps_the_saved_graph(tmp_path, monkeypatch):
    with open_index(tmp_path / "kb") as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(20)])
    with open_index(tmp_path / "kb", read_only=True) as reader:
        assert len(snapshot(reader)["documents"]) == 20
        with open_index(tmp_path / "kb") as index:
            index.add([Document(f"b{at}", MORE[at % len(MORE)]) for at in range(20)])
            index.delete("a3")
        with monkeypatch.context() as patch:
            patch.setattr(MemoryGraph, "add", None)
            assert reader.refresh()
            assert len(snapshot(reader)["documents"]) == 39
        assert_like_fresh(reader)


def test_closing_saves_many_changes_and_few_are_applied_again(tmp_path, monkeypatch):
    chance, saved = random.Random(3), []
    monkeypatch.setattr(search_indexes, "_FEW_CHANGES", 4)
    for count in (40, 2, 3, 30):
        with open_index(tmp_path / "kb") as index:
            for at in range(count):
                index.add([replace(some_document(chance), id=f"{count}-{at}")])
            if count < 4:
                index.delete([f"40-{count}"])
            assert index.verify(), str(index.verify())
        saved.append([path.name for path in (tmp_path / "kb").glob("derived/*")])
        with open_index(tmp_path / "kb", read_only=True) as reader:
            assert_like_fresh(reader)
    assert saved[0] == saved[1] == saved[2] != saved[3]


def test_a_change_does_not_build_the_graph_again(monkeypatch):
    with KnowledgeIndex(HashEmbedder(16), **SETTINGS) as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)], TITLES[at % len(TITLES)]) for at in range(200)])
        retriever = GraphRetriever(index, cache=False)
        retriever.retrieve("Redis?")
        with monkeypatch.context() as patch:
            for method in ("packed", "_renumber"):
                patch.setattr(MemoryGraph, method, None)
            for at in range(20):
                index.add([Document(f"b{at}", f"{MORE[at % len(MORE)]} Uppsala {at}.")])
                retriever.retrieve("Redis?")
                index.delete(f"a{at}")
                retriever.retrieve("Uppsala?")
        assert_like_fresh(index)


@pytest.mark.parametrize("method", ["_add_names", "_slots", "_count", "add", "remove"])
def test_a_graph_that_has_half_a_change_is_built_again(monkeypatch, method):
    with KnowledgeIndex(HashEmbedder(16), **SETTINGS) as index:
        for at in range(4):
            index.add([Document(f"a{at}", MORE[at])])
            assert len(snapshot(index)["documents"]) == at + 1
        with monkeypatch.context() as patch:
            patch.setattr(MemoryGraph, method, interrupted)
            index.add([Document("a0", MORE[5])])
            with pytest.raises(KeyboardInterrupt):
                snapshot(index)
        assert_like_fresh(index)


@pytest.mark.parametrize("last", [None, "They left Uppsala with Mara."])
def test_what_came_and_went_between_two_reads_was_never_there(tmp_path, last):
    with open_index(tmp_path / "kb") as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(30)])
        len(index)
        with open_index(tmp_path / "kb", read_only=True) as reader:
            index.add([Document("b", "Redis likes Uppsala.")])
            reader.refresh()
            index.add([Document("x", "Xenon Gas met Redis.")])
            index.delete("x")
            if last is not None:
                index.add([Document("y", last)])
            index.refresh()  # does not apply what is in memory, but reads the journal
            reader.refresh()
            for each in (index, reader):
                assert GraphRetriever(each).retrieve("Redis and Mara").hits
                assert each.graph.entity("Xenon Gas") is None
                assert_like_fresh(each)


def test_a_burst_of_changes_is_published_together(tmp_path, monkeypatch):
    syncs = []
    sync = SearchIndexes.sync
    monkeypatch.setattr(
        SearchIndexes, "sync", lambda self, batches=(): syncs.append(len(batches)) or sync(self, batches)
    )
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8)) as index:
        for at in range(40):
            index.add([Document(f"d{at}", f"Ada met Bob {at}.")])
        assert len(syncs) < 30
        assert len(index) == 40
        assert GraphRetriever(index, k=40).retrieve("Ada", method="keyword").hits[39:]
        assert index.verify()


def test_a_reader_in_another_process_sees_a_burst_soon(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8)) as index:
        index.add([Document("d", "Ada met Bob.")])
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8), read_only=True) as reader:
            for at in range(5):
                index.add([Document(f"d{at}", f"Ada met Bob {at}.")])
            reader.refresh()
            assert len(reader) == 6
            assert len(GraphRetriever(reader, k=9).retrieve("Ada", method="keyword").hits) == 6


BURST = """
import os, sys
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
index = KnowledgeIndex.open(sys.argv[1], HashEmbedder(8))
for at in range(10):
    index.add([Document(f"d{at}", f"Ada met Bob {at}.")])
os._exit(9)
"""


def test_what_was_confirmed_in_a_burst_survives_a_crash(tmp_path):
    done = subprocess.run([sys.executable, "-c", BURST, str(tmp_path / "kb")], check=False)
    assert done.returncode == 9
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8)) as index:
        assert len(index) == 10
        assert index.verify()
        assert len(GraphRetriever(index, k=20).retrieve("Ada", method="keyword").hits) == 10


def test_questions_are_answered_while_a_refresh_waits_for_the_writer(tmp_path, monkeypatch):
    waits, published = threading.Event(), threading.Event()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as writer:
        writer.add([Document("1", "Ada Lovelace wrote to Charles Babbage.")])
        with KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=True) as reader:
            indexes = reader.engine.indexes
            can_follow = indexes.can_follow

            def until_published():
                waits.set()
                return published.is_set() and can_follow()

            monkeypatch.setattr(indexes, "can_follow", until_published)
            writer.add([Document("2", "Ada Lovelace knew Mary Somerville.")])
            retriever, refreshed = GraphRetriever(reader), []
            refreshing = threading.Thread(target=lambda: refreshed.append(reader.refresh()))
            refreshing.start()
            waits.wait()
            assert [hit.chunk.document_id for hit in retriever.retrieve("Ada Lovelace").hits] == ["1"]
            published.set()
            refreshing.join()
            assert refreshed == [True]
            assert len(retriever.retrieve("Ada Lovelace").hits) == 2


def test_a_writer_waits_for_a_bounded_number_of_readers():
    lock, stop, entered = ReadWriteLock(), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            with lock.reading():
                entered.append(None)
                time.sleep(0.002)

    threads = [threading.Thread(target=read) for _ in range(64)]
    for thread in threads:
        thread.start()
    while len(entered) < 64:
        time.sleep(0.01)
    before = []
    for _ in range(20):
        count = len(entered)
        with lock.writing():
            before.append(len(entered) - count)
    stop.set()
    for thread in threads:
        thread.join()
    # Some may enter between the count and the request of the writer, if this thread is interrupted there.
    assert median(before) <= 64 + 16, "those inside, and those that waited for the writer before"


def test_readers_take_turns_with_a_writer_in_the_order_in_which_they_came():
    lock, stop, turns = ReadWriteLock(), threading.Event(), dict.fromkeys(range(40), 0)

    def read(number: int) -> None:
        while not stop.is_set():
            with lock.reading():
                turns[number] += 1

    def write() -> None:
        while not stop.is_set():
            with lock.writing():
                time.sleep(0.0005)

    threads = [threading.Thread(target=read, args=(number,)) for number in turns]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while min(turns.values()) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert min(turns.values()) >= 5, "no reader starves"
