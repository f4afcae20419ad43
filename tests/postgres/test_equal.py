"""An index in PostgreSQL answers as one in a folder does: the same passages with the same scores."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
from changes import some_document

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

WHERE = (None, {"team": "x"}, {"n": {"gte": 20, "lt": 60}}, {"not": {"__id__": {"in": ["d3", "d7"]}}})
QUESTIONS = (
    "Who wrote to Ada Lovelace?", "session tokens of the Auth Service", "IBM", "How do Redis and IBM relate?",
    "Who is Key Value Store?", "tea of Ada Lovelace",
)  # fmt: skip
ANSWERS = """
import json, sys
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
path, questions, filters = sys.argv[1], *map(json.loads, sys.argv[2:])
with KnowledgeIndex.open(path, HashEmbedder(), read_only=True) as index:
    retriever = GraphRetriever(index, k=10)
    found = [retriever.retrieve(question, where=where) for question in questions for where in filters]
    print(json.dumps([[(hit.chunk.text, hit.score) for hit in one.hits] for one in found]))
"""


def answers(index: KnowledgeIndex) -> list[list[list[object]]]:
    retriever = GraphRetriever(index, k=10)
    found = [retriever.retrieve(question, where=where) for question in QUESTIONS for where in WHERE]
    return [[[hit.chunk.text, hit.score] for hit in one.hits] for one in found]


def of_another_process(path: object) -> list[list[list[object]]]:
    run = [sys.executable, "-c", ANSWERS, str(path), json.dumps(QUESTIONS), json.dumps(WHERE)]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def documents(seed: int) -> list[Document]:
    chance = random.Random(seed)
    found = (some_document(chance) for _ in range(80))
    return [replace(one, id=f"d{at}", metadata={**one.metadata, "n": at}) for at, one in enumerate(found)]


def test_rankings_and_scores_are_those_of_a_folder(url, tmp_path):
    """After additions, replacements, deletions, edits and told facts; in this process and in another one."""
    edges = [("author", "author")]
    with (
        KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), embed_names=True, edges=edges) as folder,
        KnowledgeIndex.open(url, HashEmbedder(), embed_names=True, edges=edges) as index,
    ):

        def assert_equal() -> None:
            expected = answers(folder)
            assert any(expected)
            assert answers(index) == expected
            assert index.verify(), str(index.verify())
            one, other = index.stats(), folder.stats()
            for name in ("documents", "chunks", "entities", "facts", "relations", "vectors", "top_entities"):
                assert getattr(one, name) == getattr(other, name), name
            assert index.graph.entities(limit=None) == folder.graph.entities(limit=None)

        first, second = documents(1), documents(2)
        for one in (folder, index):
            one.add(first[:60])
            one.add(first[60:])
        assert_equal()
        for one in (folder, index):
            one.add(second[30:50])
            one.delete([f"d{at}" for at in range(10, 20)])
            one.add([Document("tea", "Charles Babbage gave tea to Ada Lovelace.", metadata={"author": "Rosa"})])
        assert_equal()
        for one in (folder, index):
            one.memory.remember("Ada Lovelace", "likes", "tea")
            one.memory.reject(one.memory.remember("Ada Lovelace", "hates", "Redis"))
            one.graph.rename("Redis", "Key Value Store")
            one.graph.merge(["IBM"], into="Charles Babbage")
            one.graph.delete_entity("American Medical Association")
        assert_equal()
        for one in (folder, index):
            one.rebuild()
            one.erase()
            for edit in [*one.graph.edits()]:
                one.graph.undo(edit.number)
            one.delete("d3")
        assert_equal()
        assert of_another_process(url) == answers(folder)


def test_threads_ask_while_another_process_writes(url):
    with KnowledgeIndex.open(url, HashEmbedder()) as index, KnowledgeIndex.open(url, HashEmbedder()) as other:
        index.add(documents(1))
        expected, retriever = answers(index), GraphRetriever(index, k=10, cache=None)

        def ask(at: int) -> list[list[object]]:
            hits = retriever.retrieve(QUESTIONS[at % len(QUESTIONS)], where={"n": {"gte": 0}}).hits
            return [[hit.chunk.text, hit.score] for hit in hits]

        with ThreadPoolExecutor(8) as threads:
            found = [threads.submit(ask, at) for at in range(60)]
            for at in range(10):
                other.add([Document(f"new-{at}", "Zelda Zork is elsewhere.")])
            assert all(one.result() for one in found)
        other.delete([f"new-{at}" for at in range(10)])
        assert answers(index) == expected


def test_a_question_takes_few_statements(url, monkeypatch):
    """Counted where the driver sends them. Beginning and ending a transaction count, too."""
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        index.add(documents(1))
        retriever = GraphRetriever(index, cache=None)
        retriever.retrieve(QUESTIONS[0])
        sent, execute = list[str](), psycopg.Cursor.execute

        def noted(self, sql, *arguments, **named):
            sent.append(sql)
            return execute(self, sql, *arguments, **named)

        monkeypatch.setattr(psycopg.Cursor, "execute", noted)
        retriever.retrieve("session tokens of the Auth Service", where={"team": "x"})
        assert len([sql for sql in sent if not sql.startswith("BEGIN")]) <= 10
        sent.clear()
        retriever.retrieve("session tokens of the Auth Service", where={"team": "x"})
        assert len([sql for sql in sent if not sql.startswith("BEGIN")]) <= 3


def test_a_host_downloads_a_base_once(url, tmp_path):
    """Processes share the file. A damaged one is downloaded again."""
    url = f"{url}&cache={tmp_path}"
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        index.add(documents(1))
        index.rebuild()
        expected = answers(index)
        (path,) = tmp_path.rglob("*.base")
    before = path.stat().st_ino
    assert of_another_process(url) == expected
    assert path.stat().st_ino == before
    path.write_bytes(path.read_bytes()[:1_000])
    assert of_another_process(url) == expected
    path.unlink()
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        assert path.exists()
        assert answers(index) == expected
        assert index.verify()


def test_a_damaged_base_and_segment_are_made_again_from_the_rows(url, tmp_path):
    url = f"{url}&cache={tmp_path / 'one'}"
    with KnowledgeIndex.open(url, HashEmbedder()) as index:
        index.add(documents(1)[:40])
        index.rebuild()
        index.add(documents(1)[40:])
        expected = answers(index)
    plain, _, query = url.partition("?")
    schema = query.partition("schema=")[2].partition("&")[0]
    for at, statement in enumerate((
        f"UPDATE {schema}.pieces SET data = overlay(data placing '\\x00ff00ff'::bytea from 1000)",
        f"UPDATE {schema}.segments SET arrays = overlay(arrays placing '\\x00ff00ff'::bytea from 1000)",
    )):  # fmt: skip
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(statement)
        assert of_another_process(url.replace("/one", f"/host{at}")) == expected
