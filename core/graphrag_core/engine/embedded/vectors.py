"""Vector search with FAISS: exact for small indexes, inverted lists (IVF) for large ones."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from graphrag_core.ports import Keys, Matrix, Ranking, Scores

_SMALL_SCOPE = 0.05  # share of all vectors up to which those in scope are compared one by one
_LEAST_PROBES = 16


class FaissVectors:
    """Unit vectors under integer keys, searched by inner product, which is their cosine similarity.

    Parameters
    ----------
    approximate_from
        The number of vectors from which an approximate IVF index replaces exact search.

    Attributes
    ----------
    keys
        All keys, in ascending order.
    exact
        Whether a query is compared with every vector.
    """

    def __init__(self, *, approximate_from: int = 100_000) -> None:
        self.keys: Keys = np.empty(0, np.int64)
        self.exact = True
        self._switch_at = approximate_from
        self._index: Any = None  # made for the dimension of the first vectors

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return int(len(self.keys) * (4 * self._index.d + (8 if self.exact else 24))) if len(self.keys) else 0

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors under new keys, each greater than all keys so far."""
        if len(keys) == 0:
            return
        vectors = np.ascontiguousarray(vectors, np.float32)
        if self._index is None:
            self._index = faiss.IndexFlatIP(vectors.shape[1])
        if self.exact:
            self._index.add(vectors)
        else:
            self._index.add_with_ids(vectors, keys)
        self.keys = np.concatenate([self.keys, keys])
        if self.exact and len(self.keys) >= self._switch_at:
            self._switch()

    def remove(self, keys: Keys) -> None:
        """Remove vectors; unknown keys are ignored."""
        gone = np.isin(self.keys, keys)
        if not gone.any():
            return
        if self.exact:
            self._index.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(gone)))
        else:
            self._index.remove_ids(faiss.IDSelectorArray(np.ascontiguousarray(self.keys[gone])))
        self.keys = self.keys[~gone]

    def search(self, queries: Matrix, k: int, allowed: Keys | None = None) -> list[Ranking]:
        """Return for each query the best ``k`` keys and scores, best first, and what ties with the last.

        ``allowed``, in ascending order, restricts the search.
        """
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        if allowed is not None:
            allowed = allowed[np.isin(allowed, self.keys)]
        size = len(self.keys) if allowed is None else len(allowed)
        if size == 0 or k < 1:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if allowed is not None and size <= max(1000, _SMALL_SCOPE * len(self.keys)):
            scores = queries @ self.get(allowed).T
            return [_best(allowed, row, k) for row in scores]
        k = min(k, size)
        wanted = min(k + 8, size)
        parameters = None if allowed is None and self.exact else self._parameters(allowed)
        scores, found = self._index.search(queries, wanted, params=parameters)
        rankings = []
        for query, row, at in zip(queries, scores, found, strict=True):
            more = wanted
            while at[-1] >= 0 and len(row) > k and row[-1] >= row[k - 1] and more < size:  # ties are cut off
                more = min(4 * more, size)
                (row,), (at,) = self._index.search(query[None, :], more, params=parameters)  # noqa: PLW2901
            there = at >= 0
            rankings.append(_best(self.keys[at[there]] if self.exact else at[there], row[there], k))
        return rankings

    def get(self, keys: Keys) -> Matrix:
        """Return the vectors of existing keys."""
        if len(keys) == 0:
            return np.empty((0, 0 if self._index is None else self._index.d), np.float32)
        if self.exact:
            everything = faiss.rev_swig_ptr(self._index.get_xb(), self._index.ntotal * self._index.d)
            matrix: Matrix = everything.reshape(-1, self._index.d)[np.searchsorted(self.keys, keys)]
            return matrix
        rows: Matrix = self._index.reconstruct_batch(np.ascontiguousarray(keys, np.int64))
        return rows

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        index = faiss.IndexFlatIP(1) if self._index is None else self._index
        np.save(folder / "keys.npy", self.keys, allow_pickle=False)
        faiss.write_index(index, str(folder / "vectors.faiss"))

    def load(self, folder: Path) -> None:
        """Load what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if it is damaged."""
        keys = np.load(folder / "keys.npy", allow_pickle=False)
        try:
            index = faiss.read_index(str(folder / "vectors.faiss"))
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from error
        exact = isinstance(index, faiss.IndexFlat)
        if index.ntotal != len(keys):
            raise ValueError(f"{folder}: {index.ntotal} vectors for {len(keys)} keys")
        if len(keys) == 0:
            return
        self.keys, self.exact, self._index = keys, exact, index
        if not exact:
            index.set_direct_map_type(faiss.DirectMap.Hashtable)
        elif len(keys) >= self._switch_at:
            self._switch()

    def _parameters(self, allowed: Keys | None) -> Any:
        selector = None
        if allowed is not None:
            within = np.flatnonzero(np.isin(self.keys, allowed)) if self.exact else allowed
            selector = faiss.IDSelectorBatch(within.astype(np.int64))
        if self.exact:
            return None if selector is None else faiss.SearchParameters(sel=selector)
        probed = max(_LEAST_PROBES, self._index.nlist // 8)
        return faiss.SearchParametersIVF(sel=selector, nprobe=probed)

    def _switch(self) -> None:
        """Switch to an IVF index."""
        vectors = self.get(self.keys)
        lists = int(max(16, 2 * np.sqrt(len(vectors))))
        dim = self._index.d
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter = 3  # more iterations do not improve recall
        sample = np.random.default_rng(0).permutation(len(vectors))[: 40 * lists]
        index.train(vectors[np.sort(sample)])
        _fill(index, self.keys, vectors)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index, self.exact = index, False


def _fill(index: Any, keys: Keys, vectors: Matrix) -> None:
    """Fill empty inverted lists, each at once: vectors added one by one would take twice the memory."""
    _, nearest = index.quantizer.search(vectors, 1)
    order = np.argsort(nearest[:, 0], kind="stable")
    bounds = np.searchsorted(nearest[order, 0], np.arange(index.nlist + 1))
    for number in range(index.nlist):
        own = order[bounds[number] : bounds[number + 1]]
        if len(own):
            ids, codes = np.ascontiguousarray(keys[own]), np.ascontiguousarray(vectors[own]).view(np.uint8)
            index.invlists.add_entries(number, len(own), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    index.ntotal = len(keys)


def _best(keys: Keys, scores: Scores, k: int) -> Ranking:
    """Return the best ``k`` and what ties with the last, by score, then by key."""
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
