"""``explore``: a part of the graph as one page."""

from __future__ import annotations

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


def test_what_cannot_be_written_or_does_not_exist_is_explained(run, kb):
    result = run("graph", "explore", "--entity", "Nobody Known")
    assert result.exit_code == 1
    assert "there is no entity 'Nobody Known'" in " ".join(result.stderr.split())
    result = run("graph", "explore", "-o", "missing/folder/page.html")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr
