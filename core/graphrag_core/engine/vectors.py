"""Vectors of passages: FAISS reads them in place, from the mapped base and from a tail in memory.

A component takes two bytes. Few vectors are compared one by one; from 100,000 on, those of the base are in inverted
lists (IVF), whose centroids stay when the base is replaced. The inner product of unit vectors is their cosine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from graphrag_core import forks
from graphrag_core.deadline import check_deadline
from graphrag_core.engine.arrays import Arrays, BaseWriter, Column, Flags, Numbers
from graphrag_core.key_sets import best
from graphrag_core.ports import Keys, Matrix, Ranking

APPROXIMATE_FROM = 100_000
"""Vectors of a base from which on they are in inverted lists."""

_SMALL_SCOPE = 1_000  # vectors that are compared without FAISS
_LEAST_PROBES = 16
_ROUNDING = 1e-5  # more than two ways to add up the same products differ
_FEW_QUERIES = 16  # up to which one thread searches
_PIECE = 50_000  # vectors that are written, or assigned to lists, at once
_FLOAT16 = faiss.ScalarQuantizer.QT_fp16
_HAS_VIEWS = hasattr(faiss, "MaybeOwnedVectorUInt8")

Codes = npt.NDArray[np.uint8]


class Vectors:
    """The vectors of a view: a row for each passage, those of the base first. Without vectors ``dim`` is 0."""

    __slots__ = ("_base", "_flat", "_tail", "dim")

    def __init__(self, dim: int, base: _Store | None = None, tail: Column | None = None) -> None:
        self.dim, self._base = dim, base
        self._tail = Column(np.empty((0, 2 * dim), np.uint8)) if tail is None else tail
        self._flat: _Store | None = None  # FAISS over the tail, made by the first search

    def __len__(self) -> int:
        return (0 if self._base is None else self._base.size) + len(self._tail)

    @property
    def nbytes(self) -> int:
        return self._tail.nbytes

    def appended(self, vectors: Matrix | None, before: int, count: int) -> Vectors:
        """Return the vectors with those of more passages; zero for passages without one. ``before`` are there."""
        if vectors is None:
            if self.dim == 0:
                return self
            vectors = np.zeros((count, self.dim), np.float32)
        found = self
        if self.dim == 0:
            zeros = np.zeros((before, 2 * vectors.shape[1]), np.uint8)
            found = Vectors(vectors.shape[1], None, Column(zeros[:0]).appended(zeros))
        return Vectors(found.dim, found._base, found._tail.appended(vectors.astype(np.float16).view(np.uint8)))

    def search(self, queries: Matrix, k: int, visible: Flags | None) -> list[Ranking]:
        """Return for each query the best ``k`` passages and cosines, best first, and what ties with the last.

        ``visible`` restricts the search.
        """
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        size = len(self) if visible is None else int(np.count_nonzero(visible))
        if size == 0 or k < 1 or len(self) == 0:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if visible is not None and size <= _SMALL_SCOPE:
            own = np.flatnonzero(visible)
            scores = np.vecdot(queries[:, None, :], self.take(own)[None, :, :])  # the same wherever a row lies
            return [best(own, row, k) for row in scores]
        # A scope that would be searched exactly if it were alone is so among others, too.
        every = visible is not None and size < APPROXIMATE_FROM
        if len(self._tail) and self._flat is None:
            self._flat = _Store(self._tail.tail)
        nearest, first = [], 0
        for part in filter(None, (self._base, self._flat)):
            inside = None if visible is None else visible[first : first + part.size]
            nearest.append([first + found for found in part.nearest(queries, k, inside, every_list=every)])
            first += part.size
        rankings = []
        for query, *near in zip(queries, *nearest, strict=True):
            candidates = np.concatenate(near)
            # As in a small scope: the same passages have the same scores, whichever way they were found.
            rankings.append(best(candidates, np.vecdot(self.take(candidates), query), k))
        return rankings

    def take(self, passages: Keys) -> Matrix:
        """Return the vectors of passages."""
        return _widened(self.codes(passages).view(np.int16))

    def codes(self, passages: Keys) -> Codes:
        """Return the vectors of passages as they are stored."""
        base = self._base
        if base is None:
            return self._tail.take(passages)
        if len(self._tail) == 0:
            return base.codes.take(passages if base.rows is None else base.rows.take(passages), axis=0)
        is_new, found = passages >= base.size, np.empty((len(passages), 2 * self.dim), np.uint8)
        found[is_new] = self._tail.tail[passages[is_new] - base.size]
        old = passages[~is_new]
        found[~is_new] = base.codes.take(old if base.rows is None else base.rows.take(old), axis=0)
        return found

    # -- the base

    def write(self, base: BaseWriter, passages: Keys, *, with_lists: bool = True) -> None:
        """Write the vectors of some passages, in inverted lists if they are many."""
        if self.dim == 0:
            return
        if len(passages) < APPROXIMATE_FROM or not with_lists:
            self._write_codes(base, passages)
            return
        centroids = None if self._base is None else self._base.centroids
        if centroids is None:
            centroids = self._trained(passages)
        with _one_thread() if forks.is_child() else nullcontext():
            lists = self._lists_of(passages, centroids)
        order = np.argsort(lists, kind="stable")
        rows = np.empty(len(order), np.int32)
        rows[order] = np.arange(len(order), dtype=np.int32)
        self._write_codes(base, passages[order])
        base.put("vectors.rows", rows)
        base.put("vectors.bounds", np.searchsorted(lists[order], np.arange(len(centroids) + 1)))
        base.put("vectors.centroids", centroids)

    def _write_codes(self, base: BaseWriter, passages: Keys) -> None:
        pieces = (self.codes(passages[start : start + _PIECE]) for start in range(0, len(passages), _PIECE))
        base.put("vectors.codes", np.empty((0, 2 * self.dim), np.uint8), pieces)

    def _trained(self, passages: Keys) -> Matrix:
        """Return the centroids of inverted lists, found by k-means."""
        count = int(max(16, 2 * np.sqrt(len(passages))))
        coarse = faiss.IndexFlatIP(self.dim)
        index = _inverted(coarse, count)
        index.cp.niter = 3  # more iterations do not improve recall
        sample = np.random.default_rng(0).permutation(len(passages))[: 40 * count]
        with _one_thread() if forks.is_child() else nullcontext():
            index.train(self.take(passages[np.sort(sample)]))
        found: Matrix = coarse.reconstruct_n(0, count)
        return found

    def _lists_of(self, passages: Keys, centroids: Matrix) -> Keys:
        """Return the list of each passage. Those of the base stay where they are."""
        coarse = faiss.IndexFlatIP(self.dim)
        coarse.add(np.ascontiguousarray(centroids))
        lists, is_new = np.empty(len(passages), np.int64), np.ones(len(passages), np.bool_)
        if self._base is not None and self._base.centroids is not None:
            is_new = passages >= self._base.size
            lists[~is_new] = self._base.list_of(passages[~is_new])
        at = np.flatnonzero(is_new)
        for start in range(0, len(at), _PIECE):
            own = at[start : start + _PIECE]
            lists[own] = coarse.search(self.take(passages[own]), 1)[1][:, 0]
        return lists

    @classmethod
    def opened(cls, arrays: Arrays) -> Vectors:
        """Return the vectors of a base."""
        if (codes := arrays.get("vectors.codes")) is None:
            return cls(0)
        lists = (arrays.get(f"vectors.{name}") for name in ("rows", "bounds", "centroids"))
        return cls(codes.shape[1] // 2, _Store(codes, *lists))


class _Store:
    """Vectors that FAISS searches in place where it can: one by one, or in inverted lists.

    With lists ``rows`` says where the vector of each passage is, list by list, and ``bounds`` where each list starts.
    """

    def __init__(
        self, codes: Codes, rows: npt.NDArray[np.int32] | None = None, bounds: Keys | None = None,
        centroids: Matrix | None = None,
    ) -> None:  # fmt: skip
        self.codes, self.rows, self._bounds, self.centroids = codes, rows, bounds, centroids
        self.size = len(codes)
        self._coarse: Any = None
        self._index: Any = None

    def nearest(self, queries: Matrix, k: int, visible: Flags | None, *, every_list: bool) -> list[Keys]:
        """Return for each query about the best ``k`` rows, and what ties with the last; exactly these without lists."""
        if self._index is None:
            self._index = self._flat() if self.centroids is None else self._lists()
        index, selector, size, parameters = self._index, None, self.size, None
        if visible is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(visible, bitorder="little"))
            size = int(np.count_nonzero(visible))
            parameters = faiss.SearchParameters(sel=selector)
        if self.centroids is not None:
            probed = index.nlist if every_list else max(_LEAST_PROBES, index.nlist // 8)
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=probed)
        if (k := min(k, size)) < 1:
            return [np.empty(0, np.int64) for _ in queries]
        wanted, nearest = min(k + 8, size), list[Numbers]()
        with _one_thread() if len(queries) <= _FEW_QUERIES or forks.is_child() else nullcontext():
            all_scores, all_near = index.search(queries, wanted, params=parameters)
        for query, scores, near in zip(queries, all_scores, all_near, strict=True):
            more = wanted
            # Ties are cut off, or what would be one if FAISS rounded as we do.
            while near[-1] >= 0 and more < size and scores[-1] >= scores[k - 1] - _ROUNDING:
                check_deadline()
                more = min(4 * more, size)
                with _one_thread():
                    (scores,), (near,) = index.search(query[None, :], more, params=parameters)  # noqa: PLW2901
            nearest.append(near[near >= 0])
        return nearest

    def list_of(self, rows: Keys) -> Keys:
        """Return the list of each vector."""
        return np.asarray(self._bounds).searchsorted(np.asarray(self.rows).take(rows), "right") - 1

    def _flat(self) -> Any:
        index = faiss.IndexScalarQuantizer(self.codes.shape[1] // 2, _FLOAT16, faiss.METRIC_INNER_PRODUCT)
        if _HAS_VIEWS:
            index.codes = _view(self.codes)
        else:
            faiss.copy_array_to_vector(self.codes.ravel(), index.codes)
        index.is_trained, index.ntotal = True, len(self.codes)
        return index

    def _lists(self) -> Any:
        centroids, rows = np.ascontiguousarray(self.centroids), np.asarray(self.rows)
        self._coarse = coarse = faiss.IndexFlatIP(centroids.shape[1])  # which the other index does not own
        coarse.add(centroids)
        index = _inverted(coarse)
        ids = np.empty(len(rows), np.int64)
        ids[rows] = np.arange(len(ids))
        lists, parts = faiss.downcast_InvertedLists(index.invlists), [*pairwise(np.asarray(self._bounds).tolist())]
        size = lists.code_size
        if _HAS_VIEWS:
            lists.code_size = 0  # ids are copied, and of the vectors nothing
        for number, (start, stop) in enumerate(parts):
            if stop > start:
                pointers = faiss.swig_ptr(ids[start:stop]), faiss.swig_ptr(self.codes[start:stop])
                lists.add_entries(number, stop - start, *pointers)
        if _HAS_VIEWS:
            lists.code_size = size
            lists.codes.clear()
            for start, stop in parts:
                lists.codes.push_back(_view(self.codes[start:stop] if stop > start else self.codes[:0]))
        index.ntotal = len(ids)
        return index


def _view(codes: Codes) -> Any:
    """Return bytes as FAISS reads them. The caller keeps the array."""
    owner = faiss.MaybeOwnedVectorUInt8().owner  # none
    return faiss.MaybeOwnedVectorUInt8.create_view(faiss.swig_ptr(codes), codes.size, owner)


def _inverted(coarse: Any, lists: int = 0) -> Any:
    """Return an empty IVF index. It has the centroids of ``coarse``, if there are any."""
    index = faiss.IndexIVFScalarQuantizer(
        coarse, coarse.d, lists or coarse.ntotal, _FLOAT16, faiss.METRIC_INNER_PRODUCT, False  # vectors, not residuals
    )  # fmt: skip
    index.is_trained = coarse.ntotal > 0
    return index


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let FAISS use this thread alone. Its other threads do not exist in a forked process, which would wait forever."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # of this thread only
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _widened(halves: npt.NDArray[np.int16]) -> Matrix:
    """Return finite float16 numbers, given by their bits, as float32. NumPy takes three times as long.

    >>> _widened(np.array([1, -0.1, 2**-24], np.float16).view(np.int16)).tolist() == [1, -0.0999755859375, 2**-24]
    True
    """
    wide = halves.astype(np.int32)
    wide <<= 13  # the sign is extended to the first four bits, of which the first is kept
    wide &= -0x70002000
    numbers: Matrix = wide.view(np.float32)
    numbers *= np.float32(2.0**112)  # the exponent of a float32 counts from -127, that of a float16 from -15
    return numbers
