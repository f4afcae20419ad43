"""Vector search with FAISS: exact for small indexes, inverted lists (IVF) for large ones."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from graphrag_core import forks
from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays
from graphrag_core.key_sets import best, distinct
from graphrag_core.ports import Keys, Matrix, Ranking

_SMALL_SCOPE = 0.05  # share of all vectors up to which those in scope are compared one by one
_LEAST_PROBES = 16
_ROUNDING = 1e-5  # more than two ways to add up the same products differ
_FEW_QUERIES = 16  # up to which one thread searches
_MOST_VOID = 0.05  # of all vectors: the share of removed ones from which on they are dropped
_FEW_VOID = 8
_LISTS = "lists.arrays"
_FLOAT16 = faiss.ScalarQuantizer.QT_fp16

Codes = npt.NDArray[np.uint8]
Source = Callable[[], Iterable[tuple[Keys, Matrix]]]


class FaissVectors:
    """Unit vectors under integer keys, searched by inner product, which is their cosine similarity.

    In memory a component takes two bytes.

    Parameters
    ----------
    source
        Returns all keys, in ascending order, and vectors, in pages. It is read when the vectors are first needed; a
        change before that is ignored, as the source has it by then.
    approximate_from
        The number of vectors from which an approximate IVF index replaces exact search.
    """

    def __init__(self, source: Source = tuple, *, approximate_from: int = 100_000) -> None:
        self._source: Source | None = source
        self.loaded = False  # whether the vectors were read from their source
        self._loading = threading.Lock()
        self._keys: Keys = np.empty(0, np.int64)
        self._void: Keys = np.empty(0, np.int64)  # positions of removed vectors that the exact index still has
        self._exact = True
        self._switch_at = approximate_from
        self._index: Any = None  # made for the dimension of the first vectors
        self._lists: tuple[Keys, npt.NDArray[np.uint16], Matrix] | None = None  # saved keys, their lists, and centroids

    @property
    def keys(self) -> Keys:
        """All keys, in ascending order."""
        if self._source is not None:
            self._load()
        return np.delete(self._keys, self._void) if len(self._void) else self._keys

    @property
    def exact(self) -> bool:
        """Whether a query is compared with every vector."""
        if self._source is not None:
            self._load()
        return self._exact

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        size = len(self._keys)
        return int(size * (2 * self._index.d + (8 if self._exact else 24))) if size else 0

    def _load(self) -> None:
        with self._loading:
            if self._source is not None:
                self._keys = np.empty(0, np.int64)  # what an interrupted call may have left
                keys, codes = [self._keys], []
                for page, vectors in self._source():
                    keys.append(page)
                    codes.append(vectors.astype(np.float16).view(np.uint8))
                if codes:
                    self._keys = np.concatenate(keys)
                    self._fill(np.concatenate(codes))
                self._lists = self._source = None
                self.loaded = True

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors under new keys, each greater than all keys so far."""
        if len(keys) == 0 or self._source is not None:
            return
        vectors = np.ascontiguousarray(vectors, np.float32)
        if self._index is None:
            self._index = faiss.IndexScalarQuantizer(vectors.shape[1], _FLOAT16, faiss.METRIC_INNER_PRODUCT)
        with _one_thread():
            if self._exact:
                self._index.add(vectors)
            else:
                self._index.add_with_ids(vectors, np.ascontiguousarray(keys))
        self._keys = np.concatenate([self._keys, keys])
        if self._exact and len(self._keys) - len(self._void) >= self._switch_at:
            self._drop_void()
            self._fill(faiss.vector_to_array(self._index.codes).reshape(-1, self._index.code_size))

    def _fill(self, codes: Codes) -> None:
        """Build the index of all keys from their vectors as float16, in bytes: those need not be converted again."""
        if len(codes) >= self._switch_at:
            with _one_thread() if forks.is_child() else nullcontext():
                self._build_lists(codes)
            return
        self._index = faiss.IndexScalarQuantizer(codes.shape[1] // 2, _FLOAT16, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(codes.ravel(), self._index.codes)
        self._index.ntotal = len(codes)

    def remove(self, keys: Keys) -> None:
        """Remove vectors; unknown keys are ignored."""
        if self._source is not None:
            return
        gone = _is_in(self._keys, keys)
        if len(gone) == 0:
            return
        if not self._exact:
            self._index.remove_ids(faiss.IDSelectorArray(np.ascontiguousarray(self._keys[gone])))
            self._keys = np.delete(self._keys, gone)
            return
        # FAISS would move all vectors that follow: they are made zero, and dropped when there are more of them.
        codes = faiss.rev_swig_ptr(self._index.codes.data(), self._index.ntotal * self._index.code_size)
        codes.reshape(-1, self._index.code_size)[gone] = 0
        self._void = np.union1d(self._void, gone)
        if len(self._void) > max(_FEW_VOID, _MOST_VOID * len(self._keys)):
            self._drop_void()

    def _drop_void(self) -> None:
        if len(self._void):
            self._index.remove_ids(faiss.IDSelectorBatch(self._void))
            self._keys, self._void = np.delete(self._keys, self._void), np.empty(0, np.int64)

    def search(self, queries: Matrix, k: int, allowed: Keys | None = None) -> list[Ranking]:
        """Return for each query the best ``k`` keys and scores, best first, and what ties with the last.

        ``allowed``, in ascending order, restricts the search.
        """
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        keys = self.keys
        if allowed is not None:
            allowed = keys[_is_in(keys, allowed)]
        size = len(keys) if allowed is None else len(allowed)
        if size == 0 or k < 1:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if allowed is not None and size <= max(1000, _SMALL_SCOPE * len(keys)):
            scores = np.vecdot(queries[:, None, :], self.get(allowed)[None, :, :])  # the same wherever a row lies
            return [best(allowed, row, k) for row in scores]
        k = min(k, size)
        if allowed is None:
            size = len(self._keys)  # those that were removed are found, too
        wanted = min(k + 8, size)
        parameters = None if allowed is None and self._exact else self._parameters(allowed, size)
        rankings = []
        with _one_thread() if len(queries) <= _FEW_QUERIES or forks.is_child() else nullcontext():
            scores, found = self._index.search(queries, wanted, params=parameters)
        is_void = np.isin(found, self._void) | (found < 0) if len(self._void) else found < 0
        for query, row, at, gone in zip(queries, scores, found, is_void, strict=True):
            more, there = wanted, ~gone
            # Ties are cut off, or what would be one if FAISS rounded as we do.
            while at[-1] >= 0 and more < size and (there.sum() < k or row[-1] >= row[there][k - 1] - _ROUNDING):
                more = min(4 * more, size)
                with _one_thread():
                    (row,), (at,) = self._index.search(query[None, :], more, params=parameters)  # noqa: PLW2901
                there = (at >= 0) & ~np.isin(at, self._void)
            near = at[there]
            keys = self._keys[near] if self._exact else near
            # As in a small scope: the same passages have the same scores, whichever way they were found.
            rankings.append(best(keys, np.vecdot(self.get(keys), query), k))
        return rankings

    def get(self, keys: Keys) -> Matrix:
        """Return the vectors of existing keys."""
        if self._source is not None:
            self._load()
        if len(keys) == 0:
            return np.empty((0, 0 if self._index is None else self._index.d), np.float32)
        if self._exact:
            codes = faiss.rev_swig_ptr(self._index.codes.data(), self._index.ntotal * self._index.code_size)
            return _widened(codes.reshape(-1, self._index.code_size)[self._keys.searchsorted(keys)].view(np.int16))
        matrix: Matrix = self._index.reconstruct_batch(np.ascontiguousarray(keys, np.int64))
        return matrix

    # -- inverted lists

    def save(self, folder: Path, most: int) -> None:
        """Write the inverted lists, which are costly to compute, into an empty folder. Vectors are not written.

        ``most`` is an upper bound of the number of vectors: without it, vectors would have to be loaded to count them.
        """
        if self._source is not None and self._lists is not None:
            self._write(folder, *self._lists)
        elif most >= self._switch_at and not self.exact:
            self._write(folder, *self._computed_lists())

    @staticmethod
    def _write(folder: Path, keys: Keys, lists: npt.NDArray[np.uint16], centroids: Matrix) -> None:
        save_arrays(folder / _LISTS, {"keys": keys, "lists": lists, "centroids": centroids})

    def _computed_lists(self) -> tuple[Keys, npt.NDArray[np.uint16], Matrix]:
        invlists, lists = self._index.invlists, np.empty(len(self._keys), np.uint16)
        for number in range(self._index.nlist):
            if size := invlists.list_size(number):
                ids = faiss.rev_swig_ptr(invlists.get_ids(number), size)
                lists[np.searchsorted(self._keys, ids)] = number
        centroids = self._index.quantizer.reconstruct_n(0, self._index.nlist)
        return self._keys, lists, centroids

    def load(self, folder: Path) -> None:
        """Load what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if it is damaged."""
        if not (folder / _LISTS).exists():
            return
        arrays = load_arrays(folder / _LISTS)
        keys, lists, centroids = (arrays.get(name, np.empty(0)) for name in ("keys", "lists", "centroids"))
        if len(keys) != len(lists):
            raise ValueError(f"{folder / _LISTS} is damaged: {len(lists)} lists for {len(keys)} keys")
        self._lists = keys, lists, centroids

    def _parameters(self, allowed: Keys | None, size: int) -> Any:
        selector = None
        if allowed is not None:
            within = _is_in(self._keys, allowed) if self._exact else allowed
            selector = faiss.IDSelectorBatch(within.astype(np.int64))
        if self._exact:
            return None if selector is None else faiss.SearchParameters(sel=selector)
        # A scope that would be searched exactly if it were alone is so among others, too.
        is_small = allowed is not None and size < self._switch_at
        probed = self._index.nlist if is_small else max(_LEAST_PROBES, self._index.nlist // 8)
        return faiss.SearchParametersIVF(sel=selector, nprobe=probed)

    def _build_lists(self, codes: Codes) -> None:
        """Build an IVF index, with the lists that were saved as far as they are known."""
        halves = codes.view(np.float16)
        dim = halves.shape[1]
        lists = int(max(16, 2 * np.sqrt(len(codes)))) if self._lists is None else len(self._lists[2])
        coarse = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFScalarQuantizer(
            coarse, dim, lists, _FLOAT16, faiss.METRIC_INNER_PRODUCT, False  # the vectors, not residuals
        )  # fmt: skip
        index.cp.niter = 3  # more iterations do not improve recall
        number = np.full(len(codes), -1, np.int64)
        if self._lists is None:
            sample = np.random.default_rng(0).permutation(len(codes))[: 40 * lists]
            index.train(halves[np.sort(sample)].astype(np.float32))
        else:
            known, saved, centroids = self._lists
            coarse.add(np.ascontiguousarray(centroids, np.float32))
            index.is_trained = True
            at = np.minimum(np.searchsorted(known, self._keys), len(known) - 1)
            number = np.where(known[at] == self._keys, saved[at].astype(np.int64), -1)
        if len(unknown := np.flatnonzero(number < 0)):
            number[unknown] = coarse.search(halves[unknown].astype(np.float32), 1)[1][:, 0]
        # Each list is filled at once: vectors added one by one would take twice the memory.
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(lists + 1))
        for which in range(lists):
            own = order[bounds[which] : bounds[which + 1]]
            if len(own):
                ids, rows = np.ascontiguousarray(self._keys[own]), np.ascontiguousarray(codes[own])
                index.invlists.add_entries(which, len(own), faiss.swig_ptr(ids), faiss.swig_ptr(rows))
        index.ntotal = len(self._keys)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index, self._exact = index, False
        self._coarse = coarse  # which FAISS does not own


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


def _is_in(keys: Keys, wanted: Keys) -> Keys:
    """Return the positions of the wanted keys among sorted keys; unknown ones are left out."""
    if len(keys) == 0 or len(wanted) == 0:
        return np.empty(0, np.int64)
    wanted = distinct(wanted)
    at = np.searchsorted(keys, wanted)
    found = keys[np.minimum(at, len(keys) - 1)] == wanted
    positions: Keys = at[found]
    return positions
