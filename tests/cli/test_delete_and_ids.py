"""``delete`` by file, folder and pattern, indexes without a graph, and ids that can be copied whole."""

from __future__ import annotations

import json

import pytest

from graphrag_core import KnowledgeIndex


def ids(folder):
    with KnowledgeIndex.open(folder, read_only=True) as index:
        return set(index.document_ids())


@pytest.fixture
def kb(run, tmp_path):
    docs = tmp_path / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / "people.csv").write_text("id,name\n" + "".join(f"{number},Person {number}\n" for number in range(1, 4)))
    (docs / "deep" / "x.md").write_text("# X\n\nX is deep.")
    (docs / "deep" / "y.md").write_text("# Y\n\nY is deep.")
    (docs / "z.txt").write_text("Z is here.")
    assert run("index", "docs", "--embedder", "none").exit_code == 0
    return tmp_path / "kb"


ALL = {"people.csv#1", "people.csv#2", "people.csv#3", "deep/x.md", "deep/y.md", "z.txt"}


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("people.csv", {"deep/x.md", "deep/y.md", "z.txt"}),
        ("docs/people.csv", {"deep/x.md", "deep/y.md", "z.txt"}),
        ("people.csv#2", ALL - {"people.csv#2"}),
        ("deep", ALL - {"deep/x.md", "deep/y.md"}),
        ("docs/deep/", ALL - {"deep/x.md", "deep/y.md"}),
        ("*.md", ALL - {"deep/x.md", "deep/y.md"}),
        ("*.txt", ALL - {"z.txt"}),
        ("people.csv#[12]", {"people.csv#3", "deep/x.md", "deep/y.md", "z.txt"}),
        ("docs", set()),
    ],
)
def test_documents_are_deleted_by_id_file_folder_and_pattern(run, kb, target, left):
    assert ids(kb) == ALL
    result = run("delete", target)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{len(ALL - left)} deleted\n"
    assert ids(kb) == left
    assert run("index", "docs").exit_code == 0  # files that still exist come back
    assert ids(kb) == ALL
    assert run("verify").exit_code == 0


def test_a_target_that_matches_nothing_is_reported(run, kb):
    result = run("delete", "nothing.md", "*.pdf", "z.txt")
    assert (result.exit_code, result.stdout) == (1, "1 deleted\n")
    assert "nothing.md: no such document" in result.stderr
    assert "*.pdf: no such document" in result.stderr


def test_an_index_without_a_graph_stays_without(run, tmp_path):
    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts the Keyring.")
    run("index", "a.md", "--embedder", "hash", "--no-graph")
    stats = json.loads(run("stats", "--json").stdout)
    assert (stats["entities"], stats["facts"]) == (0, 0)
    (tmp_path / "b.md").write_text("# Keyring\n\nThe Keyring is sold by Solheim.")
    run("index", "a.md", "b.md")
    assert json.loads(run("stats", "--json").stdout)["facts"] == 0
    assert run("query", "Keyring").exit_code == 0
    assert run("index", "a.md", "b.md", "--graph").exit_code == 0
    assert json.loads(run("stats", "--json").stdout)["facts"] > 0
