"""``compare``: questions from many sources, differences with intervals, generated questions, a page, and tuning."""

from __future__ import annotations

import json
import shutil

import pytest

from graphrag_core import config


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
    for text in ("recall@2", "mrr@5", "p50 ms", "hybrid minus vector+keyword", "recall@2 by type", "bridge", "single"):
        assert text in shown.stdout
    assert "ndcg" not in shown.stdout
    assert "The graph looks better, which may be chance: recall@2" in " ".join(shown.stdout.split())
    report = json.loads(run("compare", questions, "--measure", "recall@2", "--json").stdout)
    assert report["measures"] == ["recall@2"]
    assert set(report["types"]) == {"bridge", "single"}
    assert report["methods"]["hybrid"]["milliseconds"]["p50"] > 0


def test_a_won_question_is_shown_with_what_both_methods_found(run, kb, tmp_path):
    (tmp_path / "q.jsonl").write_text(json.dumps(ROWS[0]))
    shown = run("compare", "q.jsonl", "-k", "2").stdout
    assert "better with the graph (1 questions)" in shown
    assert "✓ Rosa" in " ".join(shown.split())
    assert "better with" not in run("compare", "q.jsonl", "-k", "2", "--show", "0").stdout


def test_an_unknown_measure_is_an_error(run, kb, questions):
    result = run("compare", questions, "--measure", "best@5")
    assert result.exit_code == 1
    assert "no measure is named 'best@5'" in result.stderr


def test_evidence_and_csv(run, kb, tmp_path):
    (tmp_path / "q.csv").write_text("question,evidence\nWhat is Keyring?,nothing that any passage says here\n")
    result = run("compare", "q.csv")
    assert result.exit_code == 1
    assert "gold evidence is not in the index" in result.stderr


def test_a_page_is_written(run, kb, questions, tmp_path):
    result = run("compare", questions, "--html", "report.html")
    assert result.exit_code == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "What the graph changes" in page
    assert run("compare", questions, "--html", "nowhere/report.html").exit_code == 2


def test_questions_are_generated_saved_and_read_again(run, kb, tmp_path):
    result = run("compare", "--generate", "6", "--save-questions", "mine.jsonl")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "On generated questions" in text
    assert "favour the graph by construction" in text
    rows = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text("utf-8").splitlines()]
    assert {row["type"] for row in rows} == {"bridge", "single"}
    again = run("compare", "mine.jsonl")
    assert "favour the graph by construction" in " ".join(again.stdout.split())


def test_a_file_or_generated_questions_are_needed(run, kb, questions):
    assert run("compare").exit_code == 2
    assert run("compare", questions, "--generate", "5").exit_code == 2
    assert run("compare", questions, "--tune", "--html", "x.html").exit_code == 2


def test_tune_keeps_the_default_where_nothing_is_better(run, kb, tmp_path):
    rows = [{"question": f"What is Keyring, number {number}?", "gold": ["keyring.md"]} for number in range(12)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = run("compare", "q.jsonl", "--tune")
    assert shown.exit_code == 0, shown.stderr
    assert "Keep the default settings" in shown.stdout
    assert not (tmp_path / config.NAME).exists()
    found = json.loads(run("compare", "q.jsonl", "--tune", "--json").stdout)
    assert (found["recommended"], found["written"], found["questions"]) == (None, None, 12)


def test_tune_writes_settings_that_are_better_than_the_current_ones(run, kb, tmp_path):
    (tmp_path / config.NAME).write_text("[retriever]\nuse_graph = false\nvector_weight = 1.0\ntext_weight = 0.0\n")
    found = json.loads(run("compare", "--generate", "40", "--tune", "--json", "--measure", "all@3").stdout)
    written = config.load(tmp_path / config.NAME).retriever_settings
    assert found["verdict"].startswith("Use "), found["verdict"]
    assert found["held_out"]["interval"][0] > 0
    assert written == found["recommended"]
    assert run("query", "What is Keyring?").exit_code == 0


def test_few_questions_cannot_be_tuned(run, kb, questions):
    result = run("compare", questions, "--tune")
    assert result.exit_code == 1
    assert "tuning needs at least 10" in result.stderr
