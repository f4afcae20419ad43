"""The command ``demo``: sample questions by vectors, keywords, both, and with the graph."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from graphrag_apps.cli import options, output
from graphrag_apps.demo import QUESTIONS, DemoQuestion, sample_documents
from graphrag_core.context.display import Highlighter
from graphrag_core.index import KnowledgeIndex
from graphrag_core.result import Hit, Step
from graphrag_core.retriever import GraphRetriever

_PLAIN, _HYBRID = "vector + keyword", "hybrid"
_WAYS: Mapping[str, Mapping[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    _PLAIN: {"use_graph": False},
    _HYBRID: {},
}
_TOP = 5
_MAX_WIDTH = 120
_SNIPPET = 240  # characters
_PAGE = "hybrid-graphrag-demo.html"


def demo() -> None:
    """Compare all methods on sample documents."""
    console = output.stdout()
    console.width = min(console.width, _MAX_WIDTH)
    start = time.perf_counter()
    with KnowledgeIndex(options.make_embedder("wordllama"), progress=False) as index:
        with output.working("indexing the sample documents"):
            index.add(sample_documents())
        stats = index.stats()
        introduction = (
            f" is a fictional company. Its {stats.documents} short documents on services, people, decisions and "
            f"incidents were indexed in {time.perf_counter() - start:.1f} s, without an LLM, into {stats.entities} "
            f"entities and {stats.facts} facts."
        )
        console.print()
        console.print(Text.assemble(("Harbourlight", "bold"), introduction))
        retriever = GraphRetriever(index)
        gained = sum(_show_question(at, question, retriever, console) for at, question in enumerate(QUESTIONS, 1))
        page = Path(tempfile.gettempdir()) / _PAGE
        page.write_text(retriever.retrieve(QUESTIONS[0].text).html(), "utf-8")
    console.print()
    if gained:
        documents = "document" if gained == 1 else "documents"
        console.print(f"The graph added {gained} {documents} to the top {_TOP} of vector and keyword search together.")
    else:
        console.print("On these questions, vector and keyword search found everything that the graph found.")
    console.print("\nWhy each passage of the first question was found, as a page. Open it in a browser:")
    console.print(Text(page.as_uri(), "bold"), soft_wrap=True)
    console.print()
    steps = {
        "index your files": "index FOLDER",
        "query them": 'query "your question"',
        "see why": 'explain "your question" --html answer.html',
        "does the graph help?": "compare questions.jsonl",
    }
    output.rows([(label, f"hybrid-graphrag {step}") for label, step in steps.items()])


def _show_question(number: int, question: DemoQuestion, retriever: GraphRetriever, console: Console) -> int:
    """Show the answers of all methods; return how many needed documents the graph adds to vector and keyword search."""
    count = len(retriever.index)
    results = {name: retriever.retrieve(question.text, k=count, **way) for name, way in _WAYS.items()}
    texts = Highlighter(results[_HYBRID])
    plain = [hit.chunk.document_id for hit in results[_PLAIN].hits]
    missed = set(question.needed) - set(plain[:_TOP])
    gained = [hit for hit in results[_HYBRID].hits[:_TOP] if hit.chunk.document_id in missed]
    new = {hit.chunk.document_id for hit in gained}
    columns = Table.grid(*(Column(ratio=1) for _ in _WAYS), expand=True, padding=(0, 1, 0, 0))
    columns.add_row(*(_column(name, result.hits[:_TOP], question, new) for name, result in results.items()))
    content: list[RenderableType] = [Text(f"Needed: {question.looking_for}.", "dim"), Text(), columns]
    for hit in gained:
        document = hit.chunk.document_id
        place = f"rank {plain.index(document) + 1} without it" if document in plain else "not found without it"
        pieces = ((text, "bold" if marked else "") for text, marked in texts.pieces(texts.snippet(hit, _SNIPPET)))
        quotation = Text.assemble("“", *pieces, "”", style="italic")
        heading = Text.assemble("The graph adds ", (hit.chunk.title, "bold"), f" ({place}):")
        content += [Text(), heading, Padding(_tree(hit.path[1:-1], quotation), (0, 0, 0, 2))]
    title = Text.assemble((f"{number}  ", "dim"), (question.text, "bold not dim"))
    console.print()
    console.print(Panel(Group(*content), title=title, title_align="left", border_style="dim", padding=(1, 2)))
    return len(gained)


def _tree(steps: tuple[Step, ...], leaf: RenderableType) -> RenderableType:
    """Return steps as a tree, each below the previous one, with a leaf below the last."""
    kinds = {"entity": "", "chunk": "passage: "}
    words = [Text.assemble((kinds.get(step.kind, f"{step.kind}: "), "dim"), step.text) for step in steps]
    tree = leaf
    for text in reversed(words):
        branch = Tree(text, guide_style="dim")
        branch.add(tree)
        tree = branch
    return tree


def _column(name: str, hits: tuple[Hit, ...], question: DemoQuestion, gained: set[str]) -> RenderableType:
    lines = [Text(name, "bold magenta" if name == _HYBRID else "bold cyan")]
    for rank, hit in enumerate(hits, 1):
        needed = hit.chunk.document_id in question.needed
        mark = ("✓ ", "green") if needed else ("· ", "dim")
        emphasis = "bold" if hit.chunk.document_id in gained else "" if needed else "dim"
        line = Text.assemble((f"{rank} ", "dim"), mark, (hit.chunk.title, emphasis))
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    count = sum(hit.chunk.document_id in question.needed for hit in hits)
    lines.append(Text(f"{count} of {len(question.needed)}", "green" if count == len(question.needed) else "yellow"))
    return Group(*lines)
