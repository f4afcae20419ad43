"""Damaged files: derived ones are built again, damaged records are reported, and nothing raises a foreign error."""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
import threading
from contextlib import suppress

import numpy as np
import pytest
from fault_runs import Damage, answers, damage, damages, make_base, state_of
from support import SERVICES

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.engine.embedded import keywords, search_indexes
from graphrag_core.errors import DamagedIndex, GraphRAGError
from graphrag_core.model import Verification
from graphrag_core.testing import HashEmbedder

SAMPLE = 24  # damages; benchmarks/torture/faults.py takes all


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("damage") / "base")


@pytest.fixture(scope="module")
def expected(base):
    with KnowledgeIndex.open(base, HashEmbedder(16), read_only=True) as index:
        return answers(index)


def test_a_flipped_bit_a_truncation_or_a_missing_file_gives_the_same_answers_or_is_reported(base, expected, tmp_path):
    chance = random.Random(17)
    everything = damages(base, chance, 4)
    for number, one in enumerate(chance.sample(everything, SAMPLE)):
        _, problem = damage(one, base, tmp_path / "kb", expected, read_only=number % 2 == 0)
        assert not problem, f"{one}\n{problem}"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", ["*.pos", "*.term", "*.idx", "*.fast", "meta.json", ".managed.json", "state.json"])
@pytest.mark.parametrize("kind", ["remove", "truncate"])
def test_a_missing_or_empty_file_of_the_keyword_index(base, expected, tmp_path, name, kind, read_only):
    """A missing .pos broke every query, a missing meta.json meant no results."""
    path = min((base / "keywords" / "chunks").glob(name))
    one = Damage(path.relative_to(base).as_posix(), kind)
    outcome, problem = damage(one, base, tmp_path / "kb", expected, read_only=read_only)
    assert not problem, problem
    assert outcome == "equal"
    if not read_only:
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16)) as index:
            assert index.verify(), str(index.verify())
            assert answers(index) == expected


@pytest.mark.parametrize("kind", ["chunks", "facts"])
def test_a_flipped_bit_in_the_texts_of_the_keyword_index_is_repaired_by_opening(base, expected, tmp_path, kind):
    for path in sorted((base / "keywords" / kind).glob("*.*")):
        if path.suffix not in (".term", ".idx", ".fieldnorm", ".fast", ".pos", ".store"):
            continue
        one = Damage(path.relative_to(base).as_posix(), "flip", 16)
        damage(one, base, tmp_path / "kb", [], read_only=True)
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16)) as index:
            assert answers(index) == expected
            assert index.verify(), f"{path.name}: {index.verify()}"


def test_a_bit_that_flips_while_an_index_is_open_is_found_by_verify(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16), read_only=True) as index:
        path = min((work / "keywords" / "chunks").glob("*.store"))
        data = bytearray(path.read_bytes())
        data[2] ^= 1
        path.write_bytes(data)
        assert path.name in str(index.verify())


def test_a_panic_is_turned_into_a_rebuild(base, expected, tmp_path, monkeypatch, caplog):
    class PanicException(BaseException):  # as of pyo3: no Exception
        pass

    class Panics:
        num_docs = 5

        def __init__(self, index):
            self.schema = index.schema

        def searcher(self):
            return self

        def search(self, *arguments, **named):
            raise PanicException("index out of bounds")

    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        store = index.engine.indexes.keywords["chunks"]
        store._index = Panics(store._index)
        assert answers(index) == expected
        assert "built again in memory" in caplog.text
        index.add([Document("new", "A new document about Keyring.")])
        assert index.verify(), str(index.verify())
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        assert "new" in index
        assert index.verify(), str(index.verify())
        assert index.engine.indexes.keywords["chunks"].folder is not None


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("kind", ["truncate", "remove"])
def test_an_empty_or_missing_database_is_no_empty_index(base, tmp_path, kind, read_only):
    work = tmp_path / "kb"
    _, problem = damage(Damage("records.sqlite", kind), base, work, [], read_only=read_only)
    assert not problem, problem
    with pytest.raises(GraphRAGError, match=r"backup|holds no index"):
        KnowledgeIndex.open(work, HashEmbedder(16), read_only=read_only)


def test_a_new_index_whose_process_was_killed_while_it_was_created_opens(tmp_path):
    (tmp_path / "records.sqlite").touch()
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        assert index.add(SERVICES).added == 4


