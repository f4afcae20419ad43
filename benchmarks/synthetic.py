"""Synthetic passages with a Zipf distribution of words and names."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.ports import Matrix

DIM = 384  # of random vectors
_SYLLABLES = np.array([c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "an", "en", "or", "is")])


def documents(count: int, seed: int = 0) -> Iterator[Document]:
    """Yield passages of three to four sentences that name two or three of many entities each."""
    random = np.random.default_rng(seed)
    words = _words(20_000, random)
    names = [
        f"{a.capitalize()} {b.capitalize()}"
        for a, b in zip(_words(60_000, random), _words(60_000, random), strict=True)
    ]
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        common = _zipf(len(words), size * 40, random)
        named = _zipf(len(names), size * 12, random)
        for i in range(size):
            text = " ".join(_sentence(words, names, common, named, 4 * i + turn) for turn in range(4 - i % 2))
            yield Document(f"d{start + i}", text, title=names[(start + i) % len(names)], metadata={"part": i % 10})


class ReadyVectors:
    """An embedder whose cost is negligible: the direction between two rows of one random matrix for each text."""

    identity = "ready"

    def __init__(self, dim: int = 256, rows: int = 4_096) -> None:
        vectors = np.random.default_rng(1).normal(size=(rows, dim)).astype(np.float32)
        self._rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_documents(self, texts: list[str]) -> Matrix:
        numbers, count = np.array([crc32(text.encode()) for text in texts], np.int64), len(self._rows)
        between = self._rows[numbers % count] + self._rows[numbers // count % count] / 2
        directions: Matrix = between / np.linalg.norm(between, axis=1, keepdims=True)
        return directions

    def embed_query(self, text: str) -> Matrix:
        row: Matrix = self._rows[len(text) % len(self._rows)]
        return row


class RandomVectors:
    """An embedder that returns a random vector for every text."""

    identity = "random"

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)

    def embed_documents(self, texts: list[str]) -> Matrix:
        vectors: Matrix = self._random.standard_normal((len(texts), DIM), np.float32)
        return vectors

    def embed_query(self, text: str) -> Matrix:
        vector: Matrix = self.embed_documents([text])[0]
        return vector


def questions(index: KnowledgeIndex, size: int, count: int) -> list[str]:
    """Ask about the subjects of passages and words in them, as multi-hop questions do."""
    numbers = np.random.default_rng(3).choice(size, count, replace=False).tolist()
    documents = [index.get(f"d{number}") or Document("", "") for number in numbers]
    words = [document.text.split() for document in documents]
    return [f"Which {w[3]} of {d.title} was {w[5]} to the {w[2]}?" for d, w in zip(documents, words, strict=True)]


def _words(count: int, random: np.random.Generator) -> list[str]:
    lengths = random.integers(2, 4, count)
    return ["".join(random.choice(_SYLLABLES, int(n))) for n in lengths]


def _zipf(size: int, count: int, random: np.random.Generator) -> list[int]:
    """Ranks drawn in proportion to 1 / (rank + 20): the first in about one of two hundred draws."""
    share = np.cumsum(1 / (np.arange(size) + 20.0))
    drawn: list[int] = np.searchsorted(share, random.random(count) * share[-1]).tolist()
    return drawn


def _sentence(words: list[str], names: list[str], common: list[int], named: list[int], number: int) -> str:
    """Put together 22 words: three names of two, and function words between others, as English has them."""
    w = [words[i] for i in common[10 * number : 10 * number + 9]]
    n = [names[i] for i in named[3 * number : 3 * number + 3]]
    start = f"The {w[0]} of {w[1]} {w[2]} was {w[3]} to {n[0]} and the {w[4]} {w[5]} from {n[1]} with a"
    if number % 2:
        return f"{start} {w[6]} by {n[2]}."
    return f"{start} {w[6]} {w[7]} {w[8]} in {1900 + named[3 * number] % 120}."
