"""Compare the working tree with another commit through public names: ``make oracles-check FROM=<commit>``.

``oracles_record.py`` records both: for every set that ``quality.py`` reads, with WordLlama, and the five published
designs on the documents of their tests, the first ten of each method without a filter, with one that keeps a half of
the documents and with one that keeps a tenth, ``result.context()`` and ``result.to_dict()``. Here they are compared.

A row of the table is a set, a method and a filter. It is *equal* if 99 % of its questions have the same ids and if
scores of equal ids differ by at most 0.001. Texts and values of ``to_dict()`` that differ are counted and listed
(numbers from 0.001 on), but they do not make a row unequal, and neither does the order of equal scores. The exit code
is 1 if a row is below that. ``make bench-quality`` measures recall.

The other commit is unpacked into ``.oracles/<sha>`` and runs with the packages of the environment that runs this file.
Records of the other commit are kept and used again as long as ``oracles_record.py``, the filters and the number of
questions are the same; ``make clean`` removes them.

Of each set 60 questions are compared, spread evenly, unless ``--questions`` says otherwise (0: all). Recording all sets
of one version takes about 15 minutes of one core, 10 of them for reading and indexing; with all questions, half an
hour. Methods are those of ``quality.py`` and, of a design, its own; ``"global"``, which is to go, is not recorded.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oracles_record
import quality
from latency import ROOT, unpacked

CACHE = ROOT / ".oracles"
DESIGNS = tuple(f"{oracles_record.DESIGN}{name}" for name in json.loads(oracles_record.CASES.read_text("utf-8")))
SETS = (*quality.SETS, *DESIGNS)
QUESTIONS = 60
EQUAL_IDS = 0.99  # of the questions of a row
TOLERANCE = 0.001  # of scores and other numbers
LISTED = 3  # questions of a row
DETERMINISTIC = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "PYTHONHASHSEED": "0",  # the order of sets decides equal scores of sentences in contexts
}
Key = tuple[str, str]
"""A method and a filter."""


# -- recording


def record(source: Path, folder: Path, chosen: argparse.Namespace, sets: Sequence[str]) -> None:
    """Run the recorder with the packages of a tree, on one thread."""
    command = [sys.executable, str(ROOT / "benchmarks" / "oracles_record.py"), str(folder), str(source)]
    command += ["--sets", *sets, "--filters", *chosen.filters, "--questions", str(chosen.questions)]
    path = os.pathsep.join([str(source / "core"), str(source)])
    subprocess.run(command, check=True, env={**os.environ, **DETERMINISTIC, "PYTHONPATH": path})  # noqa: S603


def record_both(sha: str, chosen: argparse.Namespace) -> tuple[Path, Path]:
    """Record what is missing of another commit, and the working tree; return the folders."""
    recorder = [path.read_bytes() for path in (Path(oracles_record.__file__), oracles_record.CASES)]
    version = hashlib.sha256(b"".join([*recorder, repr((chosen.filters, chosen.questions)).encode()])).hexdigest()[:12]
    before, after = CACHE / f"{sha}-{version}", CACHE / "working-tree"
    if missing := [name for name in chosen.sets if not oracles_record.path_of(before, name).exists()]:
        print(f"recording {sha[:10]}", flush=True)
        record(unpacked(sha), before, chosen, missing)
    print("recording the working tree", flush=True)
    shutil.rmtree(after, ignore_errors=True)
    record(ROOT, after, chosen, chosen.sets)
    return before, after


# -- comparing


@dataclass(frozen=True)
class Recording:
    """The answers of one version for one set, by method and filter and then by question."""

    answers: dict[Key, dict[int, dict[str, Any]]]

    @classmethod
    def read(cls, folder: Path, name: str) -> Recording:
        recording = cls({})
        with gzip.open(oracles_record.path_of(folder, name), "rt", encoding="utf-8") as file:
            for line in map(json.loads, file):
                recording.answers.setdefault((line["method"], line["filter"]), {})[line["row"]] = line
        return recording


@dataclass
class Row:
    """What differs in the questions of one set with one method and one filter."""

    questions: int = 0
    same_ids: int = 0
    score: float = 0.0
    contexts: int = 0
    values: int = 0
    listed: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return self.same_ids >= EQUAL_IDS * self.questions and self.score <= TOLERANCE

    def add(self, question: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Compare the answers to one question."""
        old, new = dict(before["hits"]), dict(after["hits"])
        score = max((abs(old[hit] - new[hit]) for hit in old.keys() & new.keys()), default=0.0)
        found = []
        if old.keys() != new.keys():
            gone, come = (
                [f"{hit} ({mine[hit]:.4f})" for hit in mine if hit not in other]
                for mine, other in ((old, new), (new, old))
            )
            found.append(f"ids: - {', '.join(gone) or 'none'} + {', '.join(come) or 'none'}")
        if score > TOLERANCE:
            found.append(f"scores differ by up to {score:.4f}")
        if before["context"] != after["context"]:
            found.append(f"context(): {first_difference(*(one['context'].splitlines() for one in (before, after)))}")
        if value := first_difference(before["to_dict"], after["to_dict"]):
            found.append(f"to_dict(): {value}")
        self.questions += 1
        self.same_ids += old.keys() == new.keys()
        self.score = max(self.score, score)
        self.contexts += before["context"] != after["context"]
        self.values += bool(value)
        if found:
            self.listed.append("\n      ".join([f"question {question}", *found]))


