"""``query``, ``explain``, ``stats`` and ``compare``: output for people and for programs."""

from __future__ import annotations

import json
import shutil

import pytest

QUESTION = "Who is the boss of the man who called every port after INC-2103?"


@pytest.fixture
def kb(run, indexed, tmp_path):
    shutil.copytree(indexed, tmp_path / "kb")


def test_hits_are_shown_with_their_channels_and_paths(run, kb):
    result = run("query", QUESTION, "--k", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "INC-2103 (Double invoices)" in result.stdout
    assert "joaquim-prates.md" in result.stdout
    assert "INC-2103 — Joaquim Prates called each port himself. → Joaquim Prates" in result.stdout
    assert not any(line.endswith("  ") for line in result.stdout.splitlines())


@pytest.mark.parametrize("method", ["agentic", "vector", "graph", "keyword", "hybrid"])
def test_every_method_answers_in_json(run, kb, method):
    result = run("query", QUESTION, "--method", method, "--json", "-k", "3")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert len(answer["hits"]) == 3
    assert answer["hits"][0]["document_id"] == "inc-2103.md"
    assert answer["hits"][0]["metadata"]["format"] == "markdown"
    assert bool(answer["route"]) == (method == "agentic")
    assert answer["method"] == ("hybrid" if method == "agentic" else method)


def test_where_filters_by_text_and_numbers(run, docs):
    run("index", docs)
    asked = ["query", "Who runs the Tide Feed?", "--json"]

    def found(*conditions):
        answer = run(*asked, *(part for c in conditions for part in ("--filter", c)))
        return {hit["document_id"] for hit in json.loads(answer.stdout)["hits"]}

    assert found("team=harbour") == {"tide.md"}
    assert found("year>=2021", "year<2022") == {"tide.md"}
    assert found("format=csv", "since>2018") == {"people.csv#9"}
    assert "tide.md" not in found("format!=markdown")
    nothing = run("query", "Tide Feed", "--filter", "team=nobody")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert nothing.stderr == "✗ no results: no document matches the filter: check its keys and values\n"
    assert run("query", "Tide Feed", "--filter", "team").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "x", "-k", "0"], "Invalid value for '--k' / '-k'"),
        (["compare", "x", "-k", "two"], "Invalid value for '--k' / '-k'"),
        (["graph", "edit", "undo", "first"], "Invalid value for 'number'"),
        (["query", "x", "--method", "magic"], "Invalid value for '--method'"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_an_error_that_says_what_it_takes(run, arguments, message):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_explain_prints_entities_channels_paths_and_facts(run, kb):
    result = run("explain", QUESTION)
    assert result.exit_code == 0
    for part in (
        "entities: INC-2103",
        "graph",
        "Joaquim Prates called each port himself.",
        "Supporting facts",
        "ms:",
    ):
        assert part in result.stdout


def test_color_is_used_on_a_terminal_only_and_never_with_no_color(run, kb, monkeypatch):
    assert "\x1b[" not in run("query", QUESTION).stdout
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[" not in run("query", QUESTION).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("query", QUESTION).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("query", QUESTION).stdout


def test_version_help_and_wrong_usage(run):
    assert run("--version").stdout.startswith("hybrid-graphrag 0.")
    assert all(
        command in run("--help").stdout
        for command in ("demo", "index", "query", "explain", "compare", "stats", "verify", "delete", "graph", "export")
    )
    assert run("nonsense").exit_code == 2


def test_a_design_its_numbers_and_a_page(run, kb, tmp_path):
    design = ("query", QUESTION, "--json", "--design", "confident")
    assert run(*design, "--set", "gate.min_score=1").exit_code == 1
    assert json.loads(run(*design, "--set", "gate.min_score=0.1").stdout)["hits"]
    shown = run("query", QUESTION, "--set", "context.style=passages", "--context", 200)
    assert shown.stdout.startswith("[Score: ")
    for given, said in (
        ("gate.min_scor=1", "did you mean 'gate.min_score'"),
        ("gate.min_score=high", "gate.min_score is 'high': use a number"),
        ("gate.min_score", "is not KEY=VALUE"),
    ):
        refused = run("query", QUESTION, "--set", given)
        assert refused.exit_code != 0
        assert said in " ".join(refused.stderr.replace("│", " ").split())
    assert run("explain", QUESTION, "--html", "out.html").exit_code == 0
    assert "Joaquim Prates" in (tmp_path / "out.html").read_text("utf-8")
    assert run("explain", QUESTION, "--html", "no/such/folder.html").exit_code == 1
