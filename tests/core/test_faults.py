"""After any exception at any line of a write the same object answers from one generation. See fault_runs.py."""

from __future__ import annotations

import errno
import multiprocessing
import random
import sys
import threading
from pathlib import Path

import fault_runs
import pytest
from fault_runs import LATE, OPERATIONS, answers, interrupt, lines_of, make_base, on_a_full_disk, state_of
from support import SERVICES, keyword_search

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.embedded import engine as engine_module
from graphrag_core.engine.embedded import search_indexes
from graphrag_core.engine.embedded.engine import ReadWriteLock
from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import Records
from graphrag_core.errors import DiskError
from graphrag_core.testing import HashEmbedder

SAMPLE = 6  # lines of each operation; benchmarks/torture/faults.py takes all


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("faults") / "base")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_exception_at_a_line_of_the_write_path(operation, base, tmp_path):
    chance = random.Random(operation.name)
    lines = lines_of(operation, base, tmp_path / "kb")
    assert len(lines) > SAMPLE
    for place in chance.sample(sorted(lines), SAMPLE):
        occurrence = chance.choice([1, chance.randint(1, lines[place])])
        error = chance.choice([KeyboardInterrupt, MemoryError])
        problem = interrupt(operation, base, tmp_path / "kb", place, occurrence, error)
        assert not problem, f"{error.__name__} at {Path(place[0]).name}:{place[1]}, {occurrence}. time\n{problem}"


# -- each of these failed before


def test_an_interrupt_just_after_the_commit_of_a_deletion(tmp_path, monkeypatch):
    """The indexes still had what the records had not: hits raised KeyError."""
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add(SERVICES)
        assert keyword_search(index, "tokens")

        real = engine_module.write

        def interrupted(*arguments):
            real(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                index.delete("auth")
        assert "auth" not in index
        hits = GraphRetriever(index, cache=None).retrieve("auth service tokens").hits
        assert "auth" not in {hit.chunk.id for hit in hits}
        assert index.verify(), str(index.verify())


def test_an_interrupt_just_after_the_commit_of_an_addition(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=1) as index:
        index.add(SERVICES[:1])
        real = engine_module.write
        calls = []

        def interrupted(*arguments):
            batch = real(*arguments)
            calls.append(batch)
            if len(calls) == 2:  # a batch is committed, and the next one follows with a gap
                raise KeyboardInterrupt
            return batch

        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                index.add(SERVICES[1:])
        index.add([LATE])
        assert {"auth", "oauth", "mara", "late"} <= set(state_of(index))
        assert index.verify(), str(index.verify())


def test_texts_of_an_interrupted_change_are_not_indexed_twice(monkeypatch):
    store = TantivyKeywords(None)
    store.apply(1, None, [(1, ("red fox",))])

    def interrupted():
        yield 2, ("blue fox",)
        raise KeyboardInterrupt

    import numpy as np

    nothing = np.empty(0, np.int64)
    with pytest.raises(KeyboardInterrupt):
        store.apply(2, nothing, interrupted())
    store.apply(2, nothing, [(2, ("blue fox",))])
    assert store.keys.tolist() == [1, 2]


@pytest.mark.parametrize("failing", range(1, 8))
def test_threads_that_cannot_be_started(tmp_path, monkeypatch, failing):
    """The writer's lock stayed held, and the next call waited forever."""
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=1) as index:
        index.add(SERVICES[:1])
        real, calls = threading.Thread.start, []

        def start(thread):
            calls.append(thread)
            if len(calls) == failing or failing == 7:
                raise RuntimeError("can't start new thread")
            real(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            index.add(SERVICES[1:])
            index.delete("log")
        assert set(state_of(index)) == {"auth", "oauth", "mara"}
        assert index.verify(), str(index.verify())


def test_an_interrupt_while_the_lock_is_released_does_not_keep_it():
    lock = ReadWriteLock()
    real = lock._leave
    calls = []

    def interrupted(token):
        calls.append(token)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(token)

    lock._leave = interrupted
    with pytest.raises(KeyboardInterrupt), lock.reading():
        pass
    with lock.writing():
        pass


def test_an_interrupted_close_can_be_repeated(tmp_path, monkeypatch):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder())
    index.add(SERVICES)

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Records, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.close()
    index.close()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as again:
        assert len(again) == 4


def test_the_first_batch_is_interrupted_and_the_settings_are_written_by_the_next(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        with monkeypatch.context() as patch:
            patch.setattr(index.engine, "write", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            patch.setattr(index.engine, "flush", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
            patch.setattr(index.pipeline, "_read_settings", lambda: None)
            with pytest.raises(KeyboardInterrupt):
                index.add(SERVICES)
        index.add(SERVICES)
        assert index.stats().dim == 16
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        assert index.verify(), str(index.verify())


# -- full disks


def _run(folder: Path, name: str, limit: int) -> str:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["graphrag_core.testing"])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=on_a_full_disk, args=(folder, name, limit, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(fault_runs.PATIENCE) else "deadlock"
    except EOFError:
        return "the process died"
    finally:
        process.kill() if process.is_alive() and not here.poll(0) else None
        process.join()


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize("name", ["add", "delete", "rebuild", "compact"])
def test_an_error_on_a_full_disk_says_what_is_true(tmp_path, name):
    for limit in (1, 40_000, 130_000, 400_000):
        folder = make_base(tmp_path / f"{limit}")
        problem = _run(folder, name, limit)
        assert not problem, f"{limit} bytes\n{problem}"


@pytest.mark.parametrize("name", ["rebuild", "compact"])
def test_what_rebuilds_on_a_full_disk_can_be_repeated(tmp_path, monkeypatch, name):
    monkeypatch.setattr(search_indexes, "_SMALL", 0)
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add([*SERVICES, *(Document(f"note {at}", f"Note {at} about Keyring.") for at in range(20))])
        index.delete("note 7")  # so few that the keyword index keeps a trace of it
        assert answers(index)[0]

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(TantivyKeywords, "_write_state", lambda store, **_: store.folder and full())
            with pytest.raises(DiskError, match="free disk space, and repeat the call"):
                getattr(index, name)()
        expected = answers(index)
        assert expected[0]
        index.rebuild()
        assert all(store.folder for store in index.engine.indexes.keywords.values()), "on disk again"
        assert answers(index) == expected
        assert index.verify(), str(index.verify())


def test_a_deletion_stays_one_if_the_log_cannot_be_emptied(tmp_path, monkeypatch, caplog):
    """It raised "nothing was changed" after it had deleted."""
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add(SERVICES)
        real = Records.rows

        def full(self, sql, parameters=()):
            if "wal_checkpoint" in sql:
                raise DiskError("database or disk is full")
            return real(self, sql, parameters)

        with monkeypatch.context() as patch:
            patch.setattr(Records, "rows", full)
            assert index.delete("auth") == 1
        assert "auth" not in index
        assert "could not be emptied" in caplog.text
        index.add([Document("next", "The next change empties the log.")])
        assert index.verify()
