"""Index the sample documents and ask them two questions: ``python -m graphrag_core.demo``."""

from __future__ import annotations

import textwrap
from pathlib import Path

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.query.search import Ranked, keyword_search, vector_search

_WIDTH = 88


def sample_documents() -> list[Document]:
    """Return the documents that come with the package."""
    folder = Path(__file__).parent / "documents"
    return [Document(path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.md"))]


def main() -> None:
    """Run the demonstration."""
    documents = sample_documents()
    with KnowledgeIndex(WordLlama()) as index:
        index.add(documents)
        _heading(f"{len(documents)} documents of a made-up company, indexed without an LLM")
        print(index.stats())

        _heading("What the graph knows of the Auth Service")
        entity = index.entity("auth service")
        if entity is not None:
            print(f"{entity.name} is mentioned in {entity.mentions} passages, most often together with")
            for other, weight in index.related(entity.name)[:6]:
                print(f"  {weight:4.1f}  {other.name}")

        _ask("By keyword", "storm warning", keyword_search(index, "storm warning", 3))
        question = "Why did people have to work without computers?"
        _ask("By vector", question, vector_search(index, question, 3))
        print(f"\nRecords, vectors, keywords and graph checked against each other: {index.verify()}.")


def _ask(how: str, question: str, hits: Ranked) -> None:
    _heading(f"{how}: {question}")
    for chunk, score in hits:
        print(f"{score:6.2f}  {chunk.title}")
        body = " ".join(chunk.text.split("\n", 1)[-1].split())
        print(textwrap.indent(textwrap.fill(textwrap.shorten(body, 160, placeholder=" …"), _WIDTH - 8), " " * 8))


def _heading(text: str) -> None:
    print(f"\n{text}\n{'─' * min(len(text), _WIDTH)}")


if __name__ == "__main__":
    main()
