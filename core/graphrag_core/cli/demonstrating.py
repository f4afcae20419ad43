"""``demo``: three questions over sample documents, asked with and without the graph."""

from __future__ import annotations

import time

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from graphrag_core import GraphRetriever, Hit, KnowledgeIndex
from graphrag_core.cli.explaining import path_tree
from graphrag_core.cli.showing import body
from graphrag_core.cli.terminal import program, results
from graphrag_core.demo import QUESTIONS, DemoQuestion, sample_documents
from graphrag_core.embedders import WordLlama
from graphrag_core.retriever import Method

_METHODS: tuple[Method, ...] = ("vector", "keyword", "graph", "hybrid")
_SHOWN = 5
_WIDEST = 120


def demo() -> None:
    """See in a minute what the graph adds: sample documents, three questions, side by side."""
    console = results()
    console.width = min(console.width, _WIDEST)
    start = time.perf_counter()
    with KnowledgeIndex(WordLlama(), progress=False) as index:
        index.add(sample_documents())
        _introduce(index, time.perf_counter() - start, console)
        retriever = GraphRetriever(index)
        missed = [_ask(number, question, retriever, console) for number, question in enumerate(QUESTIONS, 1)]
    _conclude(sum(missed), console)


def _introduce(index: KnowledgeIndex, seconds: float, console: Console) -> None:
    stats = index.stats()
    console.print()
    console.print(
        Text.assemble(
            ("Harbourlight", "name"),
            f" is a made-up company: {stats.documents} short documents on its services, people, decisions and "
            f"incidents, indexed in {seconds:.1f} s without an LLM into {stats.entities} entities and "
            f"{stats.facts} facts.",
        )
    )


def _ask(number: int, question: DemoQuestion, retriever: GraphRetriever, console: Console) -> int:
    """Ask every way, show all side by side, and return how many documents vector search left out."""
    everything = len(retriever.index)
    hits = {method: retriever.retrieve(question.text, method=method, k=everything).hits for method in _METHODS}
    ranks = {hit.chunk.document_id: rank for rank, hit in enumerate(hits["vector"], 1)}
    seen = {hit.chunk.document_id for hit in hits["vector"][:_SHOWN]}
    gained = [hit for hit in hits["hybrid"][:_SHOWN] if hit.chunk.document_id in set(question.needed) - seen]
    console.print()
    side_by_side = Table.grid(expand=True, padding=(0, 1, 0, 0))
    for _ in _METHODS:
        side_by_side.add_column(ratio=1)
    new = {hit.chunk.document_id for hit in gained}
    side_by_side.add_row(*(_column(method, hits[method][:_SHOWN], question, new) for method in _METHODS))
    content: list[RenderableType] = [Text(f"Needed: {question.looking_for}.", "quiet"), Text(), side_by_side]
    for hit in gained:
        content += [Text(), *_way(hit, ranks.get(hit.chunk.document_id))]
    title = Text.assemble((f"{number}  ", "quiet"), (question.text, "question"))
    console.print(
        Panel(Group(*content), title=title, title_align="left", box=box.ROUNDED, border_style="dim", padding=(1, 2))
    )
    return len(gained)


def _column(method: str, hits: tuple[Hit, ...], question: DemoQuestion, gained: set[str]) -> RenderableType:
    found = sum(hit.chunk.document_id in question.needed for hit in hits)
    lines = [Text(method, "graph.title" if method == "hybrid" else "vector.title")]
    for rank, hit in enumerate(hits, 1):
        needed = hit.chunk.document_id in question.needed
        mark = ("✓ ", "good") if needed else ("· ", "quiet")
        emphasis = "name" if hit.chunk.document_id in gained else "" if needed else "quiet"
        line = Text.assemble((f"{rank} ", "quiet"), mark, (hit.chunk.title, emphasis))
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    all_there = found == len(question.needed)
    lines.append(Text(f"{found} of {len(question.needed)}", "good" if all_there else "partly"))
    return Group(*lines)


def _way(hit: Hit, rank: int | None) -> list[RenderableType]:
    missed = f"in place {rank} of vector search" if rank else "which vector search does not have"
    quotation = Text(f"“{body(hit)}”", "italic")
    parts: list[RenderableType] = [Text.assemble("The graph brings ", (hit.chunk.title, "name"), f", {missed}:")]
    if len(hit.path) > 2:
        tree = path_tree(hit.path[:-1], quotation)
        parts.append(Padding(tree, (0, 0, 0, 2)))
    else:
        parts.append(Padding(quotation, (0, 0, 0, 2)))
    return parts


def _conclude(gained: int, console: Console) -> None:
    console.print()
    total = len(QUESTIONS)
    if gained:
        documents = "document" if gained == 1 else "documents"
        console.print(f"The graph brought {gained} {documents} that vector search left out of its first {_SHOWN}.")
    else:
        console.print(f"On these {total} questions vector search found all that the graph found.")
    console.print()
    command = program()
    steps = Table.grid(padding=(0, 2, 0, 0))
    steps.add_column(style="quiet", no_wrap=True)
    steps.add_column(overflow="fold")
    steps.add_row("your files", Text(f"{command} index FOLDER", "bold"))
    steps.add_row("ask them", Text(f'{command} query "your question"', "bold"))
    steps.add_row("see why", Text(f'{command} explain "your question" --html answer.html', "bold"))
    steps.add_row("worth it?", Text(f"{command} compare questions.jsonl", "bold"))
    console.print(steps)
