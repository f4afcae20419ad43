"""Faults that an index must survive, one run each: exceptions at a line, damaged files, full disks.

``make test`` takes a sample of them, ``benchmarks/torture/faults.py`` all.
"""

from __future__ import annotations

import dis
import faulthandler
import random
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from support import SERVICES
from typing_extensions import Self

import graphrag_core
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import GraphRAGError, StorageError
from graphrag_core.testing import HashEmbedder

CORE = Path(graphrag_core.__file__).parent
WRITE_PATH = frozenset(
    map(
        str,
        (
            *(CORE / "engine").glob("*.py"),
            CORE / "ingest" / "pipeline.py",
            CORE / "index.py",
        ),
    )
)
PATIENCE = 60.0  # seconds after which a run counts as a deadlock
QUESTIONS = ('the "auth service"', "who runs the OAuth Provider?", "identity team in Uppsala")
KEYRING = Document("keyring", "Keyring stores the signing keys. Keyring is owned by Mara Lindqvist.", "Keyring")

State = dict[str, str]
Place = tuple[str, int]


def state_of(index: KnowledgeIndex) -> State:
    return {document.id: document.text for document in index.documents()}


def answers(index: KnowledgeIndex) -> list[Any]:
    """What queries of all methods return, in ids and rounded scores."""
    retriever = GraphRetriever(index, cache=None)
    found: list[Any] = []
    for question in QUESTIONS:
        for method in ("keyword", "vector", "hybrid"):
            hits = retriever.retrieve(question, k=4, method=method).hits
            found.append([(hit.chunk.id, hit.chunk.text, round(hit.score, 5)) for hit in hits])
    found.append(sorted((entity.name, entity.mentions) for entity in index.graph.entities()))
    return found


def make_base(folder: Path) -> Path:
    """Write a closed index that has seen additions, a replacement, a deletion and an edit."""
    with KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=2, progress=False) as index:
        index.add([*SERVICES, Document("gone", "Deleted text of the Vault.")])
        index.add([Document("mara", "Mara Lindqvist leads the identity team in Uppsala since May.")])
        index.delete("gone")
        index.erase()  # writes the arrays to a file; what follows is in segments
        index.memory.remember("Keyring", "is_owned_by", "Mara Lindqvist")
    return folder


# -- exceptions at a line


