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
    "turned": np.arange(12).reshape(3, 4).T,
    "nothing": np.empty(0, np.int32),
}


def test_arrays_come_back_exactly(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS)
    again = load_arrays(tmp_path / "a")
    assert again.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert again[name].values.dtype == array.dtype
        assert again[name].values.shape == array.shape
        assert np.array_equal(again[name].values, array)


def test_a_mapped_array_changes_and_grows_and_its_file_does_not(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS)
    data = (tmp_path / "a").read_bytes()
    for more in (1, 100_000):  # as many as there is room for, and more
        again = load_arrays(tmp_path / "a")
        assert sum(array.nbytes for array in again.values()) == 0, "they are in no memory of ours"
        for name, array in ARRAYS.items():
            again[name].append(np.ones((more, *array.shape[1:]), array.dtype))
            again[name].values[0] = 0
        for name, array in ARRAYS.items():
            expected = np.concatenate([array, np.ones((more, *array.shape[1:]), array.dtype)])
            expected[0] = 0
            assert np.array_equal(again[name].values, expected)
        assert (tmp_path / "a").read_bytes() == data


def test_a_damaged_header_or_length_is_refused(tmp_path):
    path = tmp_path / "a"
    save_arrays(path, ARRAYS)
    data = path.read_bytes()
    for broken in (b"", data[:9], data[:200], data[:-5], data + bytes(64), data[:60] + b"?" + data[61:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="damaged"):
            load_arrays(path)
    with pytest.raises(OSError, match="missing"):
        load_arrays(tmp_path / "missing")
