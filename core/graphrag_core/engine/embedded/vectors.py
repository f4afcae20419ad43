"""Vector search with FAISS: exact for small indexes, inverted lists (IVF) for large ones."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from graphrag_core import forks
from graphrag_core.deadline import check_deadline
from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays
from graphrag_core.engine.graph.sparse import Flags, in_memory, rows_of
from graphrag_core.key_sets import among, best, distinct
from graphrag_core.ports import Keys, Matrix, Ranking

_SMALL_SCOPE = 1_000  # vectors that are compared one by one
_LEAST_PROBES = 16
_ROUNDING = 1e-5  # more than two ways to add up the same products differ
_FEW_QUERIES = 16  # up to which one thread searches
_MOST_VOID = 0.05  # of all vectors: the share of removed ones from which on they are dropped
_FEW_VOID = 8
_MOST_RECENT = 0.05  # of the vectors in inverted lists: the share of others from which on they are put there
_LISTS = "lists.arrays"
_FLOAT16 = faiss.ScalarQuantizer.QT_fp16

Codes = npt.NDArray[np.uint8]
Source = Callable[[], Iterable[tuple[Keys, Matrix]]]


class FaissVectors:
    """Unit vectors under integer keys, searched by inner product, which is their cosine similarity.

    In memory a component takes two bytes. Many vectors are in inverted lists, which do not change and can be mapped
    from a file. Those that were added since are compared one by one.

    Parameters
    ----------
    source
        Returns all keys, in ascending order, and vectors, in pages. It is read when the vectors are first needed,
        unless :meth:`load` maps them; a change before that is ignored, as the source has it by then.
    approximate_from
        The number of vectors from which an approximate IVF index replaces exact search.
    """

    def __init__(self, source: Source = tuple, *, approximate_from: int = 100_000) -> None:
        self._source: Source | None = source
        self.loaded = False  # whether the vectors were read from their source, or mapped
        self._loading = threading.Lock()
        self._switch_at = approximate_from
        self._recent = _Exact()  # all vectors, or those that are not in the inverted lists
        self._lists: _Lists | None = None
        self._keys: Keys | None = None

    @property
    def keys(self) -> Keys:
        """All keys, in ascending order."""
        if self._source is not None:
            self._load()
        keys = self._keys
        if keys is None:
            keys = self._recent.there
            if self._lists is not None:
                keys = np.concatenate([self._lists.there, keys]) if len(keys) else self._lists.there
            self._keys = keys
        return keys

    @property
    def exact(self) -> bool:
        """Whether a query is compared with every vector."""
        if self._source is not None:
            self._load()
        return self._lists is None

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return self._recent.nbytes + (0 if self._lists is None else self._lists.nbytes)

    def _load(self) -> None:
        with self._loading:
            if self._source is not None:
                keys, codes = [np.empty(0, np.int64)], []
                for page, vectors in self._source():
                    keys.append(page)
                    codes.append(vectors.astype(np.float16).view(np.uint8))
                if codes:
                    every = np.concatenate(codes)
                    codes.clear()  # they are many
                    self._fill(np.concatenate(keys), every)
                self._keys = self._source = None
                self.loaded = True

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors under new keys, each greater than all keys so far."""
        if len(keys) == 0 or self._source is not None:
            return
        self._keys = None
        self._recent.add(keys, np.ascontiguousarray(vectors, np.float32))
        most = self._switch_at if self._lists is None else max(1_000, _MOST_RECENT * len(self._lists.keys))
        if len(self._recent.there) >= most:
            self._merge()

    def _merge(self) -> None:
        """Put all vectors into inverted lists, and drop removed ones."""
        keys = self.keys
        if self._lists is None:
            self._fill(keys, self._recent.codes_of(keys))
        else:
            self._lists = self._lists.extended(self._recent.there, self._recent.codes_of(self._recent.there))
            self._recent = _Exact()

    def _fill(self, keys: Keys, codes: Codes) -> None:
        """Build the index from all vectors as float16, in bytes: those need not be converted again."""
        self._lists, self._recent = None, _Exact()
        if len(codes) >= self._switch_at:
            with _one_thread() if forks.is_child() else nullcontext():
                self._lists = _Lists.build(keys, codes)
        else:
            self._recent = _Exact(keys, codes)

    def remove(self, keys: Keys) -> None:
        """Remove vectors; unknown keys are ignored."""
        if self._source is None:
            self._keys = None
            self._recent.remove(keys)
            if self._lists is not None:
                self._lists.remove(keys)
                if len(self._lists.void) > max(_FEW_VOID, _MOST_VOID * len(self._lists.keys)):
                    self._merge()

    def search(self, queries: Matrix, k: int, visible: Flags | None = None) -> list[Ranking]:
        """Return for each query the best ``k`` keys and scores, best first, and what ties with the last.

        ``visible`` restricts the search: whether each key may be found, by key.
        """
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        keys = self.keys
        inside = None if visible is None else visible if len(keys) == len(visible) else visible[keys]
        size = len(keys) if inside is None else int(np.count_nonzero(inside))
        if size == 0 or k < 1:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if inside is not None and size <= _SMALL_SCOPE:
            own = keys[inside]
            scores = np.vecdot(queries[:, None, :], self.get(own)[None, :, :])  # the same wherever a row lies
            return [best(own, row, k) for row in scores]
        # A scope that would be searched exactly if it were alone is so among others, too.
        every = visible is not None and size < self._switch_at
        nearest = [] if self._lists is None else [self._lists.nearest(queries, k, visible, every_list=every)]
        if len(self._recent.keys):
            nearest.append(self._recent.nearest(queries, k, visible))
        rankings = []
        for query, *near in zip(queries, *nearest, strict=True):
            candidates = near[0] if len(near) == 1 else np.concatenate(near)
            # As in a small scope: the same passages have the same scores, whichever way they were found.
            rankings.append(best(candidates, np.vecdot(self.get(candidates), query), k))
        return rankings

    def get(self, keys: Keys) -> Matrix:
        """Return the vectors of existing keys."""
        if self._source is not None:
            self._load()
        if self._lists is None:
            codes = self._recent.codes_of(keys)
        elif len(self._recent.keys) == 0 or (is_recent := keys >= self._recent.keys[0]).sum() == 0:
            codes = self._lists.codes_of(keys)
        else:
            codes = np.empty((len(keys), self._lists.codes.shape[1]), np.uint8)
            codes[is_recent] = self._recent.codes_of(keys[is_recent])
            codes[~is_recent] = self._lists.codes_of(keys[~is_recent])
        return _widened(codes.view(np.int16))

    # -- files

    def save(self, folder: Path, most: int) -> None:
        """Write the inverted lists with their vectors into an empty folder. Fewer vectors are not written.

        ``most`` is an upper bound of the number of vectors: without it, vectors would have to be loaded to count them.
        """
        if most < self._switch_at or self.exact or self._lists is None:
            return
        recent = self._recent.there
        is_changed = len(recent) or len(self._lists.void)
        lists = self._lists.extended(recent, self._recent.codes_of(recent)) if is_changed else self._lists
        save_arrays(folder / _LISTS, lists.arrays())

    def load(self, folder: Path) -> None:
        """Map what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if it is damaged."""
        if (folder / _LISTS).exists():
            self._lists, self._recent = _Lists.load(folder / _LISTS), _Exact()
            self._keys = self._source = None
            self.loaded = True


