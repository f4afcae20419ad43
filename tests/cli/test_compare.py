"""``compare``: questions from many sources, differences with intervals, and a page."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def kb(indexed, tmp_path):
    """A copy of the index of the sample documents, in the folder where commands look for it."""
    return shutil.copytree(indexed, tmp_path / "kb")


AUTHOR = "What is the background of the author of ADR-019?"
ROWS = [
    {"question": AUTHOR, "gold": ["adr-019.md", "rosa-millan.md"], "type": "bridge"},
    {"question": "What is Keyring?", "gold": ["keyring.md"], "type": "single"},
]


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    return path


def test_differences_types_and_latency_are_shown(run, kb, questions):
    shown = run("compare", questions, "--measure", "recall@2", "--measure", "mrr@5")
    assert shown.exit_code == 0, shown.stderr
    for text in (
        "recall@2",
        "mrr@5",
        "median ms",
        "hybrid minus vector+keyword",
    ):
        assert text in shown.stdout
    assert "ndcg" not in shown.stdout
    assert "These questions show no difference: recall@2" in " ".join(shown.stdout.split())
    report = json.loads(run("compare", questions, "--measure", "recall@2", "--json").stdout)
    assert report["measures"] == ["recall@2"]
    assert set(report["types"]) == {"bridge", "single"}
    assert report["methods"]["hybrid"]["milliseconds"] > 0


def test_a_page_is_written(run, kb, questions, tmp_path):
    result = run("compare", questions, "--html", "report.html")
    assert result.exit_code == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "What the graph changes" in page
    assert run("compare", questions, "--html", "nowhere/report.html").exit_code == 1
