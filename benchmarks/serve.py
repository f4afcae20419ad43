"""Questions per second in one process and behind uvicorn: ``make bench-serve``.

For each row the index is opened in processes of its own, which answer different questions, none of them from a cache:
those of threads in the process, and those of HTTP clients, each with one connection, to uvicorn with one worker, which
opens the folder for writing. First the documents stay as they are, then one after the other is added while the
questions go on.

A task on the event loop of each process sleeps for 2 ms again and again. How much longer it sleeps is how long the loop
stalled. The CPU time is that of the processes that answer; where these add documents, that is part of it.

Writes the table into docs/serve.md. ``python benchmarks/serve.py 20000`` prints it for another size.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from synthetic import documents, questions

from graphrag_apps.serve import Gateway, create_app
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

SIZE = 5_000
SECONDS, ROUNDS = 5.0, 3
ASKED = 400  # different documents that are asked about
ADDED = 2_000  # documents that may be added while questions are asked
TICK, PERIOD = 0.002, 0.05
THREADS = 1, 4, 32
CLIENTS = 4, 32
GOALS = "90 questions a second and core, no stall above 100 ms"
DOCS = Path(__file__).parents[1] / "docs"
MARKS = "<!-- serve -->\n", "<!-- end of serve -->\n"

Tick = tuple[float, float, float]
"""When, how long the event loop stalled at most since the last one, and the CPU time of the process: in seconds."""


class Plan(NamedTuple):
    """Questions, and documents to add: identifier, text and title."""

    questions: list[str]
    new: list[tuple[str, str, str]]

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a plan that was written as JSON."""
        asked, new = json.loads(path.read_text(encoding="utf-8"))
        return cls(asked, [(id_, text, title) for id_, text, title in new])


class Load(NamedTuple):
    """What was asked from one moment to another, and how long each answer took, in milliseconds."""

    start: float
    end: float
    took: list[float]
    added: int


