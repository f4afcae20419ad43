"""``compare``: whether the graph helps on the questions one has."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.cli.opening import reading
from graphrag_core.cli.options import Count, EmbedderName, Json, Kb, Quiet
from graphrag_core.cli.serialising import print_json
from graphrag_core.cli.terminal import complain, is_watched, messages, print_indented, results
from graphrag_core.errors import FileError
from graphrag_core.evaluation import WITHOUT_GRAPH, Question, Report
from graphrag_core.evaluation import compare as run

_KB = Path("kb")
_SHOWN = 10


def compare(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help='A text with a question a line, or JSON Lines: {"question": "...", "gold": ["document id", ...]}.',
        ),
    ],
    kb: Kb = _KB,
    k: Count = 5,
    json: Json = False,
    embedder: EmbedderName = None,
    quiet: Quiet = False,
) -> None:
    """Tell whether the graph helps on your questions: recall of each method, and a verdict.

    Without gold documents only the differences can be shown.
    """
    asked = read_questions(questions)
    with reading(kb, embedder) as index:
        unknown = sorted({gold for question in asked for gold in question.gold if gold not in index})
        console = messages()
        listed = track(asked, "asking", console=console, transient=True, disable=quiet or not is_watched())
        report = run(GraphRetriever(index, cache=None), listed, k=k)
        titles = _titles(index, report)
    if json:
        print_json(_to_dict(report))
    else:
        _show(report, titles, results())
    for gold in unknown[:_SHOWN]:
        complain(f"{gold}: a gold document that the index does not have")
    if unknown:
        complain(f"{len(unknown)} gold documents are not in the index and count as missed")
        raise typer.Exit(1)


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from error
    questions = [_question(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise FileError(f"{path}: has no questions")
    return questions


def _question(line: str, where: str) -> Question:
    if not line.lstrip().startswith("{"):
        return Question(line.strip())
    try:
        row: dict[str, Any] = json_.loads(line)
    except ValueError as error:
        raise FileError(f"{where}: is no JSON ({error})") from error
    text, gold = row.get("question") or row.get("query"), row.get("gold") or row.get("documents") or []
    if not isinstance(text, str) or not text.strip() or not isinstance(gold, list):
        raise FileError(f"{where}: needs a 'question', and its 'gold' documents as a list of ids if they are known")
    return Question(text, tuple(dict.fromkeys(map(str, gold))))


def _titles(index: KnowledgeIndex, report: Report) -> dict[str, str]:
    wanted = {gone for answer in report.answered[:_SHOWN] for gone in answer.brought("hybrid", WITHOUT_GRAPH)}
    chunks = {document_id: index.chunks(document_id) for document_id in wanted}
    return {document_id: found[0].title if found else "" for document_id, found in chunks.items()}


def _show(report: Report, titles: dict[str, str], console: Console) -> None:
    if report.judged:
        table = Table(box=None, pad_edge=False, header_style="quiet")
        table.add_column("method")
        table.add_column(f"recall@{report.k}", justify="right")
        table.add_column(f"all found@{report.k}", justify="right")
        table.add_column("")
        for method in report.methods:
            score = report.score(method)
            style = "bold" if method == "hybrid" else ""
            bar = Text("━" * round(score.recall * 30), "graph" if method in ("hybrid", "graph") else "vector")
            table.add_row(Text(method, style), f"{score.recall:.1%}", f"{score.complete:.1%}", bar)
        console.print(table)
    else:
        for answer in report.answered[:_SHOWN]:
            console.print(Text(answer.question.text, "question"))
            new = answer.brought("hybrid", WITHOUT_GRAPH)
            brought = ", ".join(titles.get(document_id) or document_id for document_id in new)
            print_indented(
                console, Text(f"the graph brings {brought}" if new else "the same documents", "" if new else "quiet"), 2
            )
        if len(report.answered) > _SHOWN:
            console.print(Text(f"  … and {len(report.answered) - _SHOWN:,} more questions", "quiet"))
    console.print(Text(f"\n{report.verdict}", "bold"))


def _to_dict(report: Report) -> dict[str, Any]:
    scores = {m: report.score(m) for m in report.methods} if report.judged else {}
    return {
        "k": report.k,
        "questions": len(report.answered),
        "judged": len(report.judged),
        "methods": {m: {"recall": s.recall, "complete": s.complete} for m, s in scores.items()},
        "better": report.better,
        "worse": report.worse,
        "chance": report.chance,
        "verdict": report.verdict,
        "answers": [
            {"question": answer.question.text, "gold": answer.question.gold, "found": dict(answer.found)}
            for answer in report.answered
        ],
    }