@dataclass
class Lines:
    """Counts the lines of the write path that all threads run, and raises at one of them."""

    place: Place | None = None
    occurrence: int = 1
    error: type[BaseException] = KeyboardInterrupt

    def __post_init__(self) -> None:
        self.counts: dict[Place, int] = {}
        self.raised = False
        self.entered: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _call(self, frame: Any, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename in WRITE_PATH else None

    def _line(self, frame: Any, event: str, argument: object) -> Any:
        if event == "line" and not self.raised and not self._leaves(frame):
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.counts[place] = self.counts.get(place, 0) + 1
            if place == self.place and self.counts[place] == self.occurrence:
                self.raised = True
                raise self.error("injected")
        return self._line

    def _leaves(self, frame: Any) -> bool:
        """Return whether nothing can be raised here but by a trace function.

        At ``try:`` Python does nothing. At the end of a ``with`` block it runs ``__exit__`` before signals.
        """
        if frame.f_code.co_code[frame.f_lasti] == dis.opmap["NOP"]:
            return True
        lines = _lines(frame.f_code.co_filename)
        if not lines[frame.f_lineno - 1].lstrip().startswith("with "):
            return False
        key = (id(frame), frame.f_lineno)
        seen = key in self.entered
        self.entered.add(key)
        return seen


@lru_cache
def _lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8").splitlines()


@dataclass(frozen=True)
class Operation:
    """A change of an index, and the states in which it may leave the documents."""

    name: str
    run: Callable[[KnowledgeIndex], object]
    states: Callable[[State], list[State]]
    warm: bool = True  # whether the index has answered before


def _added(state: State) -> list[State]:
    first = state | {"keyring": KEYRING.text, "auth": NEW_AUTH.text}
    return [state, first, first | {"late": LATE.text}]


def _queried(index: KnowledgeIndex) -> None:
    for method in ("hybrid", "keyword"):
        GraphRetriever(index, cache=None).retrieve(QUESTIONS[1], method=method, where={"team": "identity"})
    GraphRetriever(index, cache=None).retrieve(QUESTIONS[1])


NEW_AUTH = Document("auth", "The Auth Service was replaced by Keyring.", "Auth Service")
LATE = Document("late", "Late notes about Uppsala.")

OPERATIONS = (
    Operation("add", lambda index: index.add([KEYRING, NEW_AUTH, LATE]), _added),
    Operation("add to a cold index", lambda index: index.add([KEYRING, NEW_AUTH, LATE]), _added, warm=False),
    Operation(
        "delete",
        lambda index: index.delete(["auth", "log"]),
        lambda state: [state, {k: v for k, v in state.items() if k not in ("auth", "log")}],
    ),
    Operation("edit", lambda index: index.graph.rename("Mara Lindqvist", "Mara Lind"), lambda state: [state]),
    Operation("query", _queried, lambda state: [state], warm=False),
    Operation("erase", lambda index: index.erase(), lambda state: [state]),
    Operation("rebuild", lambda index: index.rebuild(), lambda state: [state]),
    Operation("close", lambda index: index.close(), lambda state: [state]),
)


def lines_of(operation: Operation, base: Path, work: Path) -> dict[Place, int]:
    """Return the lines that an operation runs, and how often."""
    with _opened(base, work, operation) as index, Lines() as lines:
        operation.run(index)
    return lines.counts


def interrupt(
    operation: Operation, base: Path, work: Path, place: Place, occurrence: int, error: type[BaseException]
) -> str:
    """Raise at a line of an operation, and use the same object afterwards; return what went wrong, or nothing."""
    return _in_time(lambda: _interrupt(operation, base, work, place, occurrence, error))


def _interrupt(
    operation: Operation, base: Path, work: Path, place: Place, occurrence: int, error: type[BaseException]
) -> None:
    index = _opened(base, work, operation)
    before = state_of(index)
    allowed = operation.states(before)
    try:
        with Lines(place, occurrence, error):
            operation.run(index)
        allowed = allowed[-1:]
    except error:
        pass
    except GraphRAGError as other:
        if "injected" not in f"{other} {other.__cause__!r}" and "interrupted" not in str(other):
            raise
    try:
        if operation.name != "close":
            found = state_of(index)
            assert found in allowed, f"documents {sorted(found)}"
            allowed = [found]
            _check(index, found)
            index.add([Document("second", "A second write about the Auth Service.")])
            allowed = [found | {"second": "A second write about the Auth Service."}]
            _check(index, allowed[0])
    except (StorageError, RuntimeError) as must_reopen:
        if "open it again" not in str(must_reopen):
            raise
    index.close()
    with KnowledgeIndex.open(work, HashEmbedder(16), batch_size=2, progress=False) as again:
        found = state_of(again)
        assert found in allowed, f"reopened: documents {sorted(found)}"
        _check(again, found)


def _opened(base: Path, work: Path, operation: Operation) -> KnowledgeIndex:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work)
    index = KnowledgeIndex.open(work, HashEmbedder(16), batch_size=2, progress=False)
    if operation.warm:
        GraphRetriever(index, cache=None).retrieve(QUESTIONS[0])
    return index


def _check(index: KnowledgeIndex, state: State) -> None:
    verified = index.verify()
    assert verified, str(verified)
    for method in ("keyword", "vector", "hybrid"):  # verify has compared the keys of all indexes with the records
        hits = GraphRetriever(index, cache=None).retrieve(QUESTIONS[0], k=len(state), method=method).hits
        assert {hit.chunk.document_id for hit in hits} <= state.keys()
        assert method != "vector" or len(hits) == len(state)


