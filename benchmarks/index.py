"""Indexing cost, memory and reopening at 100,000 chunks: ``make bench-index``.

Every number is a ratio to something measured in the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from synthetic import ReadyVectors, documents

from graphrag_core import KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.ingest.mentions import find_names
from graphrag_core.text import sentences

COUNT = int(os.environ.get("CHUNKS", "100000"))


def resident() -> int:
    """Bytes of this process's own memory: anonymous pages, not files that the system caches."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def index(folder: str, embed: bool) -> None:
    """Index everything into a folder and print time and memory; run in a process of its own."""
    kb = KnowledgeIndex.open(folder, ReadyVectors(), embed_facts=embed, embed_names=embed, progress=False)
    start = time.perf_counter()
    kb.add(documents(COUNT))
    generated = _generation_time()
    took = time.perf_counter() - start - 2 * generated
    stats = kb.stats()
    peak = resident()
    kb.close()
    print(json.dumps({"seconds": took, "resident": peak, "vectors": sum(stats.vectors.values()), "stats": str(stats)}))


def reopen(folder: str) -> None:
    """Open a folder, look at the graph, and compare with reading all its files."""
    opened, read = [], []
    for _ in range(5):
        start = time.perf_counter()
        for path in Path(folder).rglob("*"):
            if path.is_file():
                path.read_bytes()
        read.append(time.perf_counter() - start)
        start = time.perf_counter()
        with KnowledgeIndex.open(folder, ReadyVectors(), read_only=True) as kb, kb.reading() as derived:
            assert derived.view.links.nnz
        opened.append(time.perf_counter() - start)
    print(
        json.dumps(
            {"ratio": statistics.median(o / r for o, r in zip(opened, read, strict=True)), "resident": resident()}
        )
    )


def _generation_time() -> float:
    start = time.perf_counter()
    for _ in documents(COUNT // 2):
        pass
    return time.perf_counter() - start


def _run(*arguments: str) -> dict[str, float]:
    out = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    result: dict[str, float] = json.loads(out.stdout.strip().splitlines()[-1])
    return result


def _embedding_time() -> tuple[int, float, float]:
    """Return the bytes of all passages, and what WordLlama needs for them alone and with facts and names."""
    model, size, chunks, others = WordLlama(), 0, 0.0, 0.0
    intake = KnowledgeIndex(model)._intake  # noqa: SLF001 - to embed the very texts an index would
    names: set[str] = set()
    source = documents(COUNT)
    while batch := list(islice(source, 1_000)):
        read = intake.read(batch)
        texts = [text for r in read for text in r.chunk_texts]
        facts = [text for r in read for text in r.fact_texts]
        new = {name for r in read for chunk in r.names for name in chunk} - names
        names |= new
        size += sum(len(text.encode()) for text in texts)
        start = time.perf_counter()
        model.embed_documents(texts)
        chunks += time.perf_counter() - start
        start = time.perf_counter()
        model.embed_documents(facts)
        model.embed_documents(sorted(new))
        others += time.perf_counter() - start
    return size, chunks, chunks + others


def _rates(sample: list[str]) -> None:
    spans = [sentences(text) for text in sample]
    count = sum(map(len, spans))
    start = time.perf_counter()
    for text, found in zip(sample, spans, strict=True):
        find_names(text, {a for a, _ in found})
    print(f"mentions             {count / (time.perf_counter() - start):>10,.0f} sentences a second on one core")


def main() -> None:
    sample = [d.text for _, d in zip(range(5_000), documents(5_000), strict=False)]
    _rates(sample)
    size, chunks, everything = _embedding_time()
    print(f"WordLlama            {chunks:>10.1f} s for the chunks, {everything:.1f} s for chunks, facts and names")
    for embed in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            made = _run("index", folder, str(int(embed)))
            again = _run("reopen", folder)
            payload = size + made["vectors"] * 4 * 256
            what = "chunks, facts, names" if embed else "chunks only"
            rows = [
                ("indexing", made["seconds"] / chunks, "× embedding the chunks alone"),
                ("", made["seconds"] / everything, "× embedding chunks, facts and names, as the default does"),
                ("memory after it", made["resident"] / payload, "× the bytes of texts and vectors (at most 2.5)"),
                ("memory reopened", again["resident"] / payload, "× the same"),
                ("reopening", again["ratio"], "× reading the files (at most 3)"),
            ]
            print(f"\nvectors of {what}\n{made['stats']}")
            for name, ratio, meaning in rows:
                print(f"{name:<21}{ratio:>10.2f} {meaning}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "index":
        index(sys.argv[2], sys.argv[3] == "1")
    else:
        reopen(sys.argv[2])