class _Exact:
    """Vectors that are compared one by one."""

    def __init__(self, keys: Keys | None = None, codes: Codes | None = None) -> None:
        self.keys: Keys = np.empty(0, np.int64) if keys is None else keys
        self._void: Keys = np.empty(0, np.int64)  # positions of removed vectors that the index still has
        self._index: Any = None  # made for the dimension of the first vectors
        self._view: Codes | None = None
        if codes is not None:
            self._index = faiss.IndexScalarQuantizer(codes.shape[1] // 2, _FLOAT16, faiss.METRIC_INNER_PRODUCT)
            faiss.copy_array_to_vector(codes.ravel(), self._index.codes)
            self._index.ntotal = len(codes)

    @property
    def there(self) -> Keys:
        """The keys without removed ones."""
        return np.delete(self.keys, self._void) if len(self._void) else self.keys

    @property
    def _codes(self) -> Codes:
        """The vectors as FAISS stores them: not a copy, and valid until a change."""
        if self._view is None:
            size = self._index.code_size
            self._view = faiss.rev_swig_ptr(self._index.codes.data(), self._index.ntotal * size).reshape(-1, size)
        return self._view

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return 0 if self._index is None else len(self.keys) * (self._index.code_size + 8)

    def codes_of(self, keys: Keys) -> Codes:
        """Return the vectors of existing keys as they are stored."""
        return np.empty((len(keys), 0), np.uint8) if self._index is None else self._codes[rows_of(self.keys, keys)]

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors. NumPy rounds them, as it does when they are loaded: FAISS rounds ties in another way."""
        if self._index is None:
            self._index = faiss.IndexScalarQuantizer(vectors.shape[1], _FLOAT16, faiss.METRIC_INNER_PRODUCT)
        added = vectors.astype(np.float16).view(np.uint8)
        self._index.codes.resize(self._index.codes.size() + added.size)  # FAISS 1.9 has no add_sa_codes
        self._index.ntotal += len(added)
        self._view = None
        self._codes[self._index.ntotal - len(added) :] = added
        self.keys = np.concatenate([self.keys, keys])

    def remove(self, keys: Keys) -> None:
        """Remove vectors. FAISS would move all that follow: they are made zero, and dropped when there are more."""
        gone = _is_in(self.keys, keys)
        if len(gone) == 0:
            return
        self._codes[gone] = 0
        self._void = np.union1d(self._void, gone)
        if len(self._void) > max(_FEW_VOID, _MOST_VOID * len(self.keys)):
            self._index.remove_ids(faiss.IDSelectorBatch(self._void))
            self._view = None
            self.keys, self._void = np.delete(self.keys, self._void), np.empty(0, np.int64)

    def nearest(self, queries: Matrix, k: int, visible: Flags | None) -> list[Keys]:
        """Return for each query at least the best ``k`` keys, and what ties with the last."""
        searched, parameters = (len(self.keys), self._void), None
        if visible is not None:
            inside = visible if len(self.keys) == len(visible) else visible[self.keys]  # no removed ones
            bits = np.packbits(inside, bitorder="little")
            parameters = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))
            searched = int(np.count_nonzero(inside)), np.empty(0, np.int64)
        return [self.keys[at] for at in _nearest(self._index, queries, k, searched, parameters)]


class _Lists:
    """Vectors in inverted lists. They do not change; removed ones are left out of what is found.

    Parameters
    ----------
    keys, rows
        All keys, in ascending order, and where the vector of each is.
    codes
        The vectors, list by list.
    bounds, centroids
        Where each list begins and ends, and the centroid of each.
    """

    def __init__(self, keys: Keys, rows: npt.NDArray[np.int32], codes: Codes, bounds: Keys, centroids: Matrix) -> None:
        self.keys, self.codes = keys, codes
        self._rows, self._bounds, self._centroids = rows, bounds, centroids
        self.void: Keys = np.empty(0, np.int64)  # keys of removed vectors
        self._coarse = faiss.IndexFlatIP(centroids.shape[1])  # which FAISS does not own
        self._coarse.add(centroids)
        self._index = _inverted(self._coarse)
        self._fill()

    def _fill(self) -> None:
        """Let FAISS read the vectors from ``codes``. A version without views of arrays copies them."""
        ids = np.empty(len(self.keys), np.int64)
        ids[self._rows] = self.keys
        lists, ends = faiss.downcast_InvertedLists(self._index.invlists), self._bounds.tolist()
        parts = [*pairwise(ends)]
        size, views = lists.code_size, hasattr(faiss, "MaybeOwnedVectorUInt8")
        if views:
            lists.code_size = 0  # ids are copied, and of the vectors nothing
        for number, (start, stop) in enumerate(parts):
            if stop > start:
                pointers = faiss.swig_ptr(ids[start:stop]), faiss.swig_ptr(self.codes[start:stop])
                lists.add_entries(number, stop - start, *pointers)
        if views:
            lists.code_size = size
            lists.codes.clear()
            owner = faiss.MaybeOwnedVectorUInt8().owner  # none: this object keeps the array
            for start, stop in parts:
                pointer = faiss.swig_ptr(self.codes[start:stop] if stop > start else self.codes)
                view = faiss.MaybeOwnedVectorUInt8.create_view(pointer, (stop - start) * size, owner)
                lists.codes.push_back(view)
        self._index.ntotal = len(self.keys)

    @classmethod
    def build(cls, keys: Keys, codes: Codes) -> "_Lists":
        """Sort vectors into lists, whose centroids are found by k-means."""
        halves = codes.view(np.float16)
        count = int(max(16, 2 * np.sqrt(len(codes))))
        coarse = faiss.IndexFlatIP(halves.shape[1])
        index = _inverted(coarse, count)
        index.cp.niter = 3  # more iterations do not improve recall
        sample = np.random.default_rng(0).permutation(len(codes))[: 40 * count]
        index.train(halves[np.sort(sample)].astype(np.float32))
        return cls._sorted(keys, codes, _nearest_list(coarse, codes), coarse.reconstruct_n(0, count))

    @classmethod
    def _sorted(cls, keys: Keys, codes: Codes, lists: Keys, centroids: Matrix) -> "_Lists":
        """Return lists of vectors, which are given in the order of keys, each with the number of its list."""
        order = np.argsort(lists, kind="stable")
        rows = np.empty(len(keys), np.int32)
        rows[order] = np.arange(len(keys), dtype=np.int32)
        bounds = np.searchsorted(lists[order], np.arange(len(centroids) + 1))
        return cls(keys, rows, codes[order], bounds, centroids)

    def extended(self, keys: Keys, codes: Codes) -> "_Lists":
        """Return the lists without removed vectors and with others, whose keys are greater."""
        numbers = np.repeat(np.arange(len(self._centroids)), np.diff(self._bounds))[self._rows]
        kept = self.there
        at = np.searchsorted(self.keys, kept)
        if len(keys) == 0:
            codes = codes.reshape(0, self.codes.shape[1])
        return self._sorted(
            np.concatenate([kept, keys]),
            np.concatenate([self.codes[self._rows[at]], codes]),
            np.concatenate([numbers[at], _nearest_list(self._coarse, codes)]),
            self._centroids,
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what :meth:`load` needs."""
        return {
            "keys": self.keys, "rows": self._rows, "codes": self.codes, "bounds": self._bounds,
            "centroids": self._centroids,
        }  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> "_Lists":
        """Map the lists of a file; raise ``OSError`` or ``ValueError`` if it is damaged."""
        arrays: Mapping[str, npt.NDArray[Any]] = {name: array.values for name, array in load_arrays(path).items()}
        try:
            keys, rows, codes, bounds, centroids = (
                arrays[name] for name in ("keys", "rows", "codes", "bounds", "centroids")
            )
        except KeyError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        if not len(keys) == len(rows) == len(codes) == bounds[-1] or len(bounds) != len(centroids) + 1:
            raise ValueError(f"{path} is damaged: it has {len(codes)} vectors for {len(keys)} keys")
        if bounds[0] != 0 or (np.diff(bounds) < 0).any() or codes.shape[1] != 2 * centroids.shape[1]:
            raise ValueError(f"{path} is damaged: its lists have no bounds")
        return cls(keys, rows, codes, bounds, centroids)

    @property
    def there(self) -> Keys:
        """The keys without removed ones."""
        return self.keys[~among(self.keys, self.void)] if len(self.void) else self.keys

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        parts: list[npt.NDArray[Any]] = [self.keys, self._rows, self.codes, self._centroids]
        return sum(in_memory(part) for part in parts) + 8 * len(self.keys)  # and a copy of the keys

    def codes_of(self, keys: Keys) -> Codes:
        """Return the vectors of existing keys as they are stored."""
        return self.codes[self._rows[rows_of(self.keys, keys)]]

    def remove(self, keys: Keys) -> None:
        """Leave vectors out of what is found."""
        self.void = np.union1d(self.void, self.keys[_is_in(self.keys, keys)])

    def nearest(self, queries: Matrix, k: int, visible: Flags | None, *, every_list: bool) -> list[Keys]:
        """Return for each query about the best ``k`` keys, and what ties with the last."""
        selector, searched = None, (len(self.keys), self.void)
        if visible is not None:
            bits = np.packbits(visible, bitorder="little")
            inside = visible if len(self.keys) == len(visible) else visible[self.keys]  # no removed ones
            selector, searched = faiss.IDSelectorBitmap(bits), (int(np.count_nonzero(inside)), np.empty(0, np.int64))
        probed = self._index.nlist if every_list else max(_LEAST_PROBES, self._index.nlist // 8)
        return _nearest(self._index, queries, k, searched, faiss.SearchParametersIVF(sel=selector, nprobe=probed))


def _inverted(coarse: Any, lists: int = 0) -> Any:
    """Return an empty IVF index. It has the centroids of ``coarse``, if there are any."""
    index = faiss.IndexIVFScalarQuantizer(
        coarse, coarse.d, lists or coarse.ntotal, _FLOAT16, faiss.METRIC_INNER_PRODUCT, False  # vectors, not residuals
    )  # fmt: skip
    index.is_trained = coarse.ntotal > 0
    return index


def _nearest_list(coarse: Any, codes: Codes) -> Keys:
    if len(codes) == 0:
        return np.empty(0, np.int64)
    lists: Keys = coarse.search(codes.view(np.float16).astype(np.float32), 1)[1][:, 0]
    return lists


def _nearest(index: Any, queries: Matrix, k: int, searched: tuple[int, Keys], parameters: Any) -> list[Keys]:
    """Return for each query the best ``k`` that FAISS finds, and what ties with the last.

    ``searched`` is how many vectors may be found, and which of them were removed.
    """
    size, void = searched
    k = min(k, size - len(void))
    wanted = min(k + 8, size)
    if k < 1:
        return [np.empty(0, np.int64) for _ in queries]
    nearest = []
    with _one_thread() if len(queries) <= _FEW_QUERIES or forks.is_child() else nullcontext():
        all_scores, all_near = index.search(queries, wanted, params=parameters)
    for query, scores, near in zip(queries, all_scores, all_near, strict=True):
        more, there = wanted, near >= 0
        if len(void):
            there &= ~among(near, void)
        # Ties are cut off, or what would be one if FAISS rounded as we do.
        while near[-1] >= 0 and more < size and (there.sum() < k or scores[-1] >= scores[there][k - 1] - _ROUNDING):
            check_deadline()
            more = min(4 * more, size)
            with _one_thread():
                (scores,), (near,) = index.search(query[None, :], more, params=parameters)  # noqa: PLW2901
            there = (near >= 0) & ~among(near, void)
        nearest.append(near[there])
    return nearest


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
    is_known = keys[np.minimum(at, len(keys) - 1)] == wanted
    positions: Keys = at[is_known]
    return positions
