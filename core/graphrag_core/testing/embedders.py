"""A deterministic embedder that needs no model, and the compliance suite of embedders."""

import numpy as np

from graphrag_core.ports import Embedder, Matrix
from graphrag_core.text import hash64, segment
from graphrag_core.text.words import WORD_OR_IDENTIFIER


class HashEmbedder:
    """Hashed bags of words: texts are similar if they share words. Not for production.

    >>> a, b, c = HashEmbedder().embed_documents(["the auth service", "auth service down", "a red fox"])
    >>> bool(a @ b > a @ c)
    True
    """

    embedded = True

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.identity = f"hash-{dim} (not for production)"

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per row; the zero vector for a text without words."""
        rows = [HashEmbedder.embed_query(self, text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        vector = np.zeros(self.dim, np.float32)
        for word in WORD_OR_IDENTIFIER.findall(segment(text).casefold()):
            number = hash64(word)
            vector[number % self.dim] += 1.0 if number & (1 << 40) else -1.0
        return vector / np.float32(max(float(np.linalg.norm(vector)), 1e-12))


class CountingEmbedder(HashEmbedder):
    """A :class:`HashEmbedder` that records the texts and queries it embeds."""

    def __init__(self, dim: int = 64) -> None:
        super().__init__(dim)
        self.texts: list[str] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one vector for each text."""
        self.texts.extend(texts)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a question."""
        self.queries.append(text)
        return super().embed_query(text)


class EmbedderSuite:
    """What every embedder must fulfil."""

    texts = ("The Auth Service issues tokens.", "A red fox.", "東京は日本の首都です。", "x" * 5_000)

    def make(self) -> Embedder:
        """Return the embedder under test."""
        raise NotImplementedError

    def test_returns_one_finite_vector_for_each_text(self) -> None:
        """As many rows as texts, all of one dimension."""
        vectors = np.array(self.make().embed_documents(list(self.texts)), np.float64)
        assert vectors.ndim == 2
        assert len(vectors) == len(self.texts)
        assert np.isfinite(vectors).all()

    def test_a_query_has_the_dimension_of_the_documents(self) -> None:
        """Questions and texts can be compared."""
        embedder = self.make()
        assert len(embedder.embed_query("who?")) == len(embedder.embed_documents(["a text"])[0])

    def test_a_vector_does_not_depend_on_its_batch(self) -> None:
        """The same vector alone, among others and in any order."""
        embedder = self.make()
        together = np.array(embedder.embed_documents(list(self.texts)))
        backwards = np.array(embedder.embed_documents(list(reversed(self.texts))))[::-1]
        alone = np.array([embedder.embed_documents([text])[0] for text in self.texts])
        assert np.array_equal(together, backwards)
        assert np.array_equal(together, alone)

    def test_is_deterministic(self) -> None:
        """The same vector from a second object."""
        one, two = self.make().embed_documents(["again"]), self.make().embed_documents(["again"])
        assert np.array_equal(np.array(one), np.array(two))
