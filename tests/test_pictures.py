"""The pictures in README and docs show what the demo and the explorer show now."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from graphrag_apps.demo import QUESTIONS, sample_documents
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

pytest.importorskip("rich")
ROOT = Path(__file__).parents[1]
STALE = "the pictures show something else: run 'make screenshots'"


def _screenshot():
    spec = importlib.util.spec_from_file_location("screenshot", ROOT / "docs" / "screenshot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


screenshot = _screenshot()
SHOWN = json.loads(screenshot.SHOWN.read_text("utf-8"))


def test_the_pictures_show_what_the_demo_writes(tmp_path):
    terminal, page = screenshot.run_demo(tmp_path)
    assert screenshot.shown(terminal, page.read_text("utf-8")) == SHOWN["demo"], STALE


def test_the_picture_of_the_explorer_shows_the_sample_documents():
    explorer = screenshot.sample_explorer()
    with explorer.index:
        assert screenshot.explored(explorer) == SHOWN["explorer"], STALE


def test_the_pictures_are_named_in_the_readme_and_on_the_home_page():
    for page, folder in (("README.md", "docs/"), ("docs/index.md", "")):
        text = (ROOT / page).read_text("utf-8")
        for name in ("explain-light.png", "explain-dark.png", "demo.png"):
            assert f'"{folder}{name}"' in text, page


def test_the_example_in_the_readme_is_what_both_ways_find():
    question = QUESTIONS[0]
    with KnowledgeIndex(WordLlama(), progress=False) as index:
        index.add(sample_documents())
        retriever = GraphRetriever(index)
        plain, hybrid = (retriever.retrieve(question.text, **way) for way in ({"use_graph": False}, {}))
    text = (ROOT / "README.md").read_text("utf-8")
    example = text.split("```text\n", 1)[1].split("```", 1)[0].splitlines()
    assert example[0] == question.text
    rows = [[part.strip(" ✓·") for part in line.split("  ") if part.strip()] for line in example if line[:1].isdigit()]
    titles = zip(*([hit.chunk.title for hit in found] for found in (plain, hybrid)), strict=True)
    assert rows == [[str(rank), *pair] for rank, pair in enumerate(titles, 1)], "write the example of the README anew"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 130
