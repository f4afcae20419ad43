"""The "confident retriever" (seed 001) on the command line."""

from __future__ import annotations

import json

import pytest

QUESTION = "Who runs the Tide Feed?"


@pytest.fixture(autouse=True)
def _kb(indexed, monkeypatch, run):
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", str(indexed))


def test_the_settings_file_changes_numbers_of_a_design_and_an_option_replaces_them(run, settings_file):
    settings_file("gate.min_score = 1")
    design = ("query", QUESTION, "--json", "--design", "confident")
    assert run(*design).exit_code == 1
    found = json.loads(run(*design, "--set", "gate.min_score=0.1").stdout)
    assert found["method"] == "hybrid"
    assert found["hits"]


def test_every_number_is_set_by_its_path(run):
    few = run("query", QUESTION, "--json", "--method", "vector", "--set", "gate.min_score=0.3")
    assert all(hit["score"] >= 0.3 for hit in json.loads(few.stdout)["hits"])
    design = ("query", QUESTION, "--json", "--design", "confident")
    assert not json.loads(run(*design, "--set", "gate.min_score=1").stdout or '{"hits": []}')["hits"]
    assert json.loads(run(*design, "--set", "gate.min_score=0.1").stdout)["hits"]
    narrative = run("query", QUESTION, "--set", "context.style=passages", "--context", "100").stdout
    assert narrative.startswith("[Score: ")
    for given, said in (
        ("context.style=loud", "use one of graph, passages, both, narrative"),
        ("gate.min_scor=1", "did you mean 'gate.min_score'"),
        ("gate.min_score=high", "gate.min_score is 'high': use a number"),
        ("gate.min_score", "is not KEY=VALUE"),
        ("fusion.fusion.alpha=1", "unknown search setting"),
    ):
        refused = run("query", QUESTION, "--set", given)
        assert refused.exit_code != 0
        assert said in " ".join(refused.stderr.replace("│", " ").split())
