"""Documents and extractions that several test suites use."""

from collections.abc import Mapping, Sequence

from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention

CHAIN = (
    Document(
        "auth",
        "The Auth Service delegates sign-in to the OAuth Provider.",
        "Auth Service",
        {"tenant": "acme", "year": 2019},
    ),
    Document(
        "oauth",
        "The OAuth Provider is a thin layer in front of Keyring.",
        "OAuth Provider",
        {"tenant": "acme", "year": 2021},
    ),
    Document("keyring", "Keyring is a company from Tallinn.", "Keyring", {"tenant": "acme", "year": 2023}),
    Document("lunch", "Lunch is served at noon in the old hall.", "Lunch", {"tenant": "acme", "year": 2023}),
    Document(
        "secret",
        "The OAuth Provider of Umbrella is run by Albert Wesker.",
        "Umbrella",
        {"tenant": "umbrella", "year": 2023},
    ),
)
"""A chain of facts over three documents, an unrelated document, and one of another tenant."""

CHAIN_QUESTION = "Where does the vendor behind the Auth Service sit?"
"""Answered by ``keyring``, which shares no word with the question: only the graph leads there."""


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
        facts = tuple(self._facts.get(document_id, ()))
        names = dict.fromkeys(name for fact in facts for name in fact.entities)
        subject = self._subjects.get(document_id)
        mentions = [Mention(name, subject=name == subject) for name in names]
        if subject is not None and subject not in names:
            mentions.append(Mention(subject, subject=True))
        return Extraction(tuple(mentions), facts)
