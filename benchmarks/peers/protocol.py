"""What ``make bench-peers`` and its runners exchange. Runners import this module; it needs numpy and FAISS only.

A runner is a file of this folder that measures one peer. It has a docstring that quotes the documentation of the
setting it uses, and ends with ``protocol.main(runner)``. It is executed as ``python -m peers.NAME INPUT OUTPUT`` in
an environment in which the packages of ``peers.run`` are installed, one process for each peer and set.

INPUT is a folder, the same for every peer:

- ``passages.jsonl``: one ``{"id", "title", "text"}`` a line. ``text`` is the passage with its title and headings,
  without markup: the text whose embedding is in ``passages.npy``. Long documents were split by our chunker.
- ``questions.jsonl``: one ``{"id", "question"}`` a line, in random order. Gold passages are not part of the input.
- ``passages.npy``, ``questions.npy``: float32 unit vectors, one row for each line: WordLlama, 256 dimensions.
- ``triples.jsonl``: one ``{"passage", "subject", "relation", "object", "text"}`` a line. ``text`` is the sentence.
- ``entities.jsonl``: the entity names of each passage and question: ``{"id", "names"}``, questions as
  ``question:ID``.
- ``documents.jsonl``: the documents before splitting, for the retriever of this project, which splits them itself.
- ``settings.json``: ``seconds``, the CPU time after which a variant is asked no further questions.

OUTPUT is a JSON file: ``versions`` and a list of ``variants``, each with ``name``, ``ranked`` (for each question
asked, in the order of ``questions.jsonl``, at most 10 passage ids, best first), ``build_seconds``, ``query_ms`` and
``faiss_ms`` (one number for each question asked), ``peak_mb`` (of the process, so far), ``disk_bytes`` (None if the
peer cannot save its index), ``note``. All times are CPU times: with one thread that is the time on an idle machine,
and other programs change it less.

Query time: after three questions that do not count, every question is followed by three FAISS flat searches (top 10,
one thread) of the same passages with the same question; the median of the three is noted. Embeddings of passages and
questions are given to everyone, so no time contains them. What else a peer embeds (names, descriptions) is part of
its build time, with the same model.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import faiss
import numpy as np
import numpy.typing as npt

DEPTH = 10
"""The number of passages that a peer is asked for."""

CPU_MINUTES = 12
"""A runner that takes longer is ended."""

Vectors = npt.NDArray[np.float32]
T = TypeVar("T")

_MEMORY = 12 << 30  # bytes of address space: a runner that needs more fails, and not the machine
_WARM_UP = 3
_SEARCHES = 3


@dataclass(frozen=True)
class Passage:
    """A passage that a peer indexes."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Triple:
    """A fact of a passage: two entities, a relation, and the sentence that states it."""

    passage: str
    subject: str
    relation: str
    object: str
    text: str


@dataclass(frozen=True)
class Variant:
    """One measured setting of a peer. The module's docstring describes the fields."""

    name: str
    ranked: list[list[str]]
    build_seconds: float
    query_ms: list[float]
    faiss_ms: list[float]
    peak_mb: float
    disk_bytes: int | None
    note: str = ""


@dataclass(frozen=True)
class Output:
    """What a runner writes."""

    versions: dict[str, str]
    variants: list[Variant]


