"""The commands that tell facts: remember, confirm, reject, forget, memories."""

from __future__ import annotations

import json
import re

from files import write_samples

ID = re.compile(r"fact:[0-9a-f]{16}")


def remember(run, *arguments) -> str:
    result = run("memory", "remember", *arguments)
    assert result.exit_code == 0, result.output
    return ID.search(result.stdout).group()


def test_a_memory_starts_with_the_first_fact_and_is_queried(run):
    fact = remember(run, "User", "prefers", "dark mode", "--literal", "--metadata", "user=ada")
    assert run("memory", "list").stdout == f"{fact}  User prefers: dark mode  (confirmed, user=ada)\n"
    found = run("query", "What does the User prefer?", "--context", "narrative", "--where", "user=ada")
    assert found.stdout == "### 👤 USER CONTEXT\n- prefers: dark mode\n"
    assert run("verify").exit_code == 0


def test_an_index_whose_creation_was_interrupted_is_created_by_the_next_run(run, tmp_path):
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb/records.sqlite").touch()  # as a process that is killed leaves it
    found = run("query", "User", "--kb", "kb")
    assert found.exit_code == 1
    assert "creating the index in kb was interrupted" in found.stderr
    assert "Repeat" in found.stderr
    remember(run, "User", "prefers", "dark mode", "--literal", "--kb", "kb", "--embedder", "none")
    assert "dark mode" in run("query", "User", "--kb", "kb").stdout, "the embedder was stored"


def test_facts_supersede_each_other_and_can_be_asked_for_as_of_a_date(run):
    acme = remember(run, "Ada", "works_at", "Acme", "--valid-from", "2019-01-01")
    globex = remember(run, "Ada", "works_at", "Globex", "--valid-from", "2022-01-01", "--replace")
    assert "Ada works at Acme" in run("query", "Ada", "--as-of", "2020-06-01").stdout
    assert "Ada works at Globex" in run("query", "Ada").stdout
    assert "Acme" in run("explain", "Ada", "--as-of", "2020-06-01").stdout
    rows = json.loads(run("memory", "list", "--json").stdout)
    assert [(row["id"], row["valid_from"], row.get("valid_to")) for row in rows] == [
        (acme, "2019-01-01", "2022-01-01"), (globex, "2022-01-01", None),
    ]  # fmt: skip
    assert [row["id"] for row in json.loads(run("memory", "list", "--json", "--as-of", "2020-01-01").stdout)] == [acme]
    remember(run, "Ada", "works_at", "Initech", "--supersedes", globex)
    assert "Globex" not in run("query", "Ada").stdout


def test_facts_are_confirmed_rejected_and_forgotten(run):
    fact = remember(run, "User", "likes", "Green Tea", "--source", "conversation", "--metadata", "user=ada")
    assert "(staged" in run("memory", "list").stdout
    assert "(confirmed" in run("memory", "confirm", fact, "--where", "user=ada").stdout
    assert "(rejected" in run("memory", "reject", fact).stdout
    assert "Green Tea" not in run("query", "User likes").stdout
    assert run("memory", "list", "--status", "rejected").stdout.startswith(fact)
    refused = run("memory", "confirm", fact, "--where", "user=bob")
    assert (refused.exit_code, "no fact" in refused.stderr) == (1, True)
    assert run("memory", "forget", "fact:0000000000000000").exit_code == 1
    assert run("memory", "forget").exit_code == 2
    assert run("memory", "forget", "--where", "user=ada").stdout == "1 forgotten\n"
    assert run("memory", "list").stdout == ""


def test_files_and_facts_live_in_one_index(run, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    write_samples(folder)
    fact = remember(run, "User", "likes", "Green Tea")
    assert run("index", folder, "--kb", "kb").exit_code == 0
    for file in folder.iterdir():
        file.unlink()
    (folder / "new.md").write_text("# Tea\n\nGreen Tea is brewed.", "utf-8")
    assert run("index", folder, "--kb", "kb").exit_code == 0
    assert run("memory", "list").stdout.startswith(fact)
    assert run("verify").exit_code == 0


def test_mistakes_are_told(run):
    for arguments in (
        ("User", "likes", "tea", "--valid-from", "soon"),
        ("User", "likes", "!!!"),
        ("User", "likes", "tea", "--supersedes", "fact:0"),
    ):
        result = run("memory", "remember", *arguments)
        assert (result.exit_code, bool(result.stderr)) == (1, True)
    assert run("memory", "remember", "User", "likes", "tea", "--status", "maybe").exit_code == 2


def test_memories_have_a_limit(run):
    for name in ("Ada", "Ben", "Cleo"):
        run("memory", "remember", name, "likes", "tea", "--embedder", "none")
    assert len(run("memory", "list").stdout.splitlines()) == 3
    limited = run("memory", "list", "-n", 2)
    assert len(limited.stdout.splitlines()) == 2
    assert "1 more" in limited.stderr
    assert len(json.loads(run("memory", "list", "--limit", 1, "--json").stdout)) == 1
    assert len(run("memory", "list", "--limit", 0).stdout.splitlines()) == 3
