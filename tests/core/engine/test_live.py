"""A view that follows small changes is the one that is built from the remaining rows."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from changes import MORE, SETTINGS, TITLES, some_document

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, Trace
from graphrag_core.engine.embedded import search_indexes
from graphrag_core.engine.embedded.engine import ReadWriteLock
from graphrag_core.engine.embedded.search_indexes import SearchIndexes
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph
from graphrag_core.engine.graph.masked import LiveUses, MaskedGraph
from graphrag_core.engine.graph.scoped import ScopedGraph
from graphrag_core.engine.graph.sparse import Growing
from graphrag_core.testing import HashEmbedder

QUESTIONS = ["Who met Ada Lovelace?", "auth service session", "What did the AMA write to IBM?"]


def make_index() -> KnowledgeIndex:
    return KnowledgeIndex(HashEmbedder(16), **SETTINGS)


def view_of(index):
    with index.engine.reading() as indexes:
        return indexes.current_graph()[0]


def assert_equal(found, wanted, what) -> None:
    found, wanted = (each if isinstance(each, tuple) else (each,) for each in (found, wanted))
    assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True)), what


def assert_as_built(view, graph) -> None:
    """Compare all that queries read with what a graph that is built from the rows says."""
    fresh = LiveGraph.build(graph._there(), graph._similar)
    mine = view.arrays()
    for name, array in fresh.arrays().items():
        assert np.array_equal(mine[name], array), name
    state = view.state(graph._kept())
    loaded = LiveGraph.load(graph._there(), {name: Growing(array.copy()) for name, array in state.items()})
    again = loaded.arrays()
    for name, array in fresh.arrays().items():
        assert np.array_equal(again[name], array), name
    nodes, facts = np.arange(fresh.node_limit), np.arange(len(fresh.fact_keys))
    chunks, entities = nodes[: fresh.first_entity], nodes[fresh.first_entity :]
    asked = {
        "edges": nodes, "degrees": nodes, "chunks_of_facts": facts, "entities_of": facts, "are_addresses": entities,
        "counts": entities, "about": entities, "facts_of": entities, "subjects": chunks, "names": entities,
        "ids": entities,
    }  # fmt: skip
    for other in (fresh, loaded):
        for method, numbers in asked.items():
            assert_equal(getattr(view, method)(numbers), getattr(other, method)(numbers), method)
        assert view.linked_share == other.linked_share
        assert np.array_equal(view.fact_statement, other.fact_statement)


@pytest.mark.parametrize("seed", range(6))
def test_after_each_change_the_view_is_the_one_that_is_built_from_the_rows(seed):
    chance = random.Random(seed)
    with make_index() as index:
        for _ in range(30):
            if chance.random() < 0.65:
                index.add([some_document(chance)])
            else:
                index.delete([f"d{chance.randint(0, 14)}" for _ in range(chance.randint(1, 3))])
            if chance.random() < 0.8:  # else the next view has several changes
                with index.engine.reading() as indexes:
                    assert_as_built(indexes.current_graph()[0], indexes.graph)
        assert index.verify()


@pytest.mark.parametrize("seed", range(4))
def test_a_mapped_view_follows_changes(tmp_path, seed):
    chance = random.Random(50 + seed)
    for _ in range(6):
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS) as index:
            for _ in range(chance.randint(0, 6)):
                if chance.random() < 0.65:
                    index.add({one.id: one for one in map(some_document, [chance] * chance.randint(1, 4))}.values())
                else:
                    index.delete([f"d{chance.randint(0, 14)}" for _ in range(chance.randint(1, 3))])
                with index.engine.reading() as indexes:
                    assert_as_built(indexes.current_graph()[0], indexes.graph)
            assert index.verify(), str(index.verify())


def test_a_reader_that_missed_many_changes_maps_the_saved_view(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS) as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(20)])
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS, read_only=True) as reader:
        view_of(reader)
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS) as index:
            index.add([Document(f"b{at}", MORE[at % len(MORE)]) for at in range(20)])
            index.delete("a3")
        with monkeypatch.context() as patch:
            patch.setattr(LiveGraph, "build", None)
            assert reader.refresh()
            assert len(view_of(reader).chunk_keys) == len(reader.engine.indexes.chunk_keys)
        assert_as_built(view_of(reader), reader.engine.indexes.graph)
        assert reader.verify(), str(reader.verify())


def test_closing_saves_many_changes_and_few_are_applied_again(tmp_path, monkeypatch):
    chance, saved = random.Random(3), []
    monkeypatch.setattr(search_indexes, "_FEW_CHANGES", 4)
    for count in (40, 2, 3, 30):
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS) as index:
            assert_as_built(view_of(index), index.engine.indexes.graph)
            for at in range(count):
                index.add([replace(some_document(chance), id=f"{count}-{at}")])
            if count < 4:
                index.delete([f"40-{count}"])
            assert index.verify(), str(index.verify())
        saved.append([path.name for path in (tmp_path / "kb").glob("derived/*")])
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16), **SETTINGS, read_only=True) as reader:
            assert_as_built(view_of(reader), reader.engine.indexes.graph)
            assert reader.verify(), str(reader.verify())
    assert saved[0] == saved[1] == saved[2] != saved[3]


def assert_masked(graph, visible) -> None:
    """Compare all that queries read in a scope with what is read from the uses of all spellings."""
    masked, wanted = (
        MaskedGraph(graph, visible),
        ScopedGraph(LiveUses(graph, visible), 0.0, GraphEdits(), has_edits=False),
    )
    chunks = np.flatnonzero(visible[graph.chunk_keys])
    entities = np.sort(wanted.top(100_000))
    facts = np.flatnonzero(visible[graph.chunk_keys[graph.chunks_of_facts(np.arange(len(graph.fact_keys)))]])
    assert masked.top(100_000).tolist() == wanted.top(100_000).tolist()
    assert masked.find(graph._hash.values.tolist()) == wanted.find(graph._hash.values.tolist())
    asked = {
        "edges": (nodes := np.concatenate([chunks, entities])), "degrees": nodes, "entities_of": facts,
        "counts": entities, "about": entities, "facts_of": entities, "subjects": chunks, "names": entities,
        "ids": entities, "of_names": graph.name_keys, "uses": graph.name_keys,
    }  # fmt: skip
    for method, numbers in asked.items():
        assert_equal(getattr(masked, method)(numbers), getattr(wanted, method)(numbers), method)
    degrees, most = wanted.degrees(nodes), np.full(len(nodes), 3.5)
    bounded = MaskedGraph(graph, visible).degrees(nodes, most)
    assert ((bounded == degrees) | ((bounded >= most) & (bounded <= degrees))).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_of_the_graph_through_a_mask_are_those_of_a_scope(seed):
    chance, random_flags = random.Random(seed), np.random.default_rng(seed)
    with KnowledgeIndex(HashEmbedder(16), **SETTINGS, merge_similar=0.9 if seed % 2 else None) as index:
        for _ in range(20):
            index.add([some_document(chance)])
        for _ in range(12):
            if chance.random() < 0.65:
                index.add([some_document(chance)])
            else:
                index.delete([f"d{chance.randint(0, 14)}" for _ in range(chance.randint(1, 3))])
            graph = view_of(index)
            for share in (0.1, 0.5, 0.9):
                visible = np.zeros(graph.key_limit, np.bool_)
                visible[graph.chunk_keys] = random_flags.random(len(graph.chunk_keys)) < share
                assert_masked(graph, visible)


@pytest.mark.parametrize("seed", range(3))
def test_many_small_changes_between_queries_give_the_results_of_a_fresh_index(seed):
    chance = random.Random(100 + seed)
    present: dict[str, Document] = {}
    with make_index() as lived:
        for step in range(24):
            if chance.random() < 0.65 or not present:
                document = some_document(chance)
                lived.add([document])
                present[document.id] = document
            else:
                lived.delete(gone := chance.choice(sorted(present)))
                del present[gone]
            GraphRetriever(lived, cache=False).retrieve(chance.choice(QUESTIONS))
            if step % 6 == 5:
                with make_index() as fresh:
                    fresh.add(present.values())
                    for question in QUESTIONS:
                        for where in (None, {"team": {"in": ["x"]}}) if len(present) > 3 else (None,):
                            found = [
                                replace(
                                    GraphRetriever(each, k=8, cache=False).retrieve(question, where=where),
                                    trace=Trace(),
                                    generation=0,
                                )
                                for each in (lived, fresh)
                            ]
                            assert found[0] == found[1], (step, question, where)


def test_a_change_does_not_build_the_view_again(monkeypatch):
    built = []
    build = LiveGraph.build
    monkeypatch.setattr(LiveGraph, "build", lambda *of: built.append(of) or build(*of))
    with make_index() as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)], TITLES[at % len(TITLES)]) for at in range(200)])
        retriever = GraphRetriever(index, cache=False)
        retriever.retrieve("Redis?")
        index.add([Document("first", "Redis met Mara.")])
        retriever.retrieve("Redis?")
        assert len(built) == 1
        for at in range(20):
            index.add([Document(f"b{at}", f"{MORE[at % len(MORE)]} Uppsala {at}.")])
            retriever.retrieve("Redis?")
            index.delete(f"a{at}")
            retriever.retrieve("Uppsala?")
        assert len(built) == 1
        index.add([Document(f"c{at}", MORE[at % len(MORE)]) for at in range(400)])
        retriever.retrieve("Redis?")
        assert len(built) == 2, "many changes at once are cheaper to build"
        assert index.verify()


def test_a_view_that_could_not_follow_is_built_again(monkeypatch):
    with make_index() as index:
        for at in range(4):
            index.add([Document(f"a{at}", MORE[at])])
            assert len(view_of(index).chunk_keys)
        with monkeypatch.context() as patch:
            patch.setattr(LiveGraph, "set_names", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            index.add([Document("b", MORE[5])])
            with pytest.raises(KeyboardInterrupt):
                view_of(index)
        assert_as_built(view_of(index), index.engine.indexes.graph)


@pytest.mark.parametrize("last", [None, "They left Uppsala with Mara."])
def test_what_came_and_went_between_two_views_was_never_there(tmp_path, last):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8)) as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(30)])
        len(index)
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8), read_only=True) as reader:
            view_of(reader)
            index.add([Document("b", "Redis likes Uppsala.")])
            reader.refresh()
            view_of(index)
            index.add([Document("x", "Xenon Gas met Redis.")])
            index.delete("x")
            if last is not None:
                index.add([Document("y", last)])
            index.refresh()  # does not apply what is in memory, but reads the journal
            reader.refresh()
            for each in (index, reader):
                assert_as_built(view_of(each), each.engine.indexes.graph)
                assert GraphRetriever(each).retrieve("Redis and Mara").hits
                assert each.verify()


def test_memory_does_not_grow_with_changes_that_cancel_out():
    with make_index() as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(60)])
        sizes = []
        for at in range(150):
            index.add([Document("b", f"{MORE[at % len(MORE)]} {at}.")])
            view_of(index)
            sizes.append(index.engine.indexes.graph.nbytes)
        assert max(sizes[75:]) <= 1.5 * max(sizes[:75])


def test_removed_vectors_are_never_found_and_change_nothing_else():
    vectors = np.random.default_rng(1).normal(size=(400, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lived, there = FaissVectors(), np.ones(400, np.bool_)
    assert len(lived.keys) == 0  # loads them: before that, changes are ignored
    lived.add(np.arange(300), vectors[:300])
    chance = random.Random(2)
    for at in range(300, 400):
        lived.add(np.array([at]), vectors[at : at + 1])
        gone = chance.randrange(at)
        lived.remove(np.array([gone]))
        there[gone] = False
        if at % 9 == 0:
            keys = np.flatnonzero(there[: at + 1])
            fresh = FaissVectors(lambda keys=keys: [(keys, vectors[keys])])
            assert np.array_equal(lived.keys, keys)
            for k in (3, 200, 400):
                for visible in (None, np.isin(np.arange(400), keys[::2])):
                    found = [each.search(vectors[:2], k, visible) for each in (lived, fresh)]
                    for one, other in zip(*found, strict=True):
                        assert_equal(one, other, (at, k))


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