CHANGES = {
    "text": "UPDATE chunks SET text = 'Another text.' WHERE key = (SELECT min(key) FROM chunks)",
    "title": "UPDATE documents SET title = 'Another' WHERE id = 'auth'",
    "metadata": "UPDATE documents SET metadata = '{\"team\": \"other\"}' WHERE id = 'oauth'",
    "attribute": "UPDATE attributes SET value = 'other' WHERE name = 'team'",
    "fact": "UPDATE facts SET weight = 9 WHERE key = (SELECT max(key) FROM facts)",
    "fact that is no number": "UPDATE facts SET weight = 'heavy' WHERE key = (SELECT max(key) FROM facts)",
    "name": "UPDATE names SET surface = 'AUTH service' WHERE surface = 'Auth Service'",
    "vector": "UPDATE chunk_vectors SET vector = zeroblob(length(vector)) WHERE key = 0",
    "vector of a fact": "UPDATE fact_vectors SET vector = zeroblob(length(vector))",
    "tokens": "UPDATE chunks SET tokens = x'0100' WHERE key = (SELECT min(key) FROM chunks)",
    "digest": "UPDATE documents SET digest = 'x'",
    "setting": "UPDATE meta SET value = '32' WHERE name = 'dim'",
    "generation": "UPDATE meta SET value = '77' WHERE name = 'generation'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_rows_are_found(base, tmp_path, change):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with sqlite3.connect(work / "records.sqlite") as db:
        assert db.execute(CHANGES[change]).rowcount
    db.close()
    found = Verification(("",))
    with suppress(DamagedIndex), KnowledgeIndex.open(work, HashEmbedder(16), read_only=True) as index:
        found = index.verify()
    assert not found


def test_tokens_of_another_length_are_not_read(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        index.engine.records.rows("UPDATE chunks SET tokens = x'01' WHERE id = 'auth'")
        assert "the terms or tokens of 1 chunks are damaged" in str(index.verify())
        with index.engine.snapshot() as snapshot, pytest.raises(DamagedIndex, match="tokens of a chunk"):
            snapshot.tokens(np.array([*snapshot.find_chunks(["auth"]).values()]))


def test_verify_does_not_raise_on_rows_that_cannot_be_read(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        index.engine.records.rows("UPDATE chunks SET text = x'FFFFFF', names = x'01' WHERE ordinal = 0")
        found = index.verify()
        assert not found
        assert "cannot be read" in str(found)


def test_opening_checks_the_contents_of_the_keyword_files_before_tantivy_reads_them(base, monkeypatch):
    """Tantivy ends the process if a damaged length makes it ask for too much memory."""
    read = []
    real, real_open = keywords._footer_problem, keywords.TantivyKeywords._open

    def noted(path):
        read.append(path)
        return real(path)

    def opened(self, folder):
        assert folder is None or read
        real_open(self, folder)

    monkeypatch.setattr(keywords, "_footer_problem", noted)
    monkeypatch.setattr(keywords.TantivyKeywords, "_open", opened)
    with KnowledgeIndex.open(base, HashEmbedder(16), read_only=True) as index:
        assert all(store.folder is not None for store in index.engine.indexes.keywords.values())
    assert {path.parent.name for path in read} == {"chunks", "facts"}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_damaged_large_file_is_found_in_the_background(base, expected, tmp_path, monkeypatch, caplog, read_only):
    monkeypatch.setattr(search_indexes, "_CHECKED_AT_ONCE", -1)
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    (path,) = work.glob("derived/*/graph.arrays")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # behind the last array
    path.write_bytes(data)
    with KnowledgeIndex.open(work, HashEmbedder(16), read_only=read_only) as index:
        for thread in threading.enumerate():
            if thread.name == "graphrag-check":
                thread.join()
        assert "built again from the records" in caplog.text
        assert answers(index) == expected
        if not read_only:
            index.add([Document("new", "A new document about Keyring.")])
        assert index.verify(), str(index.verify())
    monkeypatch.undo()
    with KnowledgeIndex.open(work, HashEmbedder(16), read_only=True) as index:
        assert index.verify(), str(index.verify())


def test_a_large_file_that_cannot_be_used_is_built_again_after_an_error(base, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(search_indexes, "_CHECKED_AT_ONCE", -1)
    monkeypatch.setattr(search_indexes.SearchIndexes, "_check_files", lambda *_: None)  # it has not come so far
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    (path,) = work.glob("derived/*/graph.arrays")
    data = bytearray(path.read_bytes())
    data[2_048:] = b"\xff" * (len(data) - 2_048)
    path.write_bytes(data)
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        for _ in range(2):
            with suppress(GraphRAGError):
                found = answers(index)
        assert found == expected
        assert index.verify(), str(index.verify())


def test_records_that_lost_their_last_writes_are_reported(base, tmp_path, caplog):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    old = (work / "records.sqlite").read_bytes()
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        index.add([Document("new", "A new document.")])
    (work / "records.sqlite").write_bytes(old)
    with caplog.at_level(logging.WARNING), KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        assert "new" not in state_of(index)
        assert "the last writes are missing" in str(index.verify())
    assert "the last writes are missing" in caplog.text
