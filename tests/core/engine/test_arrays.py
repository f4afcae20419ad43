"""Files of named arrays."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays

ARRAYS = {
    "ascending": np.arange(5, 100_000, 7),
    "hashes": np.random.default_rng(0).integers(-(2**63), 2**63, 1_000),
    "extremes": np.array([-(2**63), 2**63 - 1, 0, -1]),
    "small": np.array([3, -3, 0, 127, -128], np.int8),
    "positions": np.array([9, 2, 70_000, 0], np.int32),
    "unsigned": np.array([1, 65_535], np.uint16),
    "flags": np.array([True, False, True]),
    "weights": np.array([0.3, 1.1, 0.3], np.float32),
    "vectors": np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32),
    "nothing": np.empty(0, np.int32),
    "no weights": np.empty(0, np.float32),
}


def test_arrays_come_back_exactly(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS)
    again = load_arrays(tmp_path / "a")
    assert again.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert np.array_equal(again[name], array)
        assert again[name].flags.writeable
    assert (tmp_path / "a").stat().st_size < sum(array.nbytes for array in ARRAYS.values()) / 4


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a"
    save_arrays(path, ARRAYS)
    data = path.read_bytes()
    for broken in (b"", b"PK" + data, data[:9], data[:200], data[:-5], data[:-50] + bytes(50), data[:15] + data[20:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="damaged"):
            load_arrays(path)
    with pytest.raises(OSError, match="missing"):
        load_arrays(tmp_path / "missing")
