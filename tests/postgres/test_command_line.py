"""The command line, files and copies with an index in PostgreSQL."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from commands import run_command

from graphrag_apps.copy import copy_index
from graphrag_apps.demo import FOLDER
from graphrag_apps.documents import FileSource, sync_files
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError, NotAnIndex
from graphrag_core.testing import HashEmbedder

QUESTIONS = ("Who leads the identity team?", "What did INC-2041 break?", "Which vendor does the Auth Service use?")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HYBRID_GRAPHRAG_KB", raising=False)
    monkeypatch.chdir(tmp_path)

    return run_command


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("auth-service", "identity-team", "keyring", "mara-lindqvist"):
        shutil.copy(Path(str(FOLDER)) / f"{name}.md", folder)
    return folder


def rankings(path, embedder=None):
    with KnowledgeIndex.open(path, embedder or HashEmbedder(), read_only=True) as index:
        retriever = GraphRetriever(index)
        return [[(hit.chunk.id, round(hit.score, 4)) for hit in retriever.retrieve(text).hits] for text in QUESTIONS]


def with_password(url, password="s3cr3t"):  # noqa: S107 - of nobody
    return url.replace("postgres@", f"postgres:{password}@")


class TestCommands:
    def test_a_sync_adds_changes_and_removes(self, run, docs, url):
        first = run("index", docs, "--kb", url, "--embedder", "hash")
        assert "4 added, 0 changed, 0 removed, 0 unchanged: 4 documents" in first.stdout
        (docs / "keyring.md").unlink()
        (docs / "new.md").write_text("# Quay Planner\n\nThe Quay Planner plans berths.")
        (docs / "auth-service.md").write_text("# Auth Service\n\nThe Auth Service was rewritten by Mara Lindqvist.")
        second = run("index", docs, "--kb", url)
        assert "1 added, 1 changed, 1 removed, 2 unchanged: 4 documents" in second.stdout
        third = run("index", docs, "--kb", url)
        assert "0 added, 0 changed, 0 removed, 4 unchanged" in third.stdout

    def test_all_commands_take_the_address_from_the_environment(self, run, docs, url, monkeypatch):
        monkeypatch.setenv("HYBRID_GRAPHRAG_KB", url)
        assert run("index", docs, "--embedder", "hash").exit_code == 0
        answer = json.loads(run("query", "Who leads the identity team?", "--json").stdout)
        assert answer["hits"]
        assert json.loads(run("stats", "--json").stdout)["documents"] == 4
        assert run("verify").exit_code == 0
        assert run("graph", "edit", "rename", "Identity Team", "ID Team").exit_code == 0
        assert "ID Team" in run("graph", "edit", "list").stdout
        assert "1 deleted" in run("delete", "keyring.md").stdout
        assert "1 added, 0 changed, 0 removed, 3 unchanged" in run("index", docs).stdout  # its file is still there

    def test_a_missing_index_is_not_created_by_a_query(self, run, url):
        result = run("query", "anything", "--kb", url)
        assert result.exit_code == 1
        assert "no index in" in result.stderr
        assert not KnowledgeIndex.exists(url)


class TestPasswords:
    @pytest.mark.parametrize("password", ["s3cr3t", "s3cr3t/x", "s3cr3t@x", "s3cr3t?x", "s3cr3t#x", "s3cr3t[x"])
    def test_no_output_log_or_error_has_it(self, run, docs, url, password, caplog):
        caplog.set_level(logging.DEBUG)
        addresses = [with_password(url, password), with_password(url, password).replace("/postgres?", "/absent?")]
        if set("/#?[") & set(password):
            with pytest.raises(InputError) as failed:
                KnowledgeIndex.open(addresses[0])
            assert "encode" in str(failed.value)
            assert "s3cr3t" not in str(failed.value)
        said = []
        for address in addresses:
            said += [
                run("index", docs, "--kb", address, "--embedder", "hash", "--quiet"),
                run("stats", "--kb", address),
            ]
            said += [run("copy", address, address), run("query", "x", "--kb", address)]
        texts = [result.output + result.stderr for result in said] + [record.getMessage() for record in caplog.records]
        assert "s3cr3t" not in "\n".join(texts)

    def test_a_path_that_is_no_address_is_refused_without_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for wrong in ("mysql://ada:s3cr3t@host/kb", Path("postgresql://ada:s3cr3t@host/kb")):
            with pytest.raises(InputError) as failed:
                KnowledgeIndex.open(wrong)
            assert "s3cr3t" not in str(failed.value)
        assert list(tmp_path.iterdir()) == []


class TestFiles:
    @staticmethod
    def ids(url, folder):
        with KnowledgeIndex.open(url) as index:
            sync_files(index, FileSource(str(folder)))
            return index.document_ids()

    def test_files_of_one_name_on_two_machines_are_two(self, url, tmp_path, monkeypatch):
        file = tmp_path / "docs" / "guide.md"
        file.parent.mkdir()
        file.write_text("The guide of one machine.")
        monkeypatch.setattr("platform.node", lambda: "one")
        assert self.ids(url, file.parent) == ["guide.md"]
        file.unlink()
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "guide.md").write_text("The guide of another.")
        monkeypatch.setattr("platform.node", lambda: "another")
        assert self.ids(url, tmp_path / "data") == ["data/guide.md", "guide.md"]


class TestCopies:
    @pytest.fixture
    def folder(self, run, docs, tmp_path):
        """An index with files, edits and told facts."""
        path = tmp_path / "kb"
        assert run("index", docs, "--kb", path, "--embedder", "hash").exit_code == 0
        with KnowledgeIndex.open(path, HashEmbedder()) as index:
            index.memory.remember("Ada", "likes", "dark mode", literal=True, metadata={"user": "ada"})
            index.graph.rename("Identity Team", "ID Team")
            with index.engine.snapshot() as snapshot:
                facts = snapshot.facts_of(snapshot.top_entities(1))
                snapshot.record_access(facts, 1_700_000_000.0)
            index.engine.flush()
        return path

    def test_there_and_back_is_the_same_index(self, run, folder, docs, url, urls, tmp_path):
        assert "copied to" in run("copy", folder, url).stdout
        assert "copied to" in run("copy", url, tmp_path / "back").stdout
        copy_index(url, other := urls())
        expected = rankings(folder)
        for path in (url, tmp_path / "back", other):
            assert rankings(path) == expected
            with KnowledgeIndex.open(path, read_only=True) as index:
                assert index.verify()
                assert [edit.text for edit in index.graph.edits()] == ["renamed 'Identity Team' to 'ID Team'"]
                assert [fact.text for fact in index.memory.facts()] == ["Ada likes dark mode"]
            assert "4 unchanged" in run("index", docs, "--kb", path).stdout

    def test_a_target_that_is_not_empty_is_refused(self, folder, url):
        with KnowledgeIndex.open(url, HashEmbedder()) as index:
            index.add([Document("1", "Ada Lovelace wrote to Charles Babbage.")])
        with pytest.raises(InputError, match="is not empty"):
            copy_index(folder, url)
        with pytest.raises(InputError, match="to itself"):
            copy_index(folder, folder)
        with pytest.raises(NotAnIndex):
            copy_index(folder.parent / "absent", url)
