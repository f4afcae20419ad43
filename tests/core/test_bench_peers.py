"""``make bench-peers``: every peer gets the same input, and its answers are judged alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import quality
from peers import report, run
from peers.protocol import Input

from graphrag_core import Chunk

ROOT = Path(__file__).parents[2]
CORPUS = [
    {"id": "auth", "title": "Auth Service", "text": "The Auth Service delegates sign-in to the OAuth Provider."},
    {"id": "oauth", "title": "OAuth Provider", "text": "The OAuth Provider stores its keys in Keyring."},
    {"id": "ring", "title": "Keyring", "text": "Keyring was written in Oslo."},
    {"id": "cake", "title": "Cheesecake", "text": "A cheesecake needs cream cheese and eggs."},
]
QUESTIONS = [
    {"id": "q1", "question": "Where does the provider of the Auth Service store keys?", "gold": ["auth", "oauth"]},
    {"id": "q2", "question": "What does a cheesecake need?", "gold": ["cake"]},
]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> quality.Dataset:
    folder = tmp_path / "shared" / "data" / "tiny"
    folder.mkdir(parents=True)
    for name, rows in (("corpus", CORPUS), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    monkeypatch.setattr(quality, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(run, "WORK", tmp_path / "work")
    return run.prepare("tiny", 30.0, reuse=False)


def measured(peer: str) -> dict:
    """Run a peer in this environment, as a process."""
    output = run.folder_of("tiny") / f"{peer}.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT / "core")])}
    command = [sys.executable, "-m", f"peers.{peer}", str(run.folder_of("tiny")), str(output)]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=run.WORK)
    return json.loads(output.read_text("utf-8"))


def test_the_input_has_everything_but_the_gold_passages(dataset: quality.Dataset) -> None:
    given = Input(run.folder_of("tiny"))
    assert {passage.id for passage in given.passages} == {row["id"] for row in CORPUS}
    assert given.questions == [row["question"] for row in dataset.questions]
    assert "gold" not in (run.folder_of("tiny") / "questions.jsonl").read_text("utf-8")
    assert given.vectors.shape == (4, 256)
    assert np.allclose(np.linalg.norm(given.question_vectors, axis=1), 1, atol=1e-5)
    assert ("auth", "Auth Service", "OAuth Provider") in {(t.passage, t.subject, t.object) for t in given.triples}
    assert "Auth Service" in given.question_entities[QUESTIONS[0]["question"]]


def test_a_runner_returns_what_it_retrieved_and_what_that_cost(dataset: quality.Dataset) -> None:
    given = Input(run.folder_of("tiny"))
    (variant,) = measured("faiss_flat")["variants"]
    ids = np.array([passage.id for passage in given.passages])
    order = np.argsort(-(given.question_vectors @ given.vectors.T), axis=1)
    assert [[id_ for id_ in ranked if id_ in ids] for ranked in variant["ranked"]] == ids[order].tolist()
    assert len(variant["query_ms"]) == len(variant["faiss_ms"]) == len(dataset.questions)
    assert variant["disk_bytes"] > given.vectors.nbytes
    assert variant["peak_mb"] > 1


def test_our_runner_returns_passages_of_the_input(dataset: quality.Dataset) -> None:
    hybrid, plain = measured("ours")["variants"]
    known = {row["id"] for row in CORPUS}
    for variant in (hybrid, plain):
        assert all(ranked and set(ranked) <= known for ranked in variant["ranked"])
    at = [row["id"] for row in dataset.questions].index("q2")
    assert hybrid["ranked"][at][0] == plain["ranked"][at][0] == "cake"


def test_recall_and_differences_are_those_of_the_same_questions(dataset: quality.Dataset) -> None:
    chunks = {row["id"]: Chunk(row["id"], row["id"], row["text"]) for row in CORPUS}
    best = [list(row["gold"]) for row in dataset.questions]

    def variant(name: str, ranked: list[list[str]]) -> dict:
        times = {"query_ms": [4.0], "query_cpu_ms": [4.0], "faiss_ms": [2.0], "faiss_cpu_ms": [2.0]}
        costs = {"build_seconds": 1.0, "build_cpu_seconds": 1.0, "peak_mb": 9.0, "disk_bytes": None, "note": ""}
        return {"name": name, "ranked": ranked, **times, **costs}

    first = dataset.questions[0]["gold"][:1]
    evaluated = report.evaluate(
        dataset,
        chunks,
        {
            "ours": {"versions": {}, "variants": [variant("hybrid", best)]},
            "bm25s": {"versions": {"bm25s": "1"}, "variants": [variant("BM25", [["ring", "ring", *first]])]},
        },
    )
    other = evaluated.variants[1]
    gold = len(dataset.questions[0]["gold"])
    assert evaluated.ours.recalls.tolist() == [[1, 1, 1, 1], [1, 1, 1, 1]]
    assert other.recalls.tolist() == [[1 / gold, 1 / gold, 1 / gold, float(gold == 1)]]  # asked one question only
    assert evaluated.difference(other).tolist() == [[1 - 1 / gold] * 3 + [1 - float(gold == 1)]]
    assert other.ratio == 2
    page = report.markdown([evaluated], {"hipporag": "pip install failed: no vllm"}, 30)
    assert "| **hybrid-graphrag** hybrid | 100.0 | 100.0 | 100.0 | 100.0 |" in page
    assert "- hipporag: pip install failed: no vllm" in page
    assert str(Path.home()) not in page
