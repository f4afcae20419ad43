"""How vectors are stored: two bytes per component for names, a byte for chunks.

Names are few, and compared with thresholds: float16 moves a cosine by less than 0.0005. A checksum comes before each,
as a flipped bit of float16 hardly changes the length of a vector. Vectors of chunks have a scale each. With 256
dimensions eight bits move a cosine by less than 0.003, with 16 by less than 0.007.
"""

from zlib import crc32

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Matrix

Codes = npt.NDArray[np.uint8]


def encode(kind: str, vectors: Matrix) -> Codes:
    """Return the codes of vectors of chunks or names, one row for each."""
    if kind == "names":
        halves = np.ascontiguousarray(vectors, "<f2").view(np.uint8)
        return np.concatenate([_checksums(halves), halves], axis=1)
    largest = np.maximum(np.abs(vectors).max(axis=1), 1e-12)
    levels = np.rint(vectors * (127 / largest)[:, None]).astype(np.int8)
    norm = np.linalg.norm(levels.astype(np.float32), axis=1, keepdims=True)
    scale = np.where(norm > 0, 1 / np.maximum(norm, 1e-12), 0).astype("<f4")  # makes a unit vector, or zero
    return np.concatenate([scale.view(np.uint8), levels.view(np.uint8)], axis=1)


def decode(kind: str, codes: Codes) -> Matrix:
    """Return the vectors of codes: unit vectors, or zero."""
    if kind == "names":
        return np.ascontiguousarray(codes[:, 4:]).view("<f2").astype(np.float32)
    levels = np.ascontiguousarray(codes[:, 4:]).view(np.int8).astype(np.float32)
    levels *= np.ascontiguousarray(codes[:, :4]).view("<f4")
    return levels


def are_damaged(codes: Codes) -> npt.NDArray[np.bool_]:
    """Return which codes of names do not have their checksum."""
    damaged: npt.NDArray[np.bool_] = (_checksums(codes[:, 4:]) != codes[:, :4]).any(axis=1)
    return damaged


def _checksums(codes: Codes) -> Codes:
    found = np.array([crc32(row.tobytes()) for row in codes], "<u4")
    return found.view(np.uint8).reshape(-1, 4)
