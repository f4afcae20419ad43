"""What every vector store must fulfil."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from graphrag_core.ports import Matrix, VectorStore


class VectorStoreSuite:
    """What a vector store must fulfil. ``dim`` is the dimension that :meth:`make` must give it."""

    dim = 16

    def make(self) -> VectorStore:
        """Return a new, empty store."""
        raise NotImplementedError

    def _vectors(self, count: int, seed: int = 0) -> Matrix:
        vectors = np.random.default_rng(seed).normal(size=(count, self.dim)).astype(np.float32)
        unit: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _filled(self, count: int = 50) -> tuple[VectorStore, Matrix]:
        store, vectors = self.make(), self._vectors(count)
        store.add(np.arange(10, 10 + count), vectors)
        return store, vectors

    def test_an_empty_store_finds_nothing(self) -> None:
        """No error, no hit."""
        ((keys, scores),) = self.make().search(self._vectors(1), 5)
        assert len(keys) == len(scores) == 0

    def test_finds_the_nearest_by_cosine(self) -> None:
        """The same keys and scores as comparing with every vector."""
        store, vectors = self._filled()
        queries = self._vectors(3, seed=1)
        for query, (keys, scores) in zip(queries, store.search(queries, 5), strict=True):
            exact = vectors @ query
            best = np.argsort(-exact)[:5]
            assert keys.tolist() == (best + 10).tolist()
            assert np.allclose(scores, exact[best], atol=1e-5)

    def test_returns_ties_with_the_last(self) -> None:
        """Equal vectors are returned together, by key."""
        store, vector = self.make(), self._vectors(1)
        store.add(np.arange(20), np.repeat(vector, 20, axis=0))
        ((keys, _),) = store.search(vector, 3)
        assert keys.tolist() == list(range(20))

    def test_asked_for_more_than_there_is_gives_all(self) -> None:
        """K above the size."""
        store, vectors = self._filled(7)
        ((keys, _),) = store.search(vectors[:1], 100)
        assert sorted(keys.tolist()) == list(range(10, 17))

    def test_removed_vectors_are_gone(self) -> None:
        """Not found, not listed, and others stay what they were."""
        store, vectors = self._filled()
        store.remove(np.array([10, 12, 999]))
        assert 10 not in store.keys
        assert len(store.keys) == 48
        ((keys, _),) = store.search(vectors[:1], 50)
        assert not {10, 12} & set(keys.tolist())
        assert np.allclose(store.get(np.array([11, 13])), vectors[[1, 3]])
        store.add(np.array([100]), vectors[:1])
        assert store.search(vectors[:1], 1)[0][0][0] == 100

    def test_a_scope_lets_nothing_else_through(self) -> None:
        """Only allowed keys, few or many, known or not."""
        store, vectors = self._filled()
        for allowed in (np.array([11, 15, 700]), np.arange(12, 60), np.empty(0, np.int64)):
            ((keys, scores),) = store.search(vectors[:1], 50, allowed)
            inside = [key for key in allowed.tolist() if 10 <= key < 60]
            assert sorted(keys.tolist()) == inside
            assert (np.diff(scores) <= 0).all()

    def test_comes_back_from_disk(self) -> None:
        """The same keys, vectors and hits after saving and loading, and it can go on growing."""
        store, vectors = self._filled()
        store.remove(np.array([11]))
        with tempfile.TemporaryDirectory() as folder:
            store.save(Path(folder))
            again = self.make()
            again.load(Path(folder))
        assert again.keys.tolist() == store.keys.tolist()
        assert np.array_equal(again.get(store.keys), store.get(store.keys))
        again.add(np.array([500]), vectors[1:2])
        assert again.search(vectors[1:2], 1)[0][0][0] == 500

    def test_a_damaged_file_is_refused(self) -> None:
        """OSError or ValueError, so that the index rebuilds it."""
        store, _ = self._filled()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            store.save(folder)
            for path in folder.iterdir():
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            try:
                self.make().load(folder)
            except (OSError, ValueError):
                return
        raise AssertionError("a file cut in half was loaded")
