"""``index``: first runs, later runs and interrupted runs."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from files import DOCUMENTS, SAMPLES

from graphrag_apps.documents import FileSource, sync_files
from graphrag_core import KnowledgeIndex
from graphrag_core.errors import EmbedderError
from graphrag_core.testing import HashEmbedder


def ids(kb):
    with KnowledgeIndex.open(kb, read_only=True) as index:
        return {document.id for document in index.documents()}


def counts(result):
    return result.stdout.splitlines()[0].split(":")[0]


def test_a_first_run_adds_and_a_second_changes_nothing(run, docs, tmp_path):
    first = run("index", docs, "--kb", "kb")
    assert (first.exit_code, first.stderr) == (0, "")
    assert counts(first) == f"{DOCUMENTS} added, 0 changed, 0 removed, 0 unchanged"
    lines = first.stdout.splitlines()
    assert re.fullmatch(rf"9 files, {DOCUMENTS} passages, \d+ entities, \d+\.\d s", lines[1])
    second = run("index", docs, "--kb", "kb")
    assert counts(second) == f"0 added, 0 changed, 0 removed, {DOCUMENTS} unchanged"
    assert run("verify").exit_code == 0
    assert len(ids(tmp_path / "kb")) == DOCUMENTS


def test_no_name_that_a_shell_would_read_is_suggested(run, tmp_path):
    for name in ("Harbour $(touch owned)", "Harbour `id`", 'Harbour "Team"', "Harbour!"):
        text = f"# {name}\n\n{name} is a company. It belongs to Keyring.\n"
        (tmp_path / f"{len(list(tmp_path.iterdir()))}.md").write_text(text)
    suggested = run("index", tmp_path).stdout.partition("Try:\n")[2]
    assert suggested
    assert not set("$`!") & set(suggested)
    assert suggested.count('"') == 2 * len(suggested.splitlines())


def test_new_changed_and_removed_documents_are_counted(run, docs, tmp_path):
    run("index", docs)
    (docs / "tide.md").write_text(SAMPLES["tide.md"] + "It was begun in 2016.")
    (docs / "new.md").write_text("# New\n\nNew is new.")
    (docs / "planner.txt").unlink()
    (docs / "people.csv").write_text(SAMPLES["people.csv"].rsplit("9,", 1)[0])
    result = run("index", docs)
    assert counts(result) == f"1 added, 1 changed, 2 removed, {DOCUMENTS - 3} unchanged"
    assert {"planner.txt", "people.csv#9"}.isdisjoint(ids(tmp_path / "kb"))
    again = run("index", docs)
    assert counts(again) == f"0 added, 0 changed, 0 removed, {DOCUMENTS - 1} unchanged"


def test_missing_files_are_kept_with_keep_missing_or_if_their_folder_is_missing(run, docs, tmp_path):
    run("index", docs)
    (docs / "planner.txt").unlink()
    assert "0 removed" in counts(run("index", docs, "--keep-missing"))
    docs.rename(tmp_path / "unplugged")
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.md").write_text("# X\n\nX.")
    result = run("index", docs, other)
    assert result.exit_code == 1
    assert "no such file or folder" in result.stderr
    assert counts(result) == "1 added, 0 changed, 0 removed, 0 unchanged"
    assert "planner.txt" in ids(tmp_path / "kb")


def test_the_folder_of_an_index_is_skipped(run, docs, tmp_path):
    run("index", tmp_path, "--kb", docs / "kb")
    second = run("index", tmp_path, "--kb", docs / "kb")
    assert counts(second) == f"0 added, 0 changed, 0 removed, {DOCUMENTS} unchanged"


def test_a_damaged_file_keeps_its_documents_and_an_emptied_one_does_not(run, docs, tmp_path):
    run("index", docs)
    (docs / "app.pdf").write_bytes(b"%PDF-1.4 no")
    (docs / "tide.md").write_text("")
    result = run("index", docs)
    assert result.exit_code == 1
    assert "1 removed" in counts(result)
    assert "app.pdf" in ids(tmp_path / "kb")
    assert "tide.md" not in ids(tmp_path / "kb")


def test_no_index_is_created_if_there_is_nothing_to_index(run, tmp_path):
    assert run("index", "missing", "also-missing").exit_code == 1
    assert run("index").exit_code == 2
    (tmp_path / "empty").mkdir()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").touch()
    (tmp_path / "pictures" / "broken.pdf").write_bytes(b"%PDF-1.4 no")
    for folder, found in (("empty", ""), ("pictures", ", only 1 .png")):
        result = run("index", folder)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"✗ {folder}: no file that can be read{found}. Formats: .txt .text .md" in result.stderr
        assert ("broken.pdf: " in result.stderr) == (folder == "pictures")
    assert "no file that can be read" in run("index", "empty", "--llm", "http://localhost:1/v1/model").stderr
    assert not (tmp_path / "kb").exists()


def test_metadata_and_chunk_size_are_applied_and_stored(run, tmp_path):
    (tmp_path / "long.txt").write_text("The Tide Feed gathers water levels every six minutes. " * 40)
    run("index", "long.txt", "--chunk-size", "32", "--metadata", "tenant=acme", "--metadata", "year=2024")
    with KnowledgeIndex.open(tmp_path / "kb", read_only=True) as index:
        assert index.get("long.txt").metadata["tenant"] == "acme"
        cut = len(index.chunks("long.txt"))
    assert cut > 10
    (tmp_path / "more.txt").write_text("The Ledger is a book of double entries. " * 40)
    run("index", "more.txt")
    with KnowledgeIndex.open(tmp_path / "kb", read_only=True) as index:
        assert len(index.chunks("more.txt")) > 5
    assert run("index", "long.txt", "--metadata", "tenant").exit_code == 2
    assert "1 changed" in run("index", "long.txt", "--chunk-size", "64").stdout


@pytest.mark.parametrize("command", ["query", "explain", "stats", "verify", "backup", "delete", "compare"])
def test_a_missing_index_is_reported_in_one_line(run, tmp_path, command):
    (tmp_path / "q.txt").write_text("Why?")
    more = {"query": ["Why?"], "explain": ["Why?"], "delete": ["x"], "backup": ["x"], "compare": ["q.txt"]}.get(
        command, []
    )
    result = run(command, *more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0].startswith("✗ no index in kb: create one with ")


def test_a_file_that_was_half_read_is_read_again_whatever_it_has_become(tmp_path):
    """Also if it has again the bytes that were indexed before."""
    (tmp_path / "docs").mkdir()
    table = tmp_path / "docs" / "ports.csv"

    class Full(HashEmbedder):
        def embed_documents(self, texts):
            if any("Port 7 " in text for text in texts):
                raise OSError("the disk is full")
            return super().embed_documents(texts)

    def write(count, version):
        table.write_text("id,text\n" + "".join(f"{n},Port {n} is of version {version}.\n" for n in range(count)))

    def sync(embedder):
        with KnowledgeIndex.open(tmp_path / "kb", embedder, batch_size=3, progress=False) as index:
            report = sync_files(index, FileSource(str(table.parent)))
            texts = {document.id.partition("#")[2]: document.text for document in index.documents()}
            return (report.added, report.changed, report.removed, report.unchanged), texts

    write(10, 1)
    assert sync(HashEmbedder())[0] == (10, 0, 0, 0)
    write(9, 2)
    with pytest.raises(EmbedderError):
        sync(Full())
    write(10, 1)
    counts, texts = sync(HashEmbedder())
    assert counts == (0, 6, 0, 4), "six rows of the new version were written"
    assert texts == {str(n): f"Port {n} is of version 1." for n in range(10)}
    assert sync(HashEmbedder())[0] == (0, 0, 0, 10)
    write(4, 1)
    assert sync(HashEmbedder())[0] == (0, 0, 6, 4)
    table.write_text("")
    assert sync(HashEmbedder())[0] == (0, 0, 4, 0)


def test_ctrl_c_in_the_middle_of_a_file_keeps_what_was_done(tmp_path):
    """A real process, interrupted while it reads one large table; the second run continues."""
    count = 2_500
    row = "p{0},Port {0},The Port of Harbour {0} has quays for Line {1}.\n"
    (tmp_path / "ports.csv").write_text("id,name,text\n" + "".join(row.format(n, n % 101) for n in range(count)))
    command = [sys.executable, "-m", "graphrag_apps", "index", "ports.csv", "--kb", "kb"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1", "COLUMNS": "200"}
    settings = {"cwd": tmp_path, "env": environment, "text": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings) as process:
        records = tmp_path / "kb" / "records.sqlite"
        while process.poll() is None and stored_documents(records) < 1_000:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    kept = stored_documents(records)
    assert process.returncode == 130, err
    assert 1_000 <= kept < count
    assert out == ""
    stay = f"{kept:,} documents are in the index and stay, {kept:,} of them new"
    assert err == f"✗ interrupted: {stay}; run the same command again to continue\n"
    second = subprocess.run(command, capture_output=True, check=True, **settings)
    assert counts(second) == f"{count - kept:,} added, 0 changed, 0 removed, {kept:,} unchanged"
    with KnowledgeIndex.open(tmp_path / "kb", read_only=True) as index:
        assert len(index) == count
        assert index.verify()


def stored_documents(records) -> int:
    """Return how many documents another process has committed."""
    try:
        with closing(sqlite3.connect(f"{records.as_uri()}?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*) FROM documents").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_a_folder_that_was_emptied_is_synced_and_an_empty_one_is_an_error(run, docs, tmp_path):
    run("index", docs)
    for file in docs.iterdir():
        file.unlink()
    emptied = run("index", docs)
    assert (emptied.exit_code, counts(emptied)) == (0, f"0 added, 0 changed, {DOCUMENTS} removed, 0 unchanged")
    again = run("index", docs)
    assert again.exit_code == 1
    assert "docs: no file that can be read. Formats: .txt" in again.stderr


def test_indexing_one_file_or_pattern_removes_no_others(run, docs, tmp_path):
    run("index", docs)
    (docs / "planner.txt").unlink()
    assert "0 removed" in counts(run("index", docs / "tide.md"))
    assert "0 removed" in counts(run("index", docs / "*.md"))
    assert "1 removed" in counts(run("index", docs / "*.txt", docs / "tide.md"))
    assert "planner.txt" not in ids(tmp_path / "kb")


def test_files_of_the_same_name_in_two_folders_have_different_ids(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "readme.md").write_text(f"# Readme {name}\n\nThis is {name}.")
    run("index", "a")
    run("index", "b")
    assert counts(run("index", "a", "b")) == "0 added, 0 changed, 0 removed, 2 unchanged"
    assert ids(tmp_path / "kb") == {"readme.md", "b/readme.md"}


def test_told_facts_stay_when_files_go(run, docs, tmp_path):
    run("index", docs, "--embedder", "hash")
    with KnowledgeIndex.open("kb", HashEmbedder()) as index:
        index.memory.remember("User", "likes", "Green Tea")
    for file in docs.iterdir():
        file.unlink()
    assert f"{DOCUMENTS} removed" in run("index", docs).stdout
    assert "User likes Green Tea" in run("graph", "relations").stdout


def test_a_moved_folder_is_not_indexed_again(run, docs, tmp_path):
    run("index", docs)
    docs.rename(tmp_path / "moved")
    assert counts(run("index", "moved")) == f"0 added, 0 changed, 0 removed, {DOCUMENTS} unchanged"
    outer = tmp_path / "outer"
    outer.mkdir()
    (tmp_path / "moved").rename(outer / "docs")
    assert len(ids(tmp_path / "kb")) == DOCUMENTS