def _in_time(run: Callable[[], None]) -> str:
    """Run a function in a thread of its own; return its error, or that it does not end."""
    problems: list[str] = []

    def guarded() -> None:
        try:
            run()
        except BaseException:  # noqa: BLE001 - reported
            problems.append(traceback.format_exc())

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        faulthandler.dump_traceback(file=sys.__stderr__)
        return "deadlock"
    return problems[0] if problems else ""


def interrupts(base: Path, work: Path, chance: random.Random) -> Iterator[tuple[Operation, Place, int, type]]:
    """Yield every line of every operation, once at its first run and once at another, in random order."""
    cases = []
    for operation in OPERATIONS:
        for place, count in lines_of(operation, base, work).items():
            for occurrence in {1, chance.randint(1, count)}:
                error = chance.choice([KeyboardInterrupt, KeyboardInterrupt, MemoryError])
                cases.append((operation, place, occurrence, error))
    chance.shuffle(cases)
    yield from cases


# -- damage


@dataclass(frozen=True)
class Damage:
    """A change of a file: a bit that is flipped, bytes that are cut off, or the file removed."""

    file: str
    kind: str  # "flip", "truncate" or "remove"
    at: int = 0

    def apply(self, folder: Path) -> None:
        path = folder / self.file
        if self.kind == "remove":
            path.unlink()
            return
        data = bytearray(path.read_bytes())
        if self.kind == "truncate":
            del data[self.at :]
        else:
            data[self.at // 8] ^= 1 << self.at % 8
        path.write_bytes(data)


def damages(base: Path, chance: random.Random, flips: int) -> list[Damage]:
    """Return damages of every file: some flips, three truncations and the removal of each."""
    found = []
    for path in sorted(base.rglob("*")):
        if path.is_file() and path.stat().st_size and path.name != "writer.lock":
            name, size = path.relative_to(base).as_posix(), path.stat().st_size
            many = 10 if path.name == "records.sqlite" else 1
            used = [at for at, byte in enumerate(path.read_bytes()) if byte]  # most of a database are zeros
            found += [Damage(name, "flip", 8 * chance.choice(used) + chance.randrange(8)) for _ in range(many * flips)]
            found += [Damage(name, "truncate", at) for at in (0, size // 2, size - 1)]
            found.append(Damage(name, "remove"))
    return found


def damage(one: Damage, base: Path, work: Path, expected: list[Any], *, read_only: bool) -> tuple[str, str]:
    """Open a damaged copy; return what it did ("equal", "error", "reported"), and what went wrong, or nothing."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work)
    one.apply(work)
    outcome = ["equal"]

    def run() -> None:
        try:
            with KnowledgeIndex.open(work, HashEmbedder(16), read_only=read_only, progress=False) as index:
                try:
                    same = answers(index) == expected
                except GraphRAGError:
                    outcome[0], same = "error", True
                verified = index.verify()
                if outcome[0] != "error" and not same:
                    assert not verified, "other answers, and verify finds nothing"
                    outcome[0] = "reported"
        except GraphRAGError:
            outcome[0] = "error"

    return outcome[0] if not (problem := _in_time(run)) else "failed", problem


def limit_file_size(size: int) -> None:
    """Let no file of this process grow beyond a size, as on a full disk."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def on_a_full_disk(folder: Path, name: str, limit: int, answer: Any) -> None:
    """Run an operation with a limit of file sizes in this process; put what went wrong, or nothing."""
    try:
        operation = next(one for one in OPERATIONS if one.name == name)
        index = KnowledgeIndex.open(folder, HashEmbedder(16), batch_size=2, progress=False)
        before = state_of(index)
        allowed = operation.states(before)
        limit_file_size(limit)
        try:
            operation.run(index)
            allowed = allowed[-1:]
        except GraphRAGError as error:
            if "nothing was changed" in str(error) and name == "delete":
                allowed = [before]
        found = state_of(index)
        assert found in allowed, f"documents {sorted(found)}"
        _check(index, found)
        answer.send("")
    except BaseException:  # noqa: BLE001 - reported
        answer.send(traceback.format_exc())
