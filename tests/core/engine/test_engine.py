"""The embedded engine: what is written in the background, and what readers see meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from support import SERVICES, keyword_search

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.embedded import EmbeddedEngine
from graphrag_core.engine.embedded.engine import ReadWriteLock
from graphrag_core.errors import DocumentError, IndexClosed
from graphrag_core.filters import parse
from graphrag_core.ports import ParsedDocument
from graphrag_core.testing import HashEmbedder


def parsed(*documents: Document) -> list[ParsedDocument]:
    pipeline = KnowledgeIndex(HashEmbedder()).pipeline
    return pipeline.parse(documents, pipeline.used_extractor())


def numbered(count: int, first: int = 0) -> list[Document]:
    return [Document(str(i), f"Passage {i} of Ada Lovelace.") for i in range(first, first + count)]


def test_a_read_after_a_write_sees_it_without_a_flush():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.engine.write(parsed(*SERVICES))
        assert len(index.engine) == 4
        assert index.engine.generation == 1
        assert [chunk.id for chunk, _ in keyword_search(index, "Uppsala")] == ["mara"]
        index.engine.write(removed=["mara"])
        assert index.engine.document("mara") is None
        assert list(index.engine.document_ids(parse({"team": {"exists": True}}))) == ["log", "oauth"]
        assert index.verify()


def test_what_stopped_a_write_is_raised_by_the_next_call_and_nothing_is_stored():
    engine = EmbeddedEngine()
    engine.write(parsed(*SERVICES[:2]))
    engine.write(parsed(*SERVICES[1:]))
    with pytest.raises(DocumentError, match="'oauth': is already stored"):
        engine.flush()
    assert list(engine.document_ids()) == ["auth", "oauth"]
    engine.write(parsed(*SERVICES[1:]), removed=["oauth"])
    engine.write(parsed(SERVICES[0]))
    with pytest.raises(DocumentError, match="'auth'"):
        engine.write(parsed(Document("late", "Too late.")))
    engine.flush()
    assert list(engine.document_ids()) == ["auth", "log", "mara", "oauth"]
    assert engine.verify()
    engine.close()
    with pytest.raises(IndexClosed):
        engine.write(parsed(Document("late", "Too late.")))


@pytest.mark.parametrize("in_memory", [True, False])
def test_readers_see_complete_generations_while_many_batches_are_written(tmp_path, in_memory):
    settings = {"batch_size": 3, "progress": False}
    index = (
        KnowledgeIndex(HashEmbedder(), **settings)
        if in_memory
        else KnowledgeIndex.open(tmp_path, HashEmbedder(), **settings)
    )
    failures: list[BaseException] = []
    sizes = set()
    stop = threading.Event()

    def read():
        try:
            while not stop.is_set():
                with index.engine.reading() as indexes:
                    sizes.add(len(index))
                    assert len(index) == indexes.current_graph()[0].there.sum() == len(indexes.vectors["chunks"].keys)
                    assert {len(index)} == {indexes.keywords["chunks"].size}
                    assert indexes.generation == index.engine.records.generation
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test wants to see it
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    with index:
        for thread in threads:
            thread.start()
        index.add(iter(numbered(60)))
        index.delete([str(i) for i in range(20)])
        index.add(numbered(60, first=10))
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(sizes) > 2, "readers got in between the batches"
        assert all(size % 3 == 0 for size in sizes if size < 40)
        assert index.verify()
        assert len(index) == 60


def test_an_index_cannot_be_changed_by_a_thread_that_reads_it(services):
    with services.engine.snapshot() as snapshot:
        assert snapshot.generation == 1
        with pytest.raises(RuntimeError, match="while the same thread reads it"):
            services.delete("auth")
    assert services.delete("auth") == 1
    assert services.verify()


def test_a_lock_starves_nobody():
    lock = ReadWriteLock()
    turns: list[str] = []

    def use(name, hold):
        while len(turns) < 200:
            with hold():
                turns.append(name)
                time.sleep(0.001)

    threads = [threading.Thread(target=use, args=(f"writer {i}", lock.writing)) for i in range(2)]
    threads += [threading.Thread(target=use, args=(f"reader {i}", lock.reading)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(turns.count(name) > 5 for name in ("writer 0", "writer 1", "reader 0", "reader 1"))


def test_readers_read_at_the_same_time():
    lock, together = ReadWriteLock(), threading.Barrier(20)

    def read():
        with lock.reading():
            together.wait(60)

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken
    with lock.writing():
        pass


def test_settings_are_those_of_the_last_commit():
    with KnowledgeIndex(HashEmbedder()) as index:
        records = index.engine.records
        before = records.settings()
        before["caller"] = "keeps a copy"
        colour = "INSERT OR REPLACE INTO meta VALUES ('colour', ?)"
        with records.transaction() as db:
            db.execute(colour, ("red",))
        assert records.settings() == {**index.engine.settings(), "colour": "red"}
        assert "caller" not in records.settings()
        with suppress(ZeroDivisionError), records.transaction() as db:
            db.execute(colour, ("green",))
            assert records.settings()["colour"] == "green"
            raise ZeroDivisionError
        assert records.settings()["colour"] == "red"


def test_questions_share_a_view_until_a_remembered_fact_begins_or_ceases_to_be_valid():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.memory.remember("Ada Lovelace", "lives in", "London", valid_to="2020-01-01")
        index.memory.remember("Ada Lovelace", "lives in", "Bath", valid_from="2020-01-01")
        retriever = GraphRetriever(index, cache=None)
        found = [
            [hit.chunk.text for hit in retriever.retrieve("Where does Ada Lovelace live?", as_of=day)]
            for day in ("2019-03-01", "2019-04-01", "2021-01-01")
        ]
        assert found[0] == found[1] != found[2]
        assert len(index.engine.indexes.current_graph()[2]._views) == 2
