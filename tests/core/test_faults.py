"""After any exception at any line of a write the same object answers from one generation. See fault_runs.py."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import sys
import threading
from pathlib import Path

import fault_runs
import filelock
import pytest
from fault_runs import OPERATIONS, answers, interrupt, lines_of, make_base, on_a_full_disk, state_of
from support import SERVICES

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import DiskError
from graphrag_core.testing import HashEmbedder

SAMPLE = 4  # lines of each operation; benchmarks/torture/faults.py takes all


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


@pytest.mark.parametrize("failing", [1, 2, 7])
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


def test_an_interrupted_close_can_be_repeated(tmp_path, monkeypatch):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder())
    index.add(SERVICES)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(filelock.FileLock, "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.close()
    index.close()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as again:
        assert len(again) == 4


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
@pytest.mark.parametrize("name", ["add", "delete", "rebuild", "erase"])
def test_an_error_on_a_full_disk_says_what_is_true(tmp_path, name):
    for limit in (1, 130_000):
        folder = make_base(tmp_path / f"{limit}")
        problem = _run(folder, name, limit)
        assert not problem, f"{limit} bytes\n{problem}"


@pytest.mark.parametrize("name", ["rebuild", "erase"])
def test_what_rebuilds_on_a_full_disk_can_be_repeated(tmp_path, monkeypatch, name):
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add([*SERVICES, *(Document(f"note {at}", f"Note {at} about Keyring.") for at in range(20))])
        index.delete("note 7")
        assert answers(index)[0]

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(DiskError, match="free disk space, and repeat the call"):
                getattr(index, name)()
        expected = answers(index)
        assert expected[0]
        index.rebuild()
        assert answers(index) == expected
        assert index.verify(), str(index.verify())
