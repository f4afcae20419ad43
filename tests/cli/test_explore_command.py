"""``explore``: a part of the graph as one page."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def kb(run, indexed, tmp_path):
    shutil.copytree(indexed, tmp_path / "kb")


def test_a_page_is_written_with_the_question_and_the_entity(run, kb, tmp_path):
    result = run(
        "graph", "explore", "--question", "Who runs the OAuth Provider?", "--entity", "auth service", "-o", "page.html"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "page.html written" in result.stdout
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Who runs the OAuth Provider?" in page
    assert '"start":{"kind":"entity","value":"auth service"}' in page


def test_it_starts_with_the_overview(run, kb, tmp_path):
    assert run("graph", "explore", "--max-nodes", "5").exit_code == 0
    assert '"start":{"kind":"overview"' in (tmp_path / "explore.html").read_text("utf-8")


def test_what_cannot_be_written_or_does_not_exist_is_explained(run, kb):
    result = run("graph", "explore", "--entity", "Nobody Known")
    assert result.exit_code == 1
    assert "there is no entity 'Nobody Known'" in " ".join(result.stderr.split())
    result = run("graph", "explore", "-o", "missing/folder/page.html")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_a_misspelt_entity_gets_a_suggestion(run, indexed):
    known = json.loads(run("graph", "entities", "--kb", indexed, "--json", "-n", 1).stdout)[0]["name"]
    result = run("graph", "explore", "--kb", indexed, "--entity", known[:-1] + "xq")
    assert result.exit_code == 1
    assert f"did you mean '{known}'" in " ".join(result.output.split())
