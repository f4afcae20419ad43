"""A deterministic embedder that needs no model, and what every embedder must fulfil."""

from __future__ import annotations

import re

import numpy as np

from graphrag_core.ports import Embedder, Matrix
from graphrag_core.text import hash64, segment

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Bags of hashed words: texts are near when they share words. Not for production.

    >>> a, b, c = HashEmbedder().embed_documents(["the auth service", "auth service down", "a red fox"])
    >>> bool(a @ b > a @ c)
    True
    """

    embedded = True

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.identity = f"hash-{dim} (not for production)"

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector a row; the zero vector for a text without words."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        vector = np.zeros(self.dim, np.float32)
        for word in _WORD.findall(segment(text).casefold()):
            number = hash64(word)
            vector[number % self.dim] += 1.0 if number & (1 << 40) else -1.0
        return vector / np.float32(max(float(np.linalg.norm(vector)), 1e-12))


class EmbedderSuite:
    """What an embedder must fulfil."""

    def make(self) -> Embedder:
        """Return the embedder under test."""
        raise NotImplementedError

    texts = ("The Auth Service issues tokens.", "A red fox.", "東京は日本の首都です。", "x" * 5_000)

    def test_gives_one_vector_of_one_dimension_for_each_text(self) -> None:
        """As many rows as texts, finite numbers."""
        vectors = np.array(self.make().embed_documents(list(self.texts)), np.float64)
        assert vectors.ndim == 2
        assert len(vectors) == len(self.texts)
        assert np.isfinite(vectors).all()

    def test_a_query_has_the_dimension_of_the_documents(self) -> None:
        """Questions and texts can be compared."""
        embedder = self.make()
        assert len(embedder.embed_query("who?")) == len(embedder.embed_documents(["a text"])[0])

    def test_a_vector_does_not_depend_on_its_batch(self) -> None:
        """Alone or among others, in any order: the same vector."""
        embedder = self.make()
        together = np.array(embedder.embed_documents(list(self.texts)))
        backwards = np.array(embedder.embed_documents(list(reversed(self.texts))))[::-1]
        alone = np.array([embedder.embed_documents([text])[0] for text in self.texts])
        assert np.array_equal(together, backwards)
        assert np.array_equal(together, alone)

    def test_the_same_text_has_the_same_vector_again(self) -> None:
        """Deterministic, from one object to the next."""
        one, two = self.make().embed_documents(["again"]), self.make().embed_documents(["again"])
        assert np.array_equal(np.array(one), np.array(two))