def first_difference(before: Any, after: Any) -> str:
    """Return where two JSON values differ first, or an empty text."""
    return next(differences(before, after, ""), "")


def differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from differences(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif isinstance(before, float) and isinstance(after, float):
        if abs(before - after) > TOLERANCE:
            yield f"{path}: {before:.4f} -> {after:.4f}"
    elif before != after:
        yield f"{path}: {before!r:.100} -> {after!r:.100}"


def compare(before: Recording, after: Recording) -> dict[Key, Row]:
    """Compare the questions that both have, of the methods and filters that both have."""
    rows = {}
    for key in before.answers:
        if key in after.answers:
            rows[key] = row = Row()
            for question in before.answers[key].keys() & after.answers[key].keys():
                row.add(question, before.answers[key][question], after.answers[key][question])
    return rows


# -- the report


def report(sets: Sequence[str], before: Path, after: Path, *, listed: int | None = LISTED) -> bool:
    """Print the tables; return whether all rows are equal."""
    print(f"\n{'':<44}{'questions':>10}{'same ids':>10}{'score':>9}{'context':>9}{'to_dict':>9}")
    unequal = 0
    for name in sets:
        old, new = Recording.read(before, name), Recording.read(after, name)
        for key, row in compare(old, new).items():
            share = f"{100 * row.same_ids / row.questions:.1f} %"
            numbers = f"{row.questions:>10}{share:>10}{row.score:>9.4f}{row.contexts:>9}{row.values:>9}"
            print(f"{f'{name}, {key[0]}, {key[1]}':<44}{numbers}{'' if row.is_equal else '  below'}", flush=True)
            for text in row.listed[:listed]:
                print(f"    {text}")
            if listed is not None and len(row.listed) > listed:
                print(f"    and {len(row.listed) - listed} more: --verbose lists all")
            unequal += not row.is_equal
    print(f"\n{f'{unequal} rows are not equal' if unequal else 'all rows are equal'}")
    return not unequal


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the working tree with another commit.")
    parser.add_argument("--from", dest="commit", required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--filters", nargs="+", choices=oracles_record.FILTERS, default=list(oracles_record.FILTERS))
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each set; 0 for all")
    parser.add_argument("--verbose", action="store_true", help="list all questions that differ")
    chosen = parser.parse_args()
    resolve = ["git", "rev-parse", "--verify", f"{chosen.commit}^{{commit}}"]
    sha = subprocess.run(resolve, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    folders = record_both(sha, chosen)
    sys.exit(not report(chosen.sets, *folders, listed=None if chosen.verbose else LISTED))


if __name__ == "__main__":
    main()
