"""The command ``demo``: three questions on sample documents, answered by every method, side by side."""

import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from graphrag_apps.cli import render
from graphrag_apps.demo import QUESTIONS, DemoQuestion, sample_documents
from graphrag_core import GraphRetriever, Hit, KnowledgeIndex
from graphrag_core.context.display import Highlighter
from graphrag_core.embedders import WordLlama

_PLAIN, _HYBRID = "vector + keyword", "hybrid"
_WAYS: dict[str, dict[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    _PLAIN: {"use_graph": False},
    _HYBRID: {},
}
_TOP = 5
_MAX_WIDTH = 120
_PAGE = "hybrid-graphrag-demo.html"


def demo() -> None:
    """Compare all methods on sample documents, and see what the graph adds."""
    console = render.stdout()
    console.width = min(console.width, _MAX_WIDTH)
    start = time.perf_counter()
    with KnowledgeIndex(WordLlama(), progress=False) as index:
        with render.working("indexing the sample documents"):
            index.add(sample_documents())
        seconds = time.perf_counter() - start
        stats = index.stats()
        introduction = (
            f" is a fictional company. Its {stats.documents} short documents on services, people, decisions and "
            f"incidents were indexed in {seconds:.1f} s, without an LLM, into {stats.entities} entities and "
            f"{stats.facts} facts."
        )
        console.print()
        render.print_indented(Text.assemble(("Harbourlight", "title"), introduction), 0)
        retriever = GraphRetriever(index)
        gained = sum(_show_question(i, question, retriever, console) for i, question in enumerate(QUESTIONS, 1))
        page = Path(tempfile.gettempdir()) / _PAGE
        page.write_text(retriever.retrieve(QUESTIONS[0].text).html(), "utf-8")
    console.print()
    if gained:
        documents = "document" if gained == 1 else "documents"
        console.print(f"The graph added {gained} {documents} to the top {_TOP} of vector and keyword search together.")
    else:
        console.print("On these questions, vector and keyword search found everything that the graph found.")
    console.print()
    console.print("Why each passage of the first question was found, as a page. Open it in a browser:")
    console.print(Text(page.as_uri(), "bold"), soft_wrap=True)
    console.print()
    steps = {
        "index your files": "index FOLDER",
        "query them": 'query "your question"',
        "see why": 'explain "your question" --html answer.html',
        "does the graph help?": "compare questions.jsonl",
    }
    command = render.program()
    render.print_rows([(label, Text(f"{command} {step}", "bold")) for label, step in steps.items()])


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
    content: list[RenderableType] = [Text(f"Needed: {question.looking_for}.", "quiet"), Text(), columns]
    for hit in gained:
        document = hit.chunk.document_id
        place = f"rank {plain.index(document) + 1} without it" if document in plain else "not found without it"
        quotation = Text.assemble("“", render.snippet(texts, hit), "”", style="italic")
        reason = render.path_tree(hit.path[1:-1], quotation) if len(hit.path) > 2 else quotation
        heading = Text.assemble("The graph adds ", (hit.chunk.title, "title"), f" ({place}):")
        content += [Text(), heading, Padding(reason, (0, 0, 0, 2))]
    title = Text.assemble((f"{number}  ", "quiet"), (question.text, "bold not dim"))
    console.print()
    console.print(Panel(Group(*content), title=title, title_align="left", border_style="dim", padding=(1, 2)))
    return len(gained)


def _column(name: str, hits: tuple[Hit, ...], question: DemoQuestion, gained: set[str]) -> RenderableType:
    lines = [Text(name, "bold magenta" if name == _HYBRID else "bold cyan")]
    for rank, hit in enumerate(hits, 1):
        needed = hit.chunk.document_id in question.needed
        mark = ("✓ ", "good") if needed else ("· ", "quiet")
        emphasis = "title" if hit.chunk.document_id in gained else "" if needed else "quiet"
        line = Text.assemble((f"{rank} ", "quiet"), mark, (hit.chunk.title, emphasis))
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    count = sum(hit.chunk.document_id in question.needed for hit in hits)
    lines.append(Text(f"{count} of {len(question.needed)}", "good" if count == len(question.needed) else "partial"))
    return Group(*lines)