class Input:
    """The input folder, read when it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def passages(self) -> list[Passage]:
        return [Passage(**row) for row in read_lines(self.folder / "passages.jsonl")]

    @cached_property
    def questions(self) -> list[str]:
        return [row["question"] for row in read_lines(self.folder / "questions.jsonl")]

    @cached_property
    def question_ids(self) -> list[str]:
        return [row["id"] for row in read_lines(self.folder / "questions.jsonl")]

    @cached_property
    def vectors(self) -> Vectors:
        """The embeddings of the passages."""
        loaded: Vectors = np.load(self.folder / "passages.npy")
        return loaded

    @cached_property
    def question_vectors(self) -> Vectors:
        loaded: Vectors = np.load(self.folder / "questions.npy")
        return loaded

    @cached_property
    def triples(self) -> list[Triple]:
        return [Triple(**row) for row in read_lines(self.folder / "triples.jsonl")]

    @cached_property
    def entities(self) -> dict[str, list[str]]:
        """The entity names of passages by id, and those of questions by ``question:ID``."""
        return {row["id"]: row["names"] for row in read_lines(self.folder / "entities.jsonl")}

    @cached_property
    def question_entities(self) -> dict[str, list[str]]:
        """The entity names of each question, by its text."""
        pairs = zip(self.question_ids, self.questions, strict=True)
        return {question: self.entities[f"question:{name}"] for name, question in pairs}

    @property
    def seconds(self) -> float:
        """After how much CPU time a variant is asked no further questions."""
        return float(json.loads((self.folder / "settings.json").read_text("utf-8"))["seconds"])


class Embedding:
    """The given embeddings by text; other texts are embedded with WordLlama, from the package of that name."""

    def __init__(self, given: Input) -> None:
        self.dim = given.vectors.shape[1]
        self._vectors = dict(zip((passage.text for passage in given.passages), given.vectors, strict=True))
        self._vectors.update(zip(given.questions, given.question_vectors, strict=True))
        self._lists: dict[str, list[float]] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, as rows."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if unknown:
            self._vectors.update(zip(unknown, self._encode(unknown), strict=True))
        return np.array([self._vectors[text] for text in texts], np.float32).reshape(len(texts), self.dim)

    def as_list(self, text: str) -> list[float]:
        """Return the vector of a text as a list of floats, converted once: frameworks ask for lists."""
        if text not in self._lists:
            self._lists[text] = self([text])[0].tolist()
        return self._lists[text]

    @cached_property
    def _model(self) -> Any:
        import wordllama  # noqa: PLC0415 - few peers embed anything else

        return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)

    def _encode(self, texts: list[str]) -> Vectors:
        vectors: Vectors = self._model.embed(texts, norm=True)
        return np.nan_to_num(vectors)


@dataclass
class Bench:
    """Measures the variants of one peer on one set."""

    given: Input
    variants: list[Variant] = field(default_factory=list)

    def __post_init__(self) -> None:
        faiss.omp_set_num_threads(1)
        self._flat = faiss.IndexFlatIP(self.given.vectors.shape[1])
        self._flat.add(self.given.vectors)
        self._rows = [np.ascontiguousarray(row[None, :]) for row in self.given.question_vectors]

    @staticmethod
    def build(work: Callable[[], T]) -> tuple[T, float]:
        """Return what a function builds, and its CPU time in seconds."""
        gc.collect()
        start = time.process_time()
        return work(), time.process_time() - start

    def run(
        self,
        name: str,
        retrieve: Callable[[str], Iterable[str]],
        *,
        built: float,
        disk_bytes: int | None = None,
        note: str = "",
    ) -> None:
        """Ask the questions, until the CPU time is over, and note what was retrieved and how long it took.

        Parameters
        ----------
        name
            The variant.
        retrieve
            Returns the ids of the passages for a question, best first; ids may repeat.
        built
            How long building the index took.
        disk_bytes, note
            As in the output.
        """
        questions = self.given.questions
        for row, question in enumerate(questions[:_WARM_UP]):
            self._search(row)
            list(retrieve(question))
        ranked: list[list[str]] = []
        times: list[float] = []
        flat: list[float] = []
        end = time.process_time() + self.given.seconds
        for row, question in enumerate(questions):
            if time.process_time() > end:
                break
            start = time.process_time()
            found = list(retrieve(question))
            times.append(1000 * (time.process_time() - start))
            flat.append(1000 * float(np.median([self._search(row) for _ in range(_SEARCHES)])))
            ranked.append(list(dict.fromkeys(found))[:DEPTH])
        self.variants.append(Variant(name, ranked, built, times, flat, _peak_mb(), disk_bytes, note))

    def _search(self, row: int) -> float:
        start = time.process_time()
        self._flat.search(self._rows[row], DEPTH)
        return time.process_time() - start


def main(runner: Callable[[Bench, Path], None], *packages: str) -> None:
    """Run a runner: ``python -m peers.NAME INPUT OUTPUT``.

    Parameters
    ----------
    runner
        Measures the peer; its second argument is an empty folder for the files of the peer.
    packages
        The packages of which the versions are written.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    threading.Thread(target=_limit_cpu, daemon=True).start()
    bench = Bench(Input(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        runner(bench, Path(folder))
    output = Output({package: version(package) for package in packages}, bench.variants)
    Path(sys.argv[2]).write_text(json.dumps(asdict(output)), "utf-8")


def _peak_mb() -> float:
    """Return the peak memory of this process in MiB. ``ru_maxrss`` starts with that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def _limit_cpu() -> None:
    """End the process after its CPU time. ``RLIMIT_CPU`` would make the CPU clock tick in milliseconds."""
    while time.process_time() < 60 * CPU_MINUTES:
        time.sleep(5)
    print(f"not finished after {CPU_MINUTES} minutes of CPU time", file=sys.stderr, flush=True)
    os._exit(1)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSON Lines file. Lines end with a newline only: other separators may be part of a text."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
