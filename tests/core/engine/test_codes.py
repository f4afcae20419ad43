"""Vectors as they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core.engine.codes import are_damaged, decode, encode


def some(count, dim):
    vectors = np.random.default_rng(0).normal(size=(count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("dim", [1, 3, 16, 256, 1536])
@pytest.mark.parametrize(("kind", "least"), [("chunks", 0.999), ("names", 0.9995)])
def test_vectors_come_back_nearly_as_they_were(kind, least, dim):
    vectors = some(5_000 if dim == 3 else 50, dim)
    codes = encode(kind, vectors)
    assert codes.shape == (len(vectors), 4 + (2 * dim if kind == "names" else dim))
    again = decode(kind, codes)
    assert np.sum(vectors * again, axis=1).min() > least
    assert np.allclose(np.linalg.norm(again, axis=1), 1, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "dim", "most"),
    [("chunks", 16, 0.007), ("chunks", 256, 0.003), ("names", 16, 0.0005)],
)
def test_a_cosine_moves_by_less_than_stated(kind, dim, most):
    vectors = some(2_000, dim)
    again = decode(kind, encode(kind, vectors))
    assert np.abs(vectors[:50] @ vectors.T - vectors[:50] @ again.T).max() < most


@pytest.mark.parametrize("kind", ["chunks", "names"])
def test_what_is_read_back_is_stored_as_the_same(kind):
    once = decode(kind, encode(kind, some(200, 64)))
    again = decode(kind, encode(kind, once))
    assert np.sum(once * again, axis=1).min() > 0.98


def test_any_flipped_bit_of_a_name_is_seen():
    codes = encode("names", some(9, 16))
    assert not are_damaged(codes).any()
    for bit in range(8 * codes.shape[1]):
        codes[4, bit // 8] ^= 1 << bit % 8
        assert are_damaged(codes).tolist() == [row == 4 for row in range(9)]
        codes[4, bit // 8] ^= 1 << bit % 8


def test_zero_and_unit_axes():
    vectors = np.concatenate([np.zeros((1, 16)), np.eye(16), -np.eye(16)]).astype(np.float32)
    again = decode("chunks", encode("chunks", vectors))
    assert not again[0].any()
    assert (np.sum(vectors[1:] * again[1:], axis=1) > 0.95).all()
    assert decode("chunks", encode("chunks", vectors[:0])).shape == (0, 16)
