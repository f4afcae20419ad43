"""A process is killed (SIGKILL) while it writes; the index opens, whole, every time."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_runs import Lines, Place

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import NotAnIndex
from graphrag_core.testing import HashEmbedder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

BATCH = 3
State = dict[str, str]


def document(number: int, version: int, writer: str = "d") -> Document:
    text = f"Service {number} was revised by Ada Lovelace. It is version {version} of service {number}. " * 3
    return Document(f"{writer}{number}", text, f"Service {number}")


def steps(seed: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """Calls of add (of one to three batches), replacement and delete, and closings between."""
    chance = random.Random(seed)
    calls = []
    for turn in range(200):
        numbers = chance.sample(range(20), chance.randint(1, 3 * BATCH - 1))
        kind = chance.choice(["add", "add", "delete", "close"])
        calls.append((kind, [(n, turn) for n in numbers]))
    return calls


def states(state: State, kind: str, items: list[tuple[int, int]], writer: str = "d") -> list[State]:
    """The states in which a call may leave the documents: after each of its batches."""
    possible = [dict(state)]
    if kind == "add":
        for start in range(0, len(items), BATCH):
            state = state | {f"{writer}{n}": document(n, v).text for n, v in items[start : start + BATCH]}
            possible.append(dict(state))
    elif kind == "delete":
        possible.append({k: v for k, v in state.items() if k not in {f"{writer}{n}" for n, _ in items}})
    return possible


def work(place: Path | str, seed: int, log: Path, writer: str = "d") -> None:
    """Run the calls, writing down when each begins and returns."""
    with log.open("a", buffering=1) as out:
        index = KnowledgeIndex.open(place, HashEmbedder(16), batch_size=BATCH, progress=False)
        out.write('"open"\n')
        for number, (kind, items) in enumerate(steps(seed)):
            out.write(json.dumps(["begin", number]) + "\n")
            if kind == "add":
                index.add([document(n, v, writer) for n, v in items])
            elif kind == "delete":
                index.delete([f"{writer}{n}" for n, _ in items])
            else:
                index.close()
                index = KnowledgeIndex.open(place, HashEmbedder(16), batch_size=BATCH, progress=False)
            out.write(json.dumps(["end", number]) + "\n")


def wait_for_start(log: Path) -> None:
    """Wait until a process has opened the index."""
    while not log.exists() or not log.read_text("utf-8"):
        time.sleep(0.001)


def possible_states(log: Path, seed: int, state: State, writer: str = "d") -> list[State]:
    """The states in which a process that was killed may leave the documents, which had a state before."""
    allowed, calls = [state], steps(seed)
    for line in log.read_text("utf-8").splitlines()[1:]:
        if line.endswith("]"):
            word, number = json.loads(line)
            allowed = states(state, *calls[number], writer)
            if word == "end":
                state = allowed[-1]
                allowed = [state]
    return allowed


def start(target: Callable[..., None], *arguments: object) -> multiprocessing.Process:
    context = multiprocessing.get_context("forkserver")  # a fork of this process could inherit locked mutexes
    context.set_forkserver_preload(["graphrag_core.testing"])
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def check(folder: Path, allowed: list[State]) -> State:
    with KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=BATCH) as index:
        assert index.verify(), str(index.verify())
        found = {d.id: d.text for d in index.documents()}
    assert found in allowed
    return found


@pytest.mark.parametrize("seed", range(4))  # `make torture` kills for longer
def test_killed_at_a_random_moment(tmp_path, seed):
    kill_and_check(tmp_path, seed)


def kill_and_check(tmp_path: Path, seed: int) -> None:
    folder, log = tmp_path / "kb", tmp_path / "log"
    process = start(work, folder, seed, log)
    wait_for_start(log)
    time.sleep(random.Random(seed).uniform(0, 1.2))
    os.kill(process.pid, signal.SIGKILL)
    process.join()

    state = check(folder, possible_states(log, seed, {}))

    survivor = start(_add_one, folder)
    survivor.join()
    assert survivor.exitcode == 0
    check(folder, [state | {"d99": document(99, 0).text}])


def _add_one(folder: Path) -> None:
    with KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=BATCH) as index:
        index.add([document(99, 0)])


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _change_and_close(folder: Path) -> None:
    index = KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=BATCH)
    index.delete(["d1"])
    index.erase()
    index.add([document(2, 5), document(7, 0)])
    index.close()


def _filled(folder: Path) -> State:
    with KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=BATCH) as index:
        index.add([document(n, 0) for n in range(5)])
        return {d.id: d.text for d in index.documents()}


def _die_at(folder: Path, places: list[Place]) -> None:
    """Change the index in each of some folders, in a process that is killed at a line."""
    for number, place in enumerate(places):
        if (process := os.fork()) == 0:
            with Lines(place, error=_die):  # type: ignore[arg-type]
                _change_and_close(folder / str(number))
            os._exit(0)
        assert os.waitpid(process, 0)[1] in (0, signal.SIGKILL)


def test_killed_at_a_line(tmp_path):
    before = _filled(tmp_path / "whole")
    with Lines() as lines:
        _change_and_close(tmp_path / "whole")
    places = random.Random(17).sample(sorted(lines.counts), 6)
    for number in range(len(places)):
        _filled(tmp_path / str(number))
    process = start(_die_at, tmp_path, places)
    process.join()
    assert process.exitcode == 0
    deleted = {k: v for k, v in before.items() if k != "d1"}
    after = deleted | {"d2": document(2, 5).text, "d7": document(7, 0).text}
    for number in range(len(places)):
        with KnowledgeIndex.open(tmp_path / str(number), read_only=True) as reader:
            assert reader.verify(), str(reader.verify())
        check(tmp_path / str(number), [before, deleted, after])


def _create_and_die(folder: Path, places: list[Place]) -> None:
    """Create an index in each of some folders, in a process that is killed at a line."""
    for number, place in enumerate(places):
        if (process := os.fork()) == 0:
            with Lines(place, error=_die):  # type: ignore[arg-type]
                KnowledgeIndex.open(folder / str(number), HashEmbedder(16))
            os._exit(0)
        assert os.waitpid(process, 0)[1] == signal.SIGKILL


def test_killed_while_it_is_created_for_the_first_time(tmp_path, caplog):
    """Readers said that the index was damaged, and advised to restore a backup."""
    with Lines() as lines:
        KnowledgeIndex.open(tmp_path / "whole", HashEmbedder(16)).close()
    with Lines() as opened:
        KnowledgeIndex.open(tmp_path / "whole", HashEmbedder(16))
    places = random.Random(3).sample(sorted(lines.counts.keys() & opened.counts.keys()), 8)
    process = start(_create_and_die, tmp_path, places)
    process.join()
    assert process.exitcode == 0
    found = set()
    for number in range(len(places)):
        folder = tmp_path / str(number)
        try:
            with KnowledgeIndex.open(folder, read_only=True) as reader:
                found.add(f"{len(reader)} documents")
        except NotAnIndex as error:
            found.add(str(error).replace(str(folder), "FOLDER").partition(":")[0])
        with KnowledgeIndex.open(folder, HashEmbedder(16)) as index:
            index.add([document(1, 0)])
            assert index.verify(), str(index.verify())
    assert found <= {"FOLDER holds no index", "creating the index in FOLDER was interrupted", "0 documents"}
    assert "damaged" not in caplog.text
