"""``query``, ``explain``, ``stats`` and ``compare``: output for people and for programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from graphrag_core.embedders import WordLlama

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


def test_a_query_imports_only_what_it_needs(kb, tmp_path):
    code = f"""
import sys
from graphrag_apps.cli import main
try:
    main(["query", {QUESTION!r}, "--kb", {str(tmp_path / "kb")!r}])
finally:
    heavy = {{"asyncio", "jinja2", "pandas", "scipy", "tqdm", "wordllama"}}
    heavy |= {{"graphrag_apps.documents.load", "graphrag_apps.compare", "graphrag_core.extract.sentences"}}
    print("imported:", sorted(heavy & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "joaquim-prates.md" in done.stdout
    assert done.stdout.splitlines()[-1] == "imported: []"


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


def test_json_has_paths(run, kb):
    hits = json.loads(run("query", QUESTION, "--json").stdout)["hits"]
    found = next(hit for hit in hits if hit["document_id"] == "joaquim-prates.md")
    assert [step["kind"] for step in found["path"]] == ["question", "entity", "fact", "entity", "chunk"]


def test_new_words_and_links_are_shown_and_read(run, kb):
    shown = " ".join(run("query", QUESTION, "--k", "3").stdout.split())
    answer = json.loads(run("query", QUESTION, "--k", "3", "--json").stdout)
    explained = " ".join(run("explain", QUESTION, "--k", "3").stdout.split())
    first, second, _ = answer["hits"]
    assert "2103" in " ".join(first["covers"])
    assert f"words of the question: {', '.join(first['covers'])}" in shown
    assert f"words of the question: {', '.join(first['covers'])}" in explained
    link = second["link"]
    assert (link["rank"], link["chunk_id"], link["entity"]) == (1, first["id"], "Joaquim Prates")
    assert "Joaquim Prates (mentioned in passage 1)" in shown
    assert "Joaquim Prates (mentioned in passage 1)" in explained
    assert answer["decided"] in shown
    assert answer["decided"] in explained
    assert answer["gate"] in explained
    assert answer["gate"] not in shown
    assert answer["confidence"] is None
    assert not set(answer["uncovered"]) & {word for hit in answer["hits"] for word in hit["words"]}
    plain = run("query", QUESTION, "--method", "vector").stdout + run("explain", QUESTION, "--method", "vector").stdout
    assert "of the question" not in plain
    assert "passage 1" not in plain


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


def test_a_question_without_a_known_word_says_that_its_passages_are_only_the_nearest(run, kb):
    told = "no word of the question occurs in the documents searched: these are only the nearest passages by vector"
    for command in (
        ["query"],
        ["query", "--set", "use_graph=false"],
        ["query", "--filter", "format=markdown"],
        ["explain"],
    ):
        result = run(*command, "What is zxqv blorf?")
        assert result.exit_code == 0
        assert told in " ".join(result.stdout.split())
    answer = json.loads(run("query", "zxqv blorf", "--json").stdout)
    assert (answer["advice"], len(answer["hits"])) == (told, 5)
    assert answer["decided"].startswith("vector search led")
    assert "no word" not in run("query", "zxqv Keyring").stdout


@pytest.mark.parametrize("style", ["graph", "passages", "narrative"])
def test_context_is_printed_alone(run, kb, style):
    options = "--context", 200, "--set", f"context.style={style}"
    result = run("query", QUESTION, *options)
    assert result.exit_code == 0
    assert "Joaquim Prates" in result.stdout
    assert "graph #" not in result.stdout
    assert "Joaquim" in json.loads(run("query", QUESTION, *options, "--json").stdout)["context"]


def test_without_a_question_every_line_of_input_is_a_question(run, kb):
    lines = "What is Keyring?\n\nWho leads the Harbour Team?\nexit\nnever asked\n"
    result = run("query", "--json", "--k", 2, stdin=lines)
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert result.exit_code == 0
    assert [first["question"], second["question"]] == ["What is Keyring?", "Who leads the Harbour Team?"]
    assert len(first["hits"]) == len(second["hits"]) == 2


def test_an_invalid_question_does_not_end_the_prompt(run, kb):
    result = run("query", "--json", stdin="x" * 200_000 + "\nWhat is Keyring?\n")
    assert "at most 100,000" in result.stderr
    assert json.loads(result.stdout)["hits"]


@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_blank_question_is_an_error(run, kb, command, caplog):
    result = run(command, " ")
    assert result.exit_code == 1
    assert "no results: the question is empty: ask in words" in result.stderr


@pytest.mark.parametrize("command", ["query", "explain"])
def test_an_embedder_that_fails_is_an_error_unless_keywords_are_asked_for(run, kb, command, monkeypatch, settings_file):
    monkeypatch.setattr(WordLlama, "embed_query", lambda self, text: 1 / 0)
    result = run(command, "What is Keyring?")
    assert result.exit_code == 1
    assert "raised ZeroDivisionError on a question" in result.stderr
    assert 'on_embedder_error="keyword"' in result.stderr
    settings_file("on_embedder_error = 'keyword'")
    result = run(command, "What is Keyring?")
    assert result.exit_code == 0
    assert "keyword search only" in " ".join(result.stdout.split())


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


def test_explain_writes_a_page(run, kb, tmp_path):
    result = run("explain", QUESTION, "--html", "out.html")
    assert result.exit_code == 0
    assert "Joaquim Prates" in (tmp_path / "out.html").read_text("utf-8")
    assert run("explain", QUESTION, "--html", "no/such/folder.html").exit_code == 1


def test_stats_are_shown_and_read(run, kb):
    assert "Keyring" in run("stats").stdout or "Auth Service" in run("stats").stdout
    stats = json.loads(run("stats", "--json").stdout)
    assert stats["documents"] == 39
    assert stats["embedder"].startswith("wordllama")


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


# -- compare


def test_compare_measures_whether_the_graph_helps(run, kb, tmp_path):
    rows = [
        {"question": QUESTION, "gold": ["inc-2103.md", "joaquim-prates.md"]},
        {"question": "What is the background of the author of ADR-019?", "gold": ["adr-019.md", "rosa-millan.md"]},
        {"question": "What is Keyring?", "gold": ["keyring.md"]},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    report = json.loads(run("compare", "q.jsonl", "--json").stdout)
    difference = report["differences"]["vector+keyword"]["recall@5"]
    assert (report["judged"], difference["worse"]) == (3, 0)
    assert difference["interval"][0] <= difference["value"] <= difference["interval"][1]
    assert report["methods"]["hybrid"]["measures"]["recall@5"]["mean"] == 1
    assert report["methods"]["vector"]["measures"]["recall@5"]["mean"] == pytest.approx(2 / 3)
    shown = run("compare", "q.jsonl")
    assert shown.exit_code == 0
    assert "recall@5" in shown.stdout
    assert report["verdict"] in " ".join(shown.stdout.split())


def test_compare_without_gold_shows_the_differences(run, kb, tmp_path):
    (tmp_path / "q.txt").write_text(f"{QUESTION}\nWhat is Keyring?\n")
    result = run("compare", "q.txt")
    assert result.exit_code == 0
    assert "the graph adds" in result.stdout
    assert "Joaquim Prates" in result.stdout
    report = json.loads(run("compare", "q.txt", "--json").stdout)
    assert report["judged"] == 0
    assert report["verdict"] in " ".join(result.stdout.split())


def test_compare_reports_invalid_questions(run, kb, tmp_path):
    (tmp_path / "q.jsonl").write_text('{"question": "What is Keyring?", "gold": ["nowhere.md"]}\n')
    result = run("compare", "q.jsonl")
    assert result.exit_code == 1
    assert "nowhere.md: gold document is not in the index" in result.stderr
    assert "left out of all measures: 1" in result.stderr
    (tmp_path / "bad.jsonl").write_text('{"ask": 1}\n')
    assert "bad.jsonl, line 1: needs 'question'" in run("compare", "bad.jsonl").stderr
    assert run("compare", "missing.jsonl").exit_code == 1


def test_a_setting_of_another_type_is_an_error(run, kb, settings_file):
    settings_file("reranker = 'best'")
    result = run("query", QUESTION)
    assert result.exit_code == 1
    assert "reranker" in result.stderr
