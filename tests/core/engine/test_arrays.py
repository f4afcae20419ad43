"""Files of named arrays."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays

ARRAYS = {
    "ascending": np.arange(5, 100_000, 7),
    "extremes": np.array([-(2**63), 2**63 - 1, 0, -1]),
    "flags": np.array([True, False, True]),
    "vectors": np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32),
    "nothing": np.empty(0, np.int32),
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


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a"
    save_arrays(path, ARRAYS)
    data = path.read_bytes()
    for broken in (b"", data[:9], data[:200], data[:-5], data[:-50] + bytes(50), data[:900] + b"?" + data[901:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="damaged"):
            load_arrays(path)
    with pytest.raises(OSError, match="missing"):
        load_arrays(tmp_path / "missing")
