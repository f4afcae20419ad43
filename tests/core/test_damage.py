"""Damaged files: derived ones are built again, damaged records are reported, and nothing raises a foreign error."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import suppress

import pytest
from fault_runs import Damage, answers, damage, damages, make_base
from support import SERVICES

from graphrag_core import KnowledgeIndex
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
@pytest.mark.parametrize("kind", ["remove", "truncate", "flip"])
def test_damaged_arrays_are_built_again_from_the_rows(base, expected, tmp_path, kind, read_only, caplog):
    (path,) = base.glob("*.base")
    data = path.read_bytes()
    at = len(data) // 2 if kind == "truncate" else 8 * next(at for at in range(len(data) // 2, 0, -1) if data[at])
    outcome, problem = damage(Damage(path.name, kind, at), base, tmp_path / "kb", expected, read_only=read_only)
    assert not problem, problem
    assert outcome == "equal"
    assert "built again from the rows" in caplog.text
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(16)) as index:
        index.rebuild()
        assert index.verify(), str(index.verify())
        assert answers(index) == expected


def test_a_bit_that_flips_while_an_index_is_open_is_found_by_verify(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16), read_only=True) as index:
        (path,) = work.glob("*.base")
        data = bytearray(path.read_bytes())
        data[-30] ^= 1
        path.write_bytes(data)
        assert path.name in str(index.verify())


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


FIRST = "WHERE key = (SELECT min(key) FROM"
CHANGES = {
    "text": f"UPDATE passages SET text = x'00416e6f74686572' {FIRST} passages)",
    "title": "UPDATE documents SET title = 'Another' WHERE id = 'auth'",
    "metadata": "UPDATE documents SET metadata = '{\"team\": \"other\"}' WHERE id = 'oauth'",
    "attribute": "UPDATE attributes SET value = 'other' WHERE name = 'team'",
    "fact": "UPDATE facts SET weight = 9 WHERE key = (SELECT max(key) FROM facts)",
    "fact that is no number": "UPDATE facts SET weight = 'heavy' WHERE key = (SELECT max(key) FROM facts)",
    "name": "UPDATE names SET surface = 'AUTHOR service' WHERE surface = 'Auth Service'",
    "vector": f"UPDATE passages SET vector = zeroblob(length(vector)) {FIRST} passages)",
    "tokens": f"UPDATE passages SET tokens = x'0100' {FIRST} passages)",
    "digest": "UPDATE documents SET digest = 'x'",
    "setting": "UPDATE meta SET value = '32' WHERE name = 'dim'",
    "generation": "UPDATE meta SET value = '77' WHERE name = 'generation'",
    "segment": "UPDATE segments SET arrays = zeroblob(length(arrays))",
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


def test_verify_does_not_raise_on_rows_that_cannot_be_read(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index:
        with sqlite3.connect(work / "records.sqlite") as db:
            db.execute("UPDATE passages SET text = x'01FFFFFF', names = x'01' WHERE ordinal = 0")
        db.close()
        found = index.verify()
        assert not found
        assert "damaged" in str(found)


def test_a_passage_that_was_changed_is_not_returned(base, tmp_path):
    work = tmp_path / "kb"
    shutil.copytree(base, work)
    with sqlite3.connect(work / "records.sqlite") as db:
        db.execute("UPDATE passages SET text = x'00416e6f74686572'")
    db.close()
    with KnowledgeIndex.open(work, HashEmbedder(16)) as index, pytest.raises(DamagedIndex, match="checksum"):
        answers(index)
