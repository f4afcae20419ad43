"""``demo``: every claim it prints is backed by what was found."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from graphrag_apps.demo import QUESTIONS, sample_documents
from graphrag_core import GraphRetriever, KnowledgeIndex


@pytest.fixture
def retriever(wordllama):
    with KnowledgeIndex(wordllama, progress=False) as index:
        index.add(sample_documents())
        yield GraphRetriever(index)


def test_the_graph_finds_what_plain_search_misses(retriever):
    assert len(QUESTIONS) == 3
    for question in QUESTIONS[:2]:
        needed = set(question.needed)
        plain = {hit.chunk.document_id for hit in retriever.retrieve(question.text, use_graph=False)}
        hybrid = {hit.chunk.document_id for hit in retriever.retrieve(question.text)}
        assert needed <= hybrid, question.text
        assert not needed <= plain, question.text
    plain, alone = QUESTIONS[2], {"tide-feed"}  # where the graph adds nothing
    assert {hit.chunk.document_id for hit in retriever.retrieve(plain.text, method="vector", k=1)} == alone
    assert {hit.chunk.document_id for hit in retriever.retrieve(plain.text, k=1)} == alone


@pytest.mark.parametrize("columns", [80, 120])
def test_it_fits_the_terminal_and_ends_with_the_next_steps(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = run("demo")
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= columns
    assert len(re.findall(r"The graph adds", result.stdout)) == 2
    assert "hybrid-graphrag-demo.html" in result.stdout
    assert "index FOLDER" in result.stdout


def test_without_typer_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from graphrag_apps.cli import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "The command line needs 'typer and rich': pip install 'hybrid-graphrag[cli]'"
