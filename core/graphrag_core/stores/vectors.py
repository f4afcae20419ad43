"""Nearest vectors with FAISS: exact while there are few, inverted lists when there are many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.ports import Keys, Matrix, Scores

Kind = Literal["auto", "flat", "ivf"]

_FEW = 0.05  # of all vectors: below, a scope's vectors are compared one by one
_PROBED = 16  # lists looked into, at the least


class FaissVectors:
    """Vectors of length one under integer keys.

    Parameters
    ----------
    dim
        The number of components.
    kind
        ``"flat"`` compares with every vector, ``"ivf"`` with those in the lists nearest to
        the query, ``"auto"`` is flat up to ``approximate_from`` vectors and ivf from there.
    approximate_from
        Where ``"auto"`` changes over.
    """

    def __init__(self, dim: int, *, kind: Kind = "auto", approximate_from: int = 100_000) -> None:
        if kind not in ("auto", "flat", "ivf"):
            raise InputError(f"unknown kind of vector index {kind!r}: use 'auto', 'flat' or 'ivf'")
        self.dim = dim
        self.kind = kind
        self.approximate_from = approximate_from
        self._keys: Keys = np.empty(0, np.int64)
        self._index: Any = faiss.IndexFlatIP(dim)

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""
        return self._keys

    @property
    def exact(self) -> bool:
        """Whether every vector is compared."""
        return isinstance(self._index, faiss.IndexFlat)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return int(len(self._keys) * (4 * self.dim + (8 if self.exact else 24)))

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors under new keys, each greater than every key there ever was."""
        if len(keys) == 0:
            return
        vectors = np.ascontiguousarray(vectors, np.float32)
        if self.exact:
            self._index.add(vectors)
        else:
            self._index.add_with_ids(vectors, keys)
        self._keys = np.concatenate([self._keys, keys])
        self._fit()

    def remove(self, keys: Keys) -> None:
        """Remove vectors; keys that are not there are passed over."""
        gone = np.isin(self._keys, keys)
        if not gone.any():
            return
        if self.exact:
            self._index.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(gone)))
        else:
            self._index.remove_ids(faiss.IDSelectorArray(np.ascontiguousarray(self._keys[gone])))
        self._keys = self._keys[~gone]

    def search(self, queries: Matrix, k: int, allowed: Keys | None = None) -> list[tuple[Keys, Scores]]:
        """Return for each query the best ``k`` keys and scores, best first, ties with the last too."""
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        if allowed is not None:
            allowed = allowed[np.isin(allowed, self._keys)]
        size = len(self._keys) if allowed is None else len(allowed)
        if size == 0 or k < 1:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if allowed is not None and size <= max(1000, _FEW * len(self._keys)):
            scores = queries @ self.get(allowed).T
            return [_best(allowed, row, k) for row in scores]
        return self._search(queries, min(k, size), size, self._parameters(allowed))

    def _search(self, queries: Matrix, k: int, size: int, parameters: Any) -> list[tuple[Keys, Scores]]:
        """Search for all at once; those where something ties with the last are asked for more."""
        wanted = min(k + 8, size)
        scores, found = self._index.search(queries, wanted, params=parameters)
        answers = []
        for query, row, at in zip(queries, scores, found, strict=True):
            more = wanted
            while at[-1] >= 0 and len(row) > k and row[-1] >= row[k - 1] and more < size:
                more = min(4 * more, size)
                (row,), (at,) = self._index.search(query[None, :], more, params=parameters)  # noqa: PLW2901
            there = at >= 0
            answers.append(_best(self._keys[at[there]] if self.exact else at[there], row[there], k))
        return answers

    def get(self, keys: Keys) -> Matrix:
        """Return the vectors of keys that are all there."""
        if self.exact:
            everything = faiss.rev_swig_ptr(self._index.get_xb(), self._index.ntotal * self.dim)
            matrix: Matrix = everything.reshape(-1, self.dim)[np.searchsorted(self._keys, keys)]
            return matrix
        if len(keys) == 0:
            return np.empty((0, self.dim), np.float32)
        rows: Matrix = self._index.reconstruct_batch(np.ascontiguousarray(keys, np.int64))
        return rows

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        np.save(folder / "keys.npy", self._keys, allow_pickle=False)
        faiss.write_index(self._index, str(folder / "vectors.faiss"))

    def load(self, folder: Path) -> None:
        """Take back what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if damaged."""
        keys = np.load(folder / "keys.npy", allow_pickle=False)
        try:
            index = faiss.read_index(str(folder / "vectors.faiss"))
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from error
        if index.d != self.dim or index.ntotal != len(keys):
            raise ValueError(f"{folder}: {index.ntotal} vectors of {index.d} for {len(keys)} keys of {self.dim}")
        if self.kind == "flat" and not isinstance(index, faiss.IndexFlat):
            raise ValueError(f"{folder}: was saved with inverted lists, and is wanted flat")
        self._keys, self._index = keys, index
        if not self.exact:
            self._index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._fit()

    def _parameters(self, allowed: Keys | None) -> Any:
        selector = None
        if allowed is not None:
            within = np.flatnonzero(np.isin(self._keys, allowed)) if self.exact else allowed
            selector = faiss.IDSelectorBatch(within.astype(np.int64))
        if self.exact:
            return None if selector is None else faiss.SearchParameters(sel=selector)
        probed = max(_PROBED, self._index.nlist // 8)
        return faiss.SearchParametersIVF(sel=selector, nprobe=probed)

    def _fit(self) -> None:
        """Change over to inverted lists once there are enough vectors."""
        many = self.kind == "auto" and len(self._keys) >= self.approximate_from
        if not self.exact or not (many or (self.kind == "ivf" and len(self._keys) >= 1000)):
            return
        vectors = self.get(self._keys)
        lists = int(max(16, 2 * np.sqrt(len(vectors))))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(self.dim), self.dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter = 3  # more find no more
        sample = np.random.default_rng(0).permutation(len(vectors))[: 40 * lists]
        index.train(vectors[np.sort(sample)])
        _fill(index, self._keys, vectors)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index = index


def _fill(index: Any, keys: Keys, vectors: Matrix) -> None:
    """Put vectors into empty inverted lists, each list at once: one by one they would be given twice the room."""
    _, nearest = index.quantizer.search(vectors, 1)
    order = np.argsort(nearest[:, 0], kind="stable")
    bounds = np.searchsorted(nearest[order, 0], np.arange(index.nlist + 1))
    for number in range(index.nlist):
        own = order[bounds[number] : bounds[number + 1]]
        if len(own):
            ids, codes = np.ascontiguousarray(keys[own]), np.ascontiguousarray(vectors[own]).view(np.uint8)
            index.invlists.add_entries(number, len(own), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    index.ntotal = len(keys)


def _best(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    """Return the best ``k`` and what ties with the last, best first and then by key."""
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
