"""Recall of what peers retrieved, and its section of ``benchmarks/RESULTS.md``."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from quality import COLUMNS, Dataset, Recalls, recall

from graphrag_apps.compare import bootstrap_interval
from graphrag_core import Chunk, __version__

OURS = ("ours", "hybrid")
AT_5 = COLUMNS.index("recall@5")
LABELS = {
    "ours": "**hybrid-graphrag**",
    "faiss_flat": "FAISS",
    "bm25s": "bm25s",
    "llama_fusion": "LlamaIndex",
    "langchain_ensemble": "LangChain",
    "lightrag": "LightRAG",
    "hipporag": "HippoRAG 2",
}


@dataclass(frozen=True)
class Measured:
    """One variant of a peer on one set."""

    peer: str
    name: str
    recalls: Recalls
    build_seconds: float
    query_ms: float
    ratio: float
    peak_mb: float
    disk_bytes: int | None
    note: str

    @property
    def label(self) -> str:
        return f"{LABELS[self.peer]} {self.name}"


@dataclass(frozen=True)
class Evaluated:
    """All variants on one set."""

    name: str
    questions: int
    passages: int
    variants: tuple[Measured, ...]
    versions: Mapping[str, str]

    @property
    def ours(self) -> Measured:
        return next(variant for variant in self.variants if (variant.peer, variant.name) == OURS)

    def difference(self, variant: Measured) -> Recalls:
        """Return our recall minus that of a variant, on the questions that the variant was asked."""
        count = min(len(variant.recalls), len(self.ours.recalls))
        return self.ours.recalls[:count] - variant.recalls[:count]


def evaluate(dataset: Dataset, chunks: Mapping[str, Chunk], outputs: Mapping[str, Mapping[str, Any]]) -> Evaluated:
    """Compute the recall of every variant.

    Parameters
    ----------
    dataset
        The set, its questions in the order in which they were asked.
    chunks
        Passages by id.
    outputs
        What the runners wrote, by peer.
    """
    variants, versions = [], {}
    for peer, output in outputs.items():
        versions.update(output["versions"])
        for row in output["variants"]:
            asked = dataset.questions[: len(row["ranked"])]
            pairs = zip(asked, row["ranked"], strict=True)
            found = [(question, [chunks[id_] for id_ in ids if id_ in chunks]) for question, ids in pairs]  # no triples
            recalls = np.array([recall(question, hits) for question, hits in found])
            query, flat = float(np.median(row["query_ms"])), float(np.median(row["faiss_ms"]))
            ratio = query / flat if flat else float("nan")
            costs = (row["build_seconds"], query, ratio, row["peak_mb"], row["disk_bytes"], row["note"])
            variants.append(Measured(peer, row["name"], recalls, *costs))
    return Evaluated(dataset.name, len(dataset.questions), len(chunks), tuple(variants), versions)


def markdown(sets: Sequence[Evaluated], problems: Mapping[str, str], seconds: float) -> str:
    """Return the results as a section of a Markdown page."""
    versions = {name: number for one in sets for name, number in one.versions.items()}
    shown = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    head = (
        "Written by `make bench-peers`; do not edit this section. Every peer got the same passages, embeddings "
        "(WordLlama, 256 dimensions), questions and entity names or triples, and ran in an environment of its own with "
        "one thread. "
        "What each is set to, and why, is in its runner in `benchmarks/peers/`; no peer called an LLM.\n\n"
        f"{_machine()}. {time.strftime('%Y-%m-%d', time.gmtime())}, commit {_commit()}. "
        f"hybrid-graphrag {__version__}, {shown}.\n"
    )
    parts = [head, _recalls(sets), _costs(max(sets, key=lambda one: one.passages), seconds)]
    if problems:
        rows = "".join(f"- {name}: {problem}\n" for name, problem in problems.items())
        parts.append(f"### Not measured\n\n{rows}")
    return "\n".join(parts)


def _recalls(sets: Sequence[Evaluated]) -> str:
    """Return recall@5 of every variant on every set, and how much more our default finds."""
    labels = dict.fromkeys(v.label for one in sets for v in one.variants)
    cells = {(v.label, one.name): _recall(one, v) for one in sets for v in one.variants}
    names = [one.name for one in sets]
    rows = [[label, *(cells.get((label, name), "–") for name in names)] for label in labels]
    return (
        "### Recall@5 in percent\n\n"
        "In brackets is our default minus the other, in points on the same questions, with the 95 % interval of a "
        "paired bootstrap. Where it contains 0, the difference may be chance; where it is below 0, the other is "
        f"better.\n\n{_table(['', *names], rows)}"
    )


def _recall(one: Evaluated, variant: Measured) -> str:
    shown = f"{100 * variant.recalls[:, AT_5].mean():.1f}"
    if (variant.peer, variant.name) != OURS:
        difference = one.difference(variant)[:, AT_5]
        mean, low, high = (100 * float(value) + 0.0 for value in (difference.mean(), *bootstrap_interval(difference)))
        shown += f" ({mean:+.1f}, {low:+.1f} to {high:+.1f})"
    asked = len(variant.recalls)
    return shown if asked == one.questions else f"{shown}, {asked} questions"


def _costs(one: Evaluated, seconds: float) -> str:
    """Return times, memory and disk on one set."""
    rows = []
    for v in one.variants:
        megabytes = "–" if v.disk_bytes is None else f"{v.disk_bytes / 1e6:.1f}"
        ratio = "–" if np.isnan(v.ratio) else f"{v.ratio:,.1f}"  # the CPU clock was too coarse
        times = [f"{v.build_seconds:.2f}", f"{v.query_ms:.2f}", ratio]
        rows.append([v.label, *times, f"{v.peak_mb:.0f}", megabytes, str(len(v.recalls))])
    notes = " ".join(dict.fromkeys(f"{v.label}: {v.note}." for v in one.variants if v.note))
    header = ["", "build s", "query ms", "query × FAISS", "peak MB", "disk MB", "questions"]
    return (
        f"### Costs on {one.name}: {one.questions} questions, {one.passages:,} passages\n\n{_table(header, rows)}\n"
        "Times are CPU times; those of queries are medians, without embedding the question. A variant is asked no "
        f"further questions after {seconds:.0f} s of CPU time. {notes}".rstrip()
        + "\n"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _machine() -> str:
    """Describe the machine without its name: cores, memory, system, load."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[2]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    busy = f", load average {load:.1f}: other programs were running, so times are too high"
    described = f"{cores} cores ({platform.machine()}), {memory:.0f} GB memory, {platform.system()}"
    return f"{described}, Python {platform.python_version()}{busy if load > cores * 0.75 else ''}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
