"""Faults of processes, threads, disks and files, until the time is up: prints failures and returns counts."""

from __future__ import annotations

import logging
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]

import fault_runs  # type: ignore[import-not-found]  # noqa: E402
import test_crash  # type: ignore[import-not-found]  # noqa: E402

from graphrag_core import KnowledgeIndex  # noqa: E402
from graphrag_core.testing import HashEmbedder  # noqa: E402
from torture.report import Row  # noqa: E402

Run = tuple[str, str]
"""What a run ended in, and what went wrong, or nothing."""

FLIPS = 40  # bits of each file


def kills(base: Path, work: Path, chance: random.Random) -> Iterator[Run]:
    """Kill a process at a random moment while it adds, replaces, deletes, closes and opens."""
    del base
    while True:
        seed = chance.randrange(1 << 30)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            test_crash.kill_and_check(work, seed)
        except (AssertionError, Exception) as error:  # noqa: BLE001 - reported
            yield "failed", f"seed {seed}: {type(error).__name__}: {error}"
        else:
            yield "recovered", ""


def full_disks(base: Path, work: Path, chance: random.Random) -> Iterator[Run]:
    """Let no file grow beyond a limit, from one byte up to more than is needed: each write fails once."""
    context = multiprocessing.get_context("forkserver")
    limits = [(limit, name) for limit in range(1, 500_000, 4_096) for name in ("add", "delete", "erase", "edit")]
    chance.shuffle(limits)
    for limit, name in limits:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(base, work)
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=fault_runs.on_a_full_disk, args=(work, name, limit, there))
        process.start()
        there.close()
        try:
            problem = here.recv() if here.poll(fault_runs.PATIENCE) else "deadlock"
        except EOFError:
            problem = "the process died"
        if process.is_alive():
            process.join(1)
            process.kill()
        process.join()
        yield "failed" if problem else "consistent", f"{name}, {limit} bytes: {problem}" if problem else ""


def exceptions(base: Path, work: Path, chance: random.Random) -> Iterator[Run]:
    """Raise at every line of the write path."""
    for operation, place, occurrence, error in fault_runs.interrupts(base, work, chance):
        problem = fault_runs.interrupt(operation, base, work, place, occurrence, error)
        where = f"{operation.name}: {error.__name__} at {Path(place[0]).name}:{place[1]} ({occurrence})"
        yield "failed" if problem else "consistent", f"{where}: {problem}" if problem else ""


def damages(base: Path, work: Path, chance: random.Random) -> Iterator[Run]:
    """Flip bits in every file, cut it off, remove it."""
    with KnowledgeIndex.open(base, HashEmbedder(16), read_only=True) as index:
        expected = fault_runs.answers(index)
    everything = fault_runs.damages(base, chance, FLIPS)
    chance.shuffle(everything)
    for number, one in enumerate(everything):
        outcome, problem = fault_runs.damage(one, base, work, expected, read_only=number % 2 == 0)
        yield outcome, f"{one}: {problem}" if problem else ""


PARTS: dict[str, Callable[[Path, Path, random.Random], Iterator[Run]]] = {
    "kills": kills,
    "faults at a write": full_disks,
    "exceptions at a line": exceptions,
    "damaged files": damages,
}


def take_turns(parts: Mapping[str, Iterator[Run]], seconds: float) -> list[Row]:
    """Run all kinds of faults, each for as long as the others; print failures and return counts."""
    end = time.monotonic() + seconds
    running, spent = dict(parts), dict.fromkeys(parts, 0.0)
    counts: dict[str, Counter[str]] = {name: Counter() for name in parts}
    while running and (start := time.monotonic()) < end:
        name = min(running, key=lambda part: spent[part])
        result = next(running[name], None)
        spent[name] += time.monotonic() - start
        if result is None:
            del running[name]
            continue
        counts[name][result[0]] += 1
        if result[1]:
            print(f"{name}: {result[1]}", flush=True)
    rows = []
    for name, outcomes in counts.items():
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common() if outcome != "failed")
        finished = "" if name in running else " (all that there are)"
        rows.append(Row(name, outcomes.total(), outcomes["failed"], told + finished))
    return rows


def run(seconds: float, seed: int | None = None) -> list[Row]:
    """Run all kinds of faults with a random seed; print failures and return counts."""
    seed = random.SystemRandom().randrange(1 << 30) if seed is None else seed
    chance = random.Random(seed)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        base: Any = fault_runs.make_base(folder / "base")
        parts = {name: part(base, folder / name.replace(" ", "-"), chance) for name, part in PARTS.items()}
        rows = take_turns(parts, seconds)
    print(f"seed of the faults: {seed}", flush=True)
    return rows
