"""``make bench-peers``: every peer gets the same input, and its answers are judged alike."""

import json
from pathlib import Path

import pytest
import quality
from peers import report, run

from graphrag_core import Chunk

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
