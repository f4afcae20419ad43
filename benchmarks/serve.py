"""200 requests at once to ``hybrid-graphrag serve``, compared with 200 calls in one process: ``make bench-serve``.

The server is a process with an index in a folder; the client is this process, with 200 connections. The calls in the
process run in a pool of as many threads as the server has. Both search the same index with the same questions, none of
which is in a cache, in turns; the time of a request is from its sending to its last byte, that of a call from its
submission to its result. The last rows are measured while documents change: a client
posts a document after the other, and a thread adds one after the other.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from synthetic import documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.serve import Limits
from graphrag_core.testing import HashEmbedder

CONCURRENT = 200
ROUNDS = 3
SIZE = 5_000
TIMEOUT = 300.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run the command on a free port; yield its URL."""
    settings = folder.parent / "serve.toml"
    settings.write_text(f"[serve.limits]\nseconds = {TIMEOUT}\n")
    command = [sys.executable, "-m", "graphrag_core", "--config", str(settings), "serve", "--kb", str(folder)]
    with subprocess.Popen(  # noqa: S603 - the command is ours
        [*command, "--embedder", "hash", "--port", "0", "--write"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            while not (found := re.search(r"running on (http://\S+)", line := server.stderr.readline())):
                assert line, "the server did not start"
            drain = threading.Thread(target=server.stderr.read, daemon=True)
            drain.start()
            yield found[1]
        finally:
            server.terminate()


def questions(texts: list[str], round_: int) -> list[str]:
    return [f"What of {text[:60]}? ({round_})" for text in texts]


async def over_http(url: str, asked: list[str], *, change: bool) -> list[float]:
    """Return the milliseconds of each request."""
    limits = httpx.Limits(max_connections=CONCURRENT + 1)
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT, limits=limits) as client:
        await client.get("/health")
        done = False

        async def ask(question: str) -> float:
            start = time.perf_counter()
            response = await client.post("/v1/query", json={"question": question})
            response.raise_for_status()
            return (time.perf_counter() - start) * 1000

        async def write() -> None:
            number = 0
            while change and not done:
                body = {"documents": [{"id": "changing", "text": f"The Beacon reports {number}."}]}
                (await client.post("/v1/documents", json=body)).raise_for_status()
                number += 1

        writing = asyncio.create_task(write())
        times = await asyncio.gather(*(ask(question) for question in asked))
        done = True
        await writing
        return times


def in_process(retriever: GraphRetriever, asked: list[str], *, change: bool) -> list[float]:
    done = threading.Event()

    start = time.perf_counter()

    def ask(question: str) -> float:
        retriever.retrieve(question)
        return (time.perf_counter() - start) * 1000

    def write() -> None:
        number = 0
        while not done.is_set():
            retriever.index.add([Document("changing", f"The Beacon reports {number}.")])
            number += 1

    writing = threading.Thread(target=write)
    if change:
        writing.start()
    with ThreadPoolExecutor(Limits().workers) as pool:
        times = list(pool.map(ask, asked))
    done.set()
    if change:
        writing.join()
    return times


def row(name: str, times: list[float]) -> str:
    return f"| {name} | {statistics.median(times):,.0f} | {np.percentile(times, 95):,.0f} |"


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else SIZE
    made = list(documents(size))
    texts = [made[number].text for number in np.random.default_rng(3).choice(size, CONCURRENT, replace=False).tolist()]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("served", "local")]
        for path in paths:
            with KnowledgeIndex.open(path, HashEmbedder(), progress=False) as index:
                index.add(made)
        print(f"{size:,} documents, {CONCURRENT} at once, {ROUNDS} rounds\n")
        print("| | p50 ms | p95 ms |\n|---|---|---|")
        with serving(paths[0]) as url, KnowledgeIndex.open(paths[1], HashEmbedder(), progress=False) as index:
            retriever = GraphRetriever(index)
            for change, when in ((False, ""), (True, ", documents change")):
                http: list[float] = []
                local: list[float] = []
                for round_ in range(ROUNDS + 1):
                    asked = questions(texts, round_ + 10 * change)
                    times = (
                        asyncio.run(over_http(url, asked, change=change)),
                        in_process(retriever, asked, change=change),
                    )
                    if round_:  # the first warms both
                        http += times[0]
                        local += times[1]
                print(row(f"HTTP{when}", http))
                print(row(f"in process{when}", local))


if __name__ == "__main__":
    main()
