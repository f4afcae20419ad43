"""How vectors are stored: two bytes per component for names, a byte for chunks.

Names are few, and compared with thresholds: float16 moves a cosine by less than 0.0005. A checksum comes before each,
as a flipped bit of float16 hardly changes the length of a vector. Vectors of chunks have a scale each. With 256
dimensions eight bits move a cosine by less than 0.003, with 16 by less than 0.007.
"""

from zlib import crc32

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Matrix

_PAGE = 4_096

Codes = npt.NDArray[np.uint8]


def encode(kind: str, vectors: Matrix) -> Codes:
    """Return the codes of vectors of chunks or names, one row for each."""
    code = _sixteen_bits if kind == "names" else _eight_bits
    pages = [code(vectors[start : start + _PAGE]) for start in range(0, len(vectors), _PAGE)]
    return (
        np.concatenate(pages)
        if pages
        else np.empty((0, 4 + (2 if kind == "names" else 1) * vectors.shape[1]), np.uint8)
    )


def decode(kind: str, codes: Codes) -> Matrix:
    """Return the vectors of codes: unit vectors, or zero."""
    if kind == "names":
        return np.ascontiguousarray(codes[:, 4:]).view("<f2").astype(np.float32)
    scale = np.ascontiguousarray(codes[:, :4]).view("<f4")
    levels = np.ascontiguousarray(codes[:, 4:]).view(np.int8).astype(np.float32)
    levels *= scale
    return levels


def are_damaged(codes: Codes) -> npt.NDArray[np.bool_]:
    """Return which codes of names do not have their checksum."""
    damaged: npt.NDArray[np.bool_] = (_checksums(codes[:, 4:]) != codes[:, :4]).any(axis=1)
    return damaged


def _sixteen_bits(vectors: Matrix) -> Codes:
    halves = np.ascontiguousarray(vectors, "<f2").view(np.uint8)
    return np.concatenate([_checksums(halves), halves], axis=1)


def _checksums(codes: Codes) -> Codes:
    found = np.array([crc32(row.tobytes()) for row in codes], "<u4")
    return found.view(np.uint8).reshape(-1, 4)


def _eight_bits(vectors: Matrix) -> Codes:
    largest = np.maximum(np.abs(vectors).max(axis=1), 1e-12)
    found = np.rint(vectors * (127 / largest)[:, None]).astype(np.int8)
    return np.concatenate([_scale(found.astype(np.float32)), found.view(np.uint8)], axis=1)


def _scale(levels: Matrix) -> Codes:
    """Return, as bytes, the factor that makes each row a unit vector; 0 for a row of zeros."""
    norm = np.linalg.norm(levels, axis=1, keepdims=True)
    return np.where(norm > 0, 1 / np.maximum(norm, 1e-12), 0).astype("<f4").view(np.uint8)
