"""A first look: sample documents of a made-up company, and questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphrag_core.model import Document

FOLDER = Path(__file__).parent / "documents"
"""The sample documents, which can be indexed like any other folder."""


@dataclass(frozen=True)
class DemoQuestion:
    """A question, what to look for, and the documents that hold it, by id."""

    text: str
    looking_for: str
    needed: tuple[str, ...]


QUESTIONS = (
    DemoQuestion(
        "What happens if we change the OAuth provider?",
        "what signs in through it, who stands behind it, what was decided about it",
        ("oauth-provider", "auth-service", "partner-portal", "adr-007", "keyring"),
    ),
    DemoQuestion(
        "Who is the boss of the man who called every port after INC-2103?",
        "the incident, and the man who called",
        ("inc-2103", "joaquim-prates"),
    ),
    DemoQuestion(
        "What is the background of the author of ADR-019?",
        "the decision, and who wrote it",
        ("adr-019", "rosa-millan"),
    ),
)


def sample_documents() -> list[Document]:
    """Return the documents that come with the package."""
    return [Document(path.stem, path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.md"))]
