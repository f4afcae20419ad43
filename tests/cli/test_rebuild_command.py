"""``rebuild``: entities and facts are extracted again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest


@pytest.fixture
def kb(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "auth.md").write_text(
        "# Auth Service\n\nThe Auth Service trusts the Keyring. It is sold by Solheim Systems."
    )
    (tmp_path / "docs" / "old.md").write_text("# Ledger\n\nThe Ledger belongs to the Harbour Team.")
    assert run("index", "docs", "--embedder", "hash", "--no-graph").exit_code == 0
    assert run("graph", "edit", "add", "Harbour Team", "owns", "Keyring").exit_code == 0
    return tmp_path / "kb"


def facts(run):
    return json.loads(run("stats", "--json").stdout)["facts"]


def test_entities_and_facts_are_extracted_again_with_other_settings(run, kb):
    assert facts(run) == 1
    result = run("rebuild", "--graph")
    assert (result.exit_code, result.stdout) == (0, "3 documents extracted again in kb\n")
    assert facts(run) > 2
    assert run("graph", "entities", "solheim").stdout.startswith("Solheim Systems")
    assert "Keyring" in run("graph", "relations").stdout
    assert run("verify").exit_code == 0
    again = run("index", "docs")
    assert "0 added, 0 changed, 0 removed, 2 unchanged" in again.stdout, "the settings are stored with the index"
    assert run("rebuild", "--quiet").stdout == ""


def test_a_folder_of_an_older_format_is_refused(run, kb):
    with closing(sqlite3.connect(kb / "records.sqlite")) as database:
        database.execute("PRAGMA user_version = 2")
    for command in (("rebuild",), ("query", "Who owns the Keyring?")):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "index the documents again into another folder" in " ".join(refused.stderr.split())
