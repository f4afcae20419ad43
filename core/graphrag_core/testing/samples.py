"""Embedders that need no model, documents and an extractor, for tests and trials."""

from collections.abc import Mapping, Sequence

import numpy as np

from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention
from graphrag_core.ports import Matrix
from graphrag_core.text import hash64, segment
from graphrag_core.text.words import WORD_OR_IDENTIFIER

_CHAIN = (
    ("auth", "The Auth Service delegates sign-in to the OAuth Provider.", "Auth Service", "acme", 2019),
    ("oauth", "The OAuth Provider is a thin layer in front of Keyring.", "OAuth Provider", "acme", 2021),
    ("keyring", "Keyring is a company from Tallinn.", "Keyring", "acme", 2023),
    ("lunch", "Lunch is served at noon in the old hall.", "Lunch", "acme", 2023),
    ("secret", "The OAuth Provider of Umbrella is run by Albert Wesker.", "Umbrella", "umbrella", 2023),
)
CHAIN = tuple(Document(key, text, title, {"tenant": tenant, "year": year}) for key, text, title, tenant, year in _CHAIN)
"""A chain of facts over three documents, an unrelated document, and one of another tenant."""

CHAIN_QUESTION = "Where does the vendor behind the Auth Service sit?"
"""Answered by ``keyring``, which shares no word with the question: only the graph leads there."""


class HashEmbedder:
    """Hashed bags of words: texts are similar if they share words. Not for production.

    >>> a, b, c = HashEmbedder().embed_documents(["the auth service", "auth service down", "a red fox"])
    >>> bool(a @ b > a @ c)
    True
    """

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


class FixedExtractor:
    """An extractor that returns given facts by document id, with a mention for each entity in them.

    ``subjects`` maps document ids to the name that the document is about.
    """

    identity = "fixed"

    def __init__(self, facts: Mapping[str, Sequence[Fact]], subjects: Mapping[str, str] | None = None) -> None:
        self._facts = facts
        self._subjects = subjects or {}

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [self._extract(chunk.document_id) for chunk in chunks]

    def _extract(self, document_id: str) -> Extraction:
        facts, subject = tuple(self._facts.get(document_id, ())), self._subjects.get(document_id)
        names = dict.fromkeys(name for fact in facts for name in fact.entities)
        if subject is not None:
            names[subject] = None
        return Extraction(tuple(Mention(name, subject=name == subject) for name in names), facts)
