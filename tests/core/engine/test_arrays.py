"""Arrays that grow beside readers, tables in parts, and the base file: compared with plain Python."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_core.engine.arrays import BaseWriter, Column, Counters, Forward, Inverse, Part, map_base, pack, unpack
from graphrag_core.engine.postings import Postings, quantised, term_key

batches = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=8), max_size=8)


def numbers(values) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_column_that_grew_leaves_its_readers_what_they_had():
    first = Column(numbers([1, 2])).appended(numbers([3]))
    second = first.appended(numbers(range(4, 200)))
    third = second.appended(numbers([200]))
    assert first.all().tolist() == [1, 2, 3]
    assert second.all().tolist() == [*range(1, 200)]
    assert third.take(numbers([0, 2, 199])).tolist() == [1, 3, 200]
    assert third.find(numbers([0, 1, 3, 200, 201])).tolist() == [-1, 0, 2, 199, -1]


def test_an_append_that_was_interrupted_leaves_nothing():
    column = Column(numbers([])).appended(numbers([1]))
    column.appended(numbers([9, 9, 9]))  # nobody learns of it
    assert column.appended(numbers([2])).all().tolist() == [1, 2]


@given(batches)
def test_an_inverse_table_in_parts_has_the_entries_of_all_in_their_order(parts):
    table = Inverse(Part.none(np.int64, np.int64))
    expected: dict[int, list[int]] = {}
    for part in parts:
        table = table.appended(Part.of(numbers([k for k, _ in part]), numbers([v for _, v in part])))
        for key, value in part:
            expected.setdefault(key, []).append(value)
    rows = numbers([7, 3, 0, 42])
    counts, values = table.gather(rows)
    assert values.tolist() == [value for row in rows.tolist() for value in expected.get(row, [])]
    assert table.counts(rows).tolist() == counts.tolist()
    limited = table.gather(rows, np.full(4, 2))[1]
    assert limited.tolist() == [value for row in rows.tolist() for value in expected.get(row, [])[:2]]


@given(batches)
def test_counters_are_sums(parts):
    counters, expected = Counters(numbers([5, 5])), np.zeros(10, np.int64)
    expected[:2] = 5
    for part in parts:
        counters = counters.added(numbers([k for k, _ in part]), numbers([v for _, v in part]))
        np.add.at(expected, numbers([k for k, _ in part]), numbers([v for _, v in part]))
    assert counters.take(np.arange(10)).tolist() == expected.tolist()


def test_a_base_has_what_is_kept_and_tells_if_a_byte_is_wrong():
    file = io.BytesIO()
    base = BaseWriter(file)
    table = Forward.empty(np.int64).appended(numbers([2, 0, 1]), numbers([5, 6, 7]))
    table.write(base, "table", np.array([True, True, False]), lambda values: values + 1)
    base.finish(number=3)
    data = file.getvalue()
    meta, arrays = map_base(data)
    assert meta == {"number": 3}
    assert [column.tolist() for column in Forward.opened(arrays, "table", 1).gather(numbers([0, 1]))] == [
        [2, 0],
        [6, 7],
    ]
    for at in (next(at for at, byte in enumerate(data) if byte), len(data) - 30):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(ValueError, match=r"damaged|differs"):
            map_base(bytes(damaged))
    with pytest.raises(ValueError, match="short"):
        map_base(b"")


def test_packed_arrays_come_back():
    arrays = {"a": numbers([1, 2]), "b": np.zeros((0, 4), np.uint8), "c": np.array([True])}
    found = unpack(pack(arrays))
    assert all(np.array_equal(found[name], own) and found[name].dtype == own.dtype for name, own in arrays.items())


def test_maxscore_returns_what_all_postings_would(monkeypatch):
    random = np.random.default_rng(3)
    size, words = 3_000, ["alpha", "bravo", "carol", "delta", "echo"]
    keys, owners = [], []
    for word, count in zip(words, (5, 60, 400, 1_500, 2_900), strict=True):
        owners.append(np.sort(random.choice(size, count, replace=False)).astype(np.int32))
        keys.append(np.full(count, term_key(word)))
    counts = random.integers(1, 9, sum(map(len, owners))).astype(np.uint8)
    table = Inverse(Part.of(np.concatenate(keys), np.concatenate(owners), counts))
    lengths = quantised(random.integers(5, 300, (size, 4)))
    alive = random.random(size) < 0.9
    for mask in (None, random.random(size) < 0.5):
        postings = Postings(table, Column(lengths), numbers([300_000] * 4), alive, int(alive.sum()))
        visible = None if mask is None else mask & alive
        monkeypatch.setattr("graphrag_core.engine.postings.PRUNED_FROM", 1 << 40)
        every = postings.search(" ".join(words), 10, visible, lambda _: [])
        monkeypatch.setattr("graphrag_core.engine.postings.PRUNED_FROM", 0)
        pruned = postings.search(" ".join(words), 10, visible, lambda _: [])
        assert every[0].tolist() == pruned[0].tolist()
        assert every[1].tolist() == pruned[1].tolist()