def ask_for_a_while(asking: Sequence[Callable[[str], object]], asked: list[str], add: Callable[[], object]) -> Load:
    """Let each client ask one question after the other, in a thread of its own, while something else goes on."""
    took: list[float] = []
    numbers, added = count(), count()
    start = time.monotonic()
    end = start + SECONDS

    def client(ask: Callable[[str], object]) -> None:
        while (begin := time.monotonic()) < end:
            ask(f"{asked[next(numbers) % len(asked)]} ({begin})")
            took.append((time.monotonic() - begin) * 1000)

    def writer() -> None:
        while time.monotonic() < end and add() is not None:
            next(added)

    threads = [threading.Thread(target=client, args=(ask,)) for ask in asking] + [threading.Thread(target=writer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(start, time.monotonic(), took, next(added))


def measured(load: Load, ticks: Sequence[Tick]) -> dict[str, Any]:
    """Return the figures of a load, given the ticks of the process that answered."""
    inside = [tick for tick in ticks if load.start <= tick[0] <= load.end]
    share = (load.end - load.start) / (inside[-1][0] - inside[0][0])
    return {
        "took": load.took,
        "seconds": load.end - load.start,
        "cpu": (inside[-1][2] - inside[0][2]) * share,
        "stall": max(stall for _, stall, _ in inside) * 1000,
        "added": load.added,
    }


# -- the processes that answer


async def tick(report: Callable[[Tick], object]) -> None:
    """Watch the event loop."""
    longest, last = 0.0, time.monotonic()
    while True:
        before = time.monotonic()
        await asyncio.sleep(TICK)
        now = time.monotonic()
        longest = max(longest, now - before - TICK)
        if now - last > PERIOD:
            report((now, longest, time.process_time()))
            longest, last = 0.0, now


def app() -> Any:
    """Return the application that uvicorn serves."""
    index = KnowledgeIndex.open(Path(os.environ["BENCH_FOLDER"]), WordLlama(), progress=False)
    served = create_app(Gateway(index, write=True))
    ticks = Path(os.environ["BENCH_TICKS"]).open("w", buffering=1, encoding="ascii")  # noqa: SIM115

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        watching = None
        if scope["type"] == "lifespan":
            watching = asyncio.create_task(tick(lambda seen: print(*seen, file=ticks)))
        await served(scope, receive, send)
        if watching is not None:
            watching.cancel()

    return watched


def in_threads(folder: Path, plan: Plan, threads: int) -> list[dict[str, Any]]:
    """Ask by threads of this process."""
    ticks: list[Tick] = []

    async def watched(add: Callable[[], object]) -> Load:
        watching = asyncio.create_task(tick(ticks.append))
        load = await asyncio.to_thread(ask_for_a_while, [retriever.retrieve] * threads, plan.questions, add)
        watching.cancel()
        return load

    with KnowledgeIndex.open(folder, WordLlama(), progress=False) as index:
        retriever = GraphRetriever(index)
        ask_for_a_while([retriever.retrieve] * threads, plan.questions, lambda: None)  # warms the process
        new = iter(plan.new)
        adds: tuple[Callable[[], object], ...] = (
            lambda: None,
            lambda: index.add([Document(*next(new))]),
        )
        return [measured(asyncio.run(watched(add)), ticks) for add in adds]


# -- clients


class Client:
    """An HTTP client with one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def post(self, path: str, body: Any) -> Any:
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return answer

    def ask(self, question: str) -> Any:
        return self.post("/v1/query", {"question": question})

    def add(self, document: tuple[str, str, str]) -> Any:
        return self.post("/v1/documents", {"documents": [dict(zip(("id", "text", "title"), document, strict=True))]})


@contextmanager
def serving(folder: Path, ticks: Path) -> Iterator[int]:
    """Run uvicorn on a free port; yield the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--factory", "serve:app", "--app-dir", str(Path(__file__).parent)]
    options = ["--port", str(port), "--log-level", "warning", "--no-access-log"]
    told = {"BENCH_FOLDER": str(folder), "BENCH_TICKS": str(ticks)}
    with subprocess.Popen([*command, *options], env={**os.environ, **told}) as server:  # noqa: S603 - our own
        try:
            while not ticks.exists() or not ticks.stat().st_size:
                assert server.poll() is None, "uvicorn did not start"
                time.sleep(0.1)
            yield port
        finally:
            server.terminate()


def over_http(folder: Path, plan: Plan, clients: int) -> list[dict[str, Any]]:
    """Ask uvicorn by HTTP."""
    ticks = folder.with_name("ticks")
    with serving(folder, ticks) as port:
        writer, new = Client(port), iter(plan.new)
        asking = [Client(port).ask for _ in range(clients)]
        ask_for_a_while(asking, plan.questions, lambda: None)  # warms the worker
        adds: tuple[Callable[[], object], ...] = (lambda: None, lambda: writer.add(next(new)))
        loads = [ask_for_a_while(asking, plan.questions, add) for add in adds]
        time.sleep(2 * PERIOD)
    lines = ticks.read_text(encoding="ascii").splitlines()
    seen: list[Tick] = [tuple(map(float, line.split())) for line in lines]  # type: ignore[misc]
    return [measured(load, seen) for load in loads]


# -- the table


def rows() -> list[tuple[str, list[str]]]:
    """Return the rows of the table: a name, and the arguments for the process that measures it."""
    threads = [(f"one process, {n} thread{'s' * (n > 1)}", ["--threads", str(n)]) for n in THREADS]
    return [*threads, *((f"uvicorn, {n} clients", ["--http", str(n)]) for n in CLIENTS)]


def report(size: int, found: dict[str, list[list[dict[str, Any]]]]) -> str:
    """Return the table in Markdown, given for each row and round the figures without and with documents added."""
    machine = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    day = datetime.now(tz=timezone.utc).date().isoformat()
    header = ("", "questions/s", "per second of CPU", "p50 ms", "p95 ms", "while adding: added/s", "questions/s",
              "p50 ms", "p95 ms", "longest stall ms")  # fmt: skip
    lines = [header, ("---", *("---:",) * (len(header) - 1))]
    for name, rounds in found.items():
        cells = [name]
        for phase in (0, 1):
            parts = [one[phase] for one in rounds]
            took = [time for part in parts for time in part["took"]]
            seconds, cpu, added = (sum(part[name] for part in parts) for name in ("seconds", "cpu", "added"))
            shown = [f"{len(took) / seconds:.0f}"]
            shown = [*shown, f"{len(took) / cpu:.0f}"] if phase == 0 else [f"{added / seconds:.1f}", *shown]
            cells += [*shown, f"{np.percentile(took, 50):.0f}", f"{np.percentile(took, 95):.0f}"]
        cells.append(f"{max(one[1]['stall'] for one in rounds):.0f}")
        lines.append(tuple(cells))
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{day}, {machine}, {size:,} documents. Goal: {GOALS}.\n\n{table}"


def main() -> None:
    """Measure all rows in turn, each in a new process, and write the table."""
    if sys.argv[1:2] in (["--threads"], ["--http"]):
        number, path, stored = sys.argv[2:]
        run: Callable[..., object] = in_threads if sys.argv[1] == "--threads" else over_http
        print(json.dumps(run(Path(path), Plan.read(Path(stored)), int(number))))
        return
    size = int(sys.argv[1]) if len(sys.argv) > 1 else SIZE
    found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name, _ in rows()}
    with tempfile.TemporaryDirectory() as temporary:
        index, plan = Path(temporary, "index"), Path(temporary, "plan.json")
        made = documents(size + ADDED)
        with KnowledgeIndex.open(index, WordLlama(), progress=False) as built:
            built.add(islice(made, size))
            asked = questions(built, size, min(ASKED, size))
        plan.write_text(json.dumps(Plan(asked, [(one.id, one.text, one.title) for one in made])), encoding="utf-8")
        for _ in range(ROUNDS):
            for name, arguments in rows():
                with tempfile.TemporaryDirectory() as copy:
                    folder = shutil.copytree(index, Path(copy, "index"))
                    command = [sys.executable, __file__, *arguments, str(folder), str(plan)]
                    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603 - this file
                found[name].append(json.loads(done.stdout.splitlines()[-1]))
                print(report(size, {name: found[name][-1:]}).splitlines()[-1], flush=True)
    print(f"\n{report(size, found)}")
    if size == SIZE:
        page = DOCS / "serve.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        page.write_text(f"{before}{MARKS[0]}{report(size, found)}{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
