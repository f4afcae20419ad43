"""The commands that list and edit the graph."""

from __future__ import annotations

import json

import pytest

from graphrag_core import KnowledgeIndex


@pytest.fixture
def kb(run, tmp_path):
    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts the Keyring.", "utf-8")
    (tmp_path / "b.md").write_text("# Keyring\n\nThe Keyring is sold by Solheim Systems.", "utf-8")
    assert run("index", tmp_path / "a.md", tmp_path / "b.md", "--kb", "kb", "--embedder", "none").exit_code == 0
    return "kb"


def test_entities_are_listed_renamed_merged_and_restored(run, kb):
    assert run("graph", "entities", "key").stdout == "Keyring  (2 passages)\n"
    assert run("graph", "edit", "rename", "keyring", "Vault").stdout == "1  renamed 'Keyring' to 'Vault'\n"
    assert run("graph", "edit", "merge", "Solheim Systems", "--into", "Auth Service").exit_code == 0
    rows = json.loads(run("graph", "entities", "--json").stdout)
    assert {row["name"]: row["aliases"] for row in rows}["Vault"] == ["Keyring"]
    assert [edit["number"] for edit in json.loads(run("graph", "edit", "list", "--json").stdout)] == [1, 2]
    assert "renamed 'Keyring' to 'Vault'" in run("graph", "edit", "list").stdout
    for number in (1, 2):
        assert run("graph", "edit", "undo", number).exit_code == 0
    assert run("graph", "entities", "key").stdout == "Keyring  (2 passages)\n"
    assert run("graph", "edit", "list").output.strip().endswith("the graph has no edits")
    assert run("verify").exit_code == 0


def test_relations_and_entities_are_added_and_deleted(run, kb):
    assert run("graph", "edit", "add", "Harbour Team", "owns", "Keyring").exit_code == 0
    line = run("graph", "relations", "--relation", "owns").stdout
    assert "Harbour Team owns Keyring  (owns)" in line
    assert run("graph", "edit", "delete", line.split()[0]).exit_code == 0
    assert run("graph", "relations", "--relation", "owns").stdout == ""
    assert run("graph", "edit", "delete", "Harbour Team").exit_code == 0
    assert run("graph", "entities", "harbour").stdout == ""


def test_a_filter_with_an_unknown_key_finds_nothing_and_is_told(run, kb):
    assert run("graph", "entities", "--filter", "year=2020").stdout == ""
    assert run("graph", "entities", "--filter", "year?").stdout == ""
    result = run("query", "Keyring", "--filter", "year!=2020")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no results: no document has the metadata key 'year'" in " ".join(result.output.split())
    run("graph", "edit", "add", "Harbour Team", "owns", "Keyring")
    with KnowledgeIndex.open(kb) as index:
        index.memory.remember("Rosa", "owns", "Keyring", metadata={"year": 2020})
    assert run("graph", "entities", "rosa", "--filter", "year?").stdout.startswith("Rosa")
    assert run("graph", "entities", "harbour", "--filter", "year?").stdout == ""
    assert "KEY?" in run("graph", "entities", "--filter", "year").output
