"""Index the sample documents and ask what plain search misses: ``python -m graphrag_core.demo``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import get_args

from graphrag_core import Document, GraphRetriever, Hit, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.retriever import Method

_WIDTH = 80
_SHOWN = 4
_QUESTION = "What language is the service that the Invoice Mailer depends on written in?"
_ANSWER = "Notification Hub"


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
        for line in str(index.stats()).splitlines():
            print(textwrap.shorten(line, _WIDTH, placeholder=" …") if len(line) > _WIDTH else line)

        _heading(_QUESTION)
        retriever = GraphRetriever(index, k=_SHOWN)
        methods = sorted(get_args(Method), key=("vector", "keyword", "graph", "hybrid").index)
        results = {method: retriever.retrieve(_QUESTION, method=method) for method in methods}
        _table({method: [hit.chunk.title for hit in result.hits] for method, result in results.items()})

        found = next((hit for hit in results["hybrid"].hits if hit.chunk.title == _ANSWER), None)
        if found is not None:
            _path(found)
        print(f"\nSelf-check: {index.verify()}.")
        print("Next: KnowledgeIndex.open('kb', WordLlama()).add(your_documents); see README.md.")


def _table(columns: dict[str, list[str]]) -> None:
    width = _WIDTH // len(columns)
    print("".join(f"  {name:<{width - 2}}" for name in columns).rstrip())
    for row in zip(*columns.values(), strict=True):
        print("".join(_cell(title, width) for title in row).rstrip())


def _cell(title: str, width: int) -> str:
    mark = "▸ " if title == _ANSWER else "  "
    return f"{mark}{textwrap.shorten(title, width - 3, placeholder='…'):<{width - 2}}"


def _path(hit: Hit) -> None:
    others = "" if {"vector", "keyword"} & hit.channels.keys() else ", which neither vector nor keyword found"
    print(f"\n▸ holds the answer{others}. The way there:\n")
    says = {"question": "", "entity": "", "fact": "says: ", "chunk": "passage: "}
    for depth, step in enumerate(hit.path[1:]):
        indent = " " * (2 + 3 * depth)
        first = f"{indent}└─ " if depth else indent
        print(
            textwrap.fill(says[step.kind] + step.text, _WIDTH, initial_indent=first, subsequent_indent=f"{indent}   ")
        )
    body = " ".join(hit.chunk.text.split("\n", 1)[-1].split())
    print(textwrap.fill(f"“{body}”", _WIDTH, initial_indent=" " * 14, subsequent_indent=" " * 14))


def _heading(text: str) -> None:
    print(f"\n{text}\n{'─' * min(len(text), _WIDTH)}")


if __name__ == "__main__":
    main()
