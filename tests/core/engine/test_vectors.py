"""Vectors in FAISS: flat and with inverted lists."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphrag_core.engine.embedded.vectors import FaissVectors, _widened

DIM = 16


@pytest.fixture(params=["flat", "ivf"])
def make(request):
    """Returns a new index; the second kind switches to inverted lists at 40 vectors."""
    return lambda source=tuple: FaissVectors(source, approximate_from=40 if request.param == "ivf" else 100_000)


def some(count, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(make, count=50):
    store, vectors = make(), some(count)
    assert len(store.keys) == 0
    store.add(np.arange(10, 10 + count), vectors)
    return store, vectors


def test_an_empty_store_finds_nothing(make):
    ((keys, scores),) = make().search(some(1), 5)
    assert len(keys) == len(scores) == 0


def test_finds_the_nearest_by_cosine(make):
    store, vectors = filled(make)
    queries = some(3, seed=1)
    for query, (keys, scores) in zip(queries, store.search(queries, 5), strict=True):
        exact = vectors @ query
        best = np.argsort(-exact)[:5]
        assert keys.tolist() == (best + 10).tolist()
        assert np.allclose(scores, exact[best], atol=1e-3)


def test_returns_ties_with_the_last(make):
    store, vector = make(), some(1)
    assert store.exact
    store.add(np.arange(20), np.repeat(vector, 20, axis=0))
    ((keys, _),) = store.search(vector, 3)
    assert keys.tolist() == list(range(20))


def test_asked_for_more_than_there_is_gives_all(make):
    store, vectors = filled(make, 7)
    ((keys, _),) = store.search(vectors[:1], 100)
    assert sorted(keys.tolist()) == list(range(10, 17))


def flags(keys):
    """Return keys as flags by key."""
    return None if keys is None else np.isin(np.arange(10_000), keys)


def test_removed_vectors_are_gone(make):
    store, vectors = filled(make)
    store.remove(np.array([10, 12, 999]))
    assert 10 not in store.keys
    assert len(store.keys) == 48
    ((keys, _),) = store.search(vectors[:1], 50)
    assert not {10, 12} & set(keys.tolist())
    assert np.allclose(store.get(np.array([11, 13])), vectors[[1, 3]], atol=1e-3)
    store.add(np.array([100]), vectors[:1])
    assert store.search(vectors[:1], 1)[0][0][0] == 100


def test_removed_vectors_are_never_found_and_change_nothing_else():
    vectors = np.random.default_rng(1).normal(size=(400, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lived, there = FaissVectors(), np.ones(400, np.bool_)
    assert len(lived.keys) == 0  # loads them: before that, changes are ignored
    lived.add(np.arange(300), vectors[:300])
    chance = random.Random(2)
    for at in range(300, 400):
        lived.add(np.array([at]), vectors[at : at + 1])
        gone = chance.randrange(at)
        lived.remove(np.array([gone]))
        there[gone] = False
        if at % 9 == 0:
            keys = np.flatnonzero(there[: at + 1])
            fresh = FaissVectors(lambda keys=keys: [(keys, vectors[keys])])
            assert np.array_equal(lived.keys, keys)
            for k in (3, 200, 400):
                for visible in (None, np.isin(np.arange(400), keys[::2])):
                    found = [each.search(vectors[:2], k, visible) for each in (lived, fresh)]
                    for one, other in zip(*found, strict=True):
                        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True)), (at, k)


def test_a_scope_lets_nothing_else_through(make):
    store, vectors = filled(make)
    for allowed in (np.array([11, 15, 700]), np.arange(12, 60), np.empty(0, np.int64)):
        ((keys, scores),) = store.search(vectors[:1], 50, flags(allowed))
        inside = [key for key in allowed.tolist() if 10 <= key < 60]
        assert sorted(keys.tolist()) == inside
        assert (np.diff(scores) <= 0).all()


def test_reads_its_source_when_first_needed(make):
    vectors, reads = some(50), []

    def source():
        reads.append(1)
        return [(np.arange(10, 30), vectors[:20]), (np.arange(30, 60), vectors[20:])]

    store = make(source)
    store.add(np.array([59]), vectors[49:])  # the source has it by now
    store.remove(np.array([5]))
    assert not store.loaded
    assert reads == []
    assert store.search(vectors[3:4], 1)[0][0].tolist() == [13]
    assert store.keys.tolist() == list(range(10, 60))
    assert reads == [1]
    assert store.loaded


def same_as(store, keys, vectors):
    """Compare a store with one that is filled with its vectors."""
    fresh = FaissVectors(lambda: [(keys, vectors[keys])])
    assert store.keys.tolist() == keys.tolist()
    assert np.array_equal(store.get(keys[::-1]), fresh.get(keys[::-1]))
    for allowed in (None, keys[::2], keys[-3:]):
        rankings = (each.search(vectors[:9], 7, flags(allowed)) for each in (store, fresh))
        for found, wanted in zip(*rankings, strict=True):
            assert np.array_equal(found[0], wanted[0])
            assert np.array_equal(found[1], wanted[1])


def test_saved_lists_are_mapped_and_follow_changes(tmp_path):
    vectors, keys = some(3_000), np.arange(3_000)
    store = FaissVectors(lambda: [(keys[:50], vectors[:50])], approximate_from=40)
    assert not store.exact
    store.save(tmp_path, most=50)
    data = (tmp_path / "lists.arrays").read_bytes()

    def unread():
        raise AssertionError

    again = FaissVectors(unread, approximate_from=40)
    again.load(tmp_path)
    assert again.loaded
    same_as(again, keys[:50], vectors)
    again.remove(np.array([0, 7, 999]))
    same_as(again, np.delete(keys[:50], [0, 7]), vectors)
    again.add(keys[50:60], vectors[50:60])
    same_as(again, np.delete(keys[:60], [0, 7]), vectors)
    again.remove(np.array([8, 50]))
    same_as(again, np.delete(keys[:60], [0, 7, 8, 50]), vectors)
    (tmp_path / "second").mkdir()
    again.save(tmp_path / "second", most=60)
    same_as(again, np.delete(keys[:60], [0, 7, 8, 50]), vectors)
    again.load(tmp_path / "second")
    same_as(again, np.delete(keys[:60], [0, 7, 8, 50]), vectors)
    again.add(keys[60:2_000], vectors[60:2_000])  # more than are compared one by one
    again.add(keys[2_000:], vectors[2_000:])
    again.remove(keys[10:30])
    same_as(again, np.delete(keys, [0, 7, 8, 50, *range(10, 30)]), vectors)
    assert (tmp_path / "lists.arrays").read_bytes() == data


def test_few_vectors_have_no_lists(tmp_path):
    store = FaissVectors(lambda: [(np.arange(50), some(50))])
    store.save(tmp_path, most=50)
    assert list(tmp_path.iterdir()) == []
    store.load(tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    store = FaissVectors(lambda: [(np.arange(50), some(50))], approximate_from=40)
    store.save(tmp_path, most=50)
    path = tmp_path / "lists.arrays"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises((OSError, ValueError)):
        FaissVectors().load(tmp_path)


@pytest.mark.parametrize("scoped", [False, True])
@pytest.mark.parametrize("count", [7, 23, 101])
def test_a_score_does_not_depend_on_where_a_vector_lies(scoped, count):
    """Not even in the last bit, or ties would be broken by the order of addition."""
    random = np.random.default_rng(3)
    vectors = random.normal(size=(count, 64)).astype(np.float32)
    queries = random.normal(size=(30, 64)).astype(np.float32)
    found = []
    for order in (np.arange(count), random.permutation(count)):
        store = FaissVectors()
        assert len(store.keys) == 0
        store.add(np.arange(count), vectors[order])
        rankings = [store.search(query, count, np.ones(count, np.bool_) if scoped else None)[0] for query in queries]
        found.append([dict(zip(order[keys].tolist(), scores.tolist(), strict=True)) for keys, scores in rankings])
    assert found[0] == found[1]
    assert all(len(scores) == count for scores in found[0])


def test_every_finite_half_keeps_its_value():
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits[np.isfinite(bits.view(np.float16))]
    wide = _widened(halves.view(np.int16))
    assert np.array_equal(wide.view(np.uint32), halves.view(np.float16).astype(np.float32).view(np.uint32))
