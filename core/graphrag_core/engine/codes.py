"""How vectors are stored: two bytes per component for names, a byte for chunks, half a byte for facts.

Names are few, and compared with thresholds: float16 moves a cosine by less than 0.0005. Vectors of chunks and facts
have a scale each. With 256 dimensions eight bits move a cosine by less than 0.003, with 16 by less than 0.007. Facts
are many and short, so theirs have four bits, which move it by less than 0.04. On MuSiQue, 2WikiMultihopQA and HotpotQA
recall moves by at most 0.5 points in either direction with four bits, and by nothing with eight.
"""

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Matrix

# The 16 levels with the least squared error for normally distributed values (J. Max, 1960), in standard deviations.
_UPPER = (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326)
_LEVELS = np.array([*(-level for level in reversed(_UPPER)), *_UPPER], np.float32)
_BOUNDS = (_LEVELS[1:] + _LEVELS[:-1]) / 2
_RANGE, _STEPS = 3, 64  # of the table of nearest levels: standard deviations, and entries for each
_NEAREST = np.searchsorted(_BOUNDS, np.arange(-_RANGE * _STEPS, _RANGE * _STEPS + 1) / _STEPS).astype(np.uint8)
# The two levels of each byte, read as one number: looking up one is twice as fast as two.
_PAIRS = np.stack([_LEVELS[np.arange(256) & 15], _LEVELS[np.arange(256) >> 4]], axis=1).view(np.uint64).ravel()
_PAGE = 4_096

Codes = npt.NDArray[np.uint8]


def code_size(kind: str, dim: int) -> int:
    """Return the bytes of a vector."""
    return 2 * dim if kind == "names" else 4 + ((dim + 1) // 2 if kind == "facts" else dim)


def encode(kind: str, vectors: Matrix) -> Codes:
    """Return the codes of vectors of chunks, facts or names, one row for each."""
    if kind == "names":
        return np.ascontiguousarray(vectors, "<f2").view(np.uint8)
    code = _four_bits if kind == "facts" else _eight_bits
    pages = [code(vectors[start : start + _PAGE]) for start in range(0, len(vectors), _PAGE)]
    return np.concatenate(pages) if pages else np.empty((0, code_size(kind, vectors.shape[1])), np.uint8)


def decode(kind: str, codes: Codes, dim: int) -> Matrix:
    """Return the vectors of codes: unit vectors, or zero."""
    if kind == "names":
        return np.ascontiguousarray(codes).view("<f2").astype(np.float32)
    scale = np.ascontiguousarray(codes[:, :4]).view("<f4")
    if kind == "facts":
        levels = _PAIRS.take(codes[:, 4:]).view(np.float32)[:, :dim]
    else:
        levels = np.ascontiguousarray(codes[:, 4:]).view(np.int8).astype(np.float32)
    levels *= scale
    return levels


def _eight_bits(vectors: Matrix) -> Codes:
    largest = np.maximum(np.abs(vectors).max(axis=1), 1e-12)
    found = np.rint(vectors * (127 / largest)[:, None]).astype(np.int8)
    return np.concatenate([_scale(found.astype(np.float32)), found.view(np.uint8)], axis=1)


def _four_bits(vectors: Matrix) -> Codes:
    count, dim = vectors.shape
    deviation = np.sqrt(np.einsum("ij,ij->i", vectors, vectors) / dim)
    extreme = np.abs(vectors).max(axis=1) / _UPPER[-1]
    scale = np.maximum(np.maximum(deviation, 0.6 * extreme), 1e-12)  # vectors with outliers need larger steps
    found = np.zeros((count, dim + dim % 2), np.uint8)
    found[:, :dim] = _NEAREST[
        (vectors * (_STEPS / scale)[:, None] + (_RANGE * _STEPS + 0.5)).clip(0, len(_NEAREST) - 1).astype(np.int32)
    ]
    scale_of_codes = _scale(_LEVELS[found[:, :dim]])
    scale_of_codes[deviation == 0] = 0
    return np.concatenate([scale_of_codes, found[:, 0::2] | found[:, 1::2] << 4], axis=1)


def _scale(levels: Matrix) -> Codes:
    """Return, as bytes, the factor that makes each row a unit vector; 0 for a row of zeros."""
    norm = np.linalg.norm(levels, axis=1, keepdims=True)
    return np.where(norm > 0, 1 / np.maximum(norm, 1e-12), 0).astype("<f4").view(np.uint8)
