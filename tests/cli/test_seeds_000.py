"""The designs of the hybrid retriever and of the expansion queries, on the command line."""

from __future__ import annotations

import json
import shutil

import pytest

QUESTION = "What does the Auth Service depend on?"


@pytest.fixture
def kb(run, indexed, tmp_path):
    shutil.copytree(indexed, tmp_path / "kb")


def answer(run, *options: str):
    result = run("query", QUESTION, "--json", *options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_published_neighbourhood_adds_up_to_four_passages(run, kb, settings_file):
    plain = answer(run, "-k", "3", "--set", "use_graph=false")
    found = answer(run, "-k", "3", "--design", "hybrid")
    assert plain["expansion_skipped"] == "the graph was not used"
    assert len(plain["hits"]) == 3
    assert {hit["id"] for hit in plain["hits"]} <= {hit["id"] for hit in found["hits"]}
    assert 3 < len(found["hits"]) <= 3 + 4
    settings_file("fusion.max_chunks = 1", 'design = "hybrid"')
    assert len(answer(run, "-k", "3")["hits"]) == 4
    assert len(answer(run, "-k", "3", "--set", "fusion.max_chunks=2")["hits"]) == 5


def test_the_published_expansion_queries_are_joined_with_vector_search(run, kb):
    found = answer(run, "--design", "kg2rag")
    assert not any("keyword" in hit["channels"] for hit in found["hits"])
    assert any("graph" in hit["channels"] for hit in found["hits"])


def test_weights_of_plain_search(run, kb, settings_file):
    by_vector = answer(run, "--method", "vector")
    settings_file("vector_weight = 1")
    assert [hit["id"] for hit in answer(run, "--set", "use_graph=false")["hits"]] == [
        hit["id"] for hit in by_vector["hits"]
    ]
    settings_file("vector_weight = 0")
    by_keyword = answer(run, "--set", "use_graph=false")
    assert {name for hit in by_keyword["hits"] for name in hit["channels"]} == {"keyword"}
    settings_file("vector_weight = 2")
    failed = run("query", QUESTION)
    assert failed.exit_code == 1
    assert "vector_weight is 2: use a number from 0 to 1" in failed.stderr


def test_the_context_has_both_and_without_the_graph_passages_alone(run, kb):
    context = run("query", QUESTION, "--context", "2000", "--design", "hybrid").stdout
    assert context.startswith("[Score: ")
    assert "## Knowledge Graph Context\nQuery entities: [Auth Service]" in context
    plain = run("query", QUESTION, "--context", "500", "--set", "context.style=both", "--set", "use_graph=false").stdout
    assert "Knowledge Graph" not in plain
    assert "Related Entities" not in plain


def test_explain_says_why_the_graph_adds_nothing(run, kb):
    shown = " ".join(run("explain", "zzz qqq", "--design", "hybrid").stdout.split())
    assert "the question names no known entity" in shown


def test_options_that_do_not_fit_are_refused(run, kb):
    failed = run("query", QUESTION, "--design", "kg2rg")
    assert failed.exit_code == 1
    assert "did you mean 'kg2rag'" in failed.stderr
