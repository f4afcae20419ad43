"""The "confident retriever" (seed 001) on the command line."""

from __future__ import annotations

import json

import pytest

QUESTION = "Who runs the Tide Feed?"


@pytest.fixture(autouse=True)
def _kb(indexed, monkeypatch, run):
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", str(indexed))


def test_the_strategy_with_its_gate(run, settings_file):
    settings_file("gate.min_score = 0.2")
    found = json.loads(run("query", QUESTION, "--json", "--design", "confident").stdout)
    by_origin = [hit["origin"] for hit in found["hits"]]
    assert found["counts"] == {"plain": by_origin.count("plain"), "graph": by_origin.count("graph")}
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    for hit in found["hits"]:
        if hit["origin"] == "plain":
            assert hit["score"] == pytest.approx(hit["channels"]["vector"]["score"])
        else:
            # A sentence has strength 3: 0.3 · confidence, of the last hop.
            assert hit["score"] == pytest.approx(0.3 * found["confidence"], abs=0.001) or hit["score"] > 0.3
            assert (hit["hops"], bool(hit["entity"])) == (1, True)


def test_min_score_leaves_vector_hits_out_and_says_so(run, settings_file):
    settings_file("gate.min_score = 0.3")
    few = json.loads(run("query", QUESTION, "--json", "--method", "vector").stdout)["hits"]
    assert all(hit["score"] >= 0.3 for hit in few)
    settings_file("gate.min_score = 1")
    none = run("query", QUESTION, "--method", "vector")
    assert none.exit_code == 1
    assert "no results: no passage has the similarity 1.00 that min_score asks for" in none.stderr
    assert "lower min_score" in run("explain", QUESTION, "--method", "vector").stderr


def test_a_low_confidence_skips_the_graph_and_says_what_to_do(run, settings_file):
    settings_file("gate.min_confidence = 1")
    explained = " ".join(run("explain", QUESTION).stdout.split())
    assert "confidence" in explained
    assert "or lower min_confidence" in explained


def test_min_graph_score_is_passed_on(run, settings_file):
    found = []
    for least in (0, 1):
        settings_file(f"gate.min_graph_score = {least}")
        found.append(json.loads(run("query", QUESTION, "--json", "--method", "graph", "--k", "50").stdout)["hits"])
    assert len(found[1]) < len(found[0])
    settings_file("gate.min_graph_score = 7")
    refused = run("query", QUESTION)
    assert refused.exit_code == 1
    assert "gate.min_graph_score is 7: use a number from 0 to 1" in refused.stderr


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
