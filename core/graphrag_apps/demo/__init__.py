"""Sample documents of a fictional company, and questions about it, for the ``demo`` command and for trials.

Import from here: ``sample_documents``, ``QUESTIONS``, ``DemoQuestion`` and ``FOLDER``.
"""

from dataclasses import dataclass
from pathlib import Path

from graphrag_core.model import Document

FOLDER = Path(__file__).parent / "documents"
"""The folder of the sample documents, Markdown files."""


@dataclass(frozen=True)
class DemoQuestion:
    """A question, what to look for in the answer, and the ids of the documents that contain it."""

    text: str
    looking_for: str
    needed: tuple[str, ...]


QUESTIONS = (
    DemoQuestion(
        "What happens if we replace the vendor of the OAuth Provider?",
        "the services that use it, its vendor, and the decision about it",
        ("oauth-provider", "auth-service", "partner-portal", "adr-007", "keyring"),
    ),
    DemoQuestion(
        "Who is our contact at the owner of the maker of the sensor at Quay 7?",
        "a note that names the maker, news of its new owner, and a mail from there",
        ("quay-7-note", "supplier-news", "mail-from-edda-brekke"),
    ),
    DemoQuestion(
        "What does the Tide Feed serve when a national service is silent?",
        "one passage, which plain search finds: the graph adds nothing",
        ("tide-feed",),
    ),
)


def sample_documents() -> list[Document]:
    """Return the sample documents; the file name without extension is the id."""
    return [Document(path.stem, path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.md"))]
