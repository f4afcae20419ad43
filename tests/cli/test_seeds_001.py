"""The "confident retriever" (seed 001) on the command line."""

from __future__ import annotations

import json

import pytest

QUESTION = "Who runs the Tide Feed?"


@pytest.fixture(autouse=True)
def _kb(indexed, monkeypatch, run):
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", str(indexed))


def test_the_strategy_with_its_gate(run):
    found = json.loads(
        run("query", QUESTION, "--json", "--strategy", "related", "--as-published", "--min-score", "0.2").stdout
    )
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


def test_min_score_leaves_vector_hits_out_and_says_so(run):
    few = json.loads(run("query", QUESTION, "--json", "--method", "vector", "--min-score", "0.3").stdout)["hits"]
    assert all(hit["score"] >= 0.3 for hit in few)
    none = run("query", QUESTION, "--method", "vector", "--min-score", "1")
    assert none.exit_code == 1
    assert "no results: no passage has the similarity 1.00 that min_score asks for" in none.stderr
    assert "lower min_score" in run("explain", QUESTION, "--method", "vector", "--min-score", "1").stderr


def test_a_low_confidence_skips_the_graph_and_says_what_to_do(run):
    explained = " ".join(run("explain", QUESTION, "--min-confidence", "1").stdout.split())
    assert "the graph was skipped: confidence" in explained
    assert "or lower min_confidence" in explained


def test_min_graph_score_is_passed_on(run):
    asked = ["query", QUESTION, "--json", "--method", "graph", "--k", "50"]
    lax, strict = (json.loads(run(*asked, "--min-graph-score", least).stdout)["hits"] for least in ("0", "1"))
    assert len(strict) < len(lax)
    assert run("query", QUESTION, "--min-graph-score", "7").exit_code == 2


def test_relationships_and_sources_of_the_context(run):
    asked = ["query", QUESTION, "--max-tokens", "4000", "--context"]
    graph = run(*asked, "graph").stdout
    assert "### Relevant Relationships" in graph
    assert "### Relevant Relationships" not in run(*asked, "graph", "--no-relationships").stdout
    assert "## Relationships" in run(*asked, "passages", "--relationships").stdout
    cited, plain = run(*asked, "passages").stdout, run(*asked, "passages", "--no-sources").stdout
    assert "tide-feed.md" in cited
    assert all(line.endswith("]") for line in plain.splitlines() if line.startswith("[Score: "))
