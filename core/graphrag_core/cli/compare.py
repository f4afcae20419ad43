"""The command ``compare`` measures whether the graph helps on the user's questions."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text
from tqdm import tqdm

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.errors import FileError
from graphrag_core.evaluation import WITHOUT_GRAPH, Question, Report
from graphrag_core.evaluation import compare as run_comparison

_MAX_SHOWN = 10
_BAR_WIDTH = 30


def compare(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="A text file with one question per line, or JSON Lines with the ids of the relevant documents: "
            '{"question": "...", "gold": ["document id", ...]}.',
        ),
    ],
    kb: options.Kb = options.KB,
    k: options.Count = 5,
    json: options.Json = False,
    embedder: options.EmbedderName = None,
    rerank: options.RerankerName = None,
    quiet: options.Quiet = False,
) -> None:
    """Measure whether the graph helps on your questions: recall of each method, and a verdict.

    Without gold documents, only the differences between the methods are shown.
    """
    asked = read_questions(questions)
    with options.open_index(kb, embedder) as index:
        unknown = sorted({gold for question in asked for gold in question.gold if gold not in index})
        bar = tqdm(asked, "querying", unit=" questions", disable=quiet or None, leave=False, dynamic_ncols=True)
        retriever = GraphRetriever(index, cache=None, reranker=options.make_reranker(rerank))
        report = run_comparison(retriever, bar, k=k)
        if json:
            render.print_json(_report_to_dict(report))
        else:
            _show_scores(report) if report.judged else _show_differences(report, index)
            render.stdout().print()
            render.print_indented(render.stdout(), Text(report.verdict, "bold"), 0)
    for gold in unknown[:_MAX_SHOWN]:
        render.print_error(f"{gold}: gold document is not in the index")
    if unknown:
        render.print_error(f"gold documents not in the index, counted as missed: {len(unknown):,}")
        raise typer.Exit(1)


def read_questions(path: Path) -> list[Question]:
    """Read a file of questions."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from error
    questions = [_parse_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise FileError(f"{path}: contains no questions")
    return questions


def _parse_line(line: str, where: str) -> Question:
    if not line.lstrip().startswith("{"):
        return Question(line.strip())
    try:
        row: dict[str, Any] = json_.loads(line)
    except ValueError as error:
        raise FileError(f"{where}: invalid JSON ({error})") from error
    text, gold = row.get("question") or row.get("query"), row.get("gold") or row.get("documents") or []
    if not isinstance(text, str) or not text.strip() or not isinstance(gold, list):
        raise FileError(f"{where}: needs 'question' (a string) and optionally 'gold' (a list of document ids)")
    return Question(text, tuple(dict.fromkeys(map(str, gold))))


def _show_scores(report: Report) -> None:
    names = (f"recall@{report.k}", "95 % interval", f"all found@{report.k}")
    numbers = [Column(name, justify="right") for name in names]
    table = Table("method", *numbers, "", box=None, pad_edge=False, header_style="quiet")
    for method in report.methods:
        score = report.score(method)
        bar = Text("━" * round(score.recall * _BAR_WIDTH), "graph" if method in ("hybrid", "graph") else "vector")
        name = Text(method, "bold" if method == "hybrid" else "")
        low, high = score.interval
        table.add_row(name, f"{score.recall:.1%}", f"{low:.1%} – {high:.1%}", f"{score.complete:.1%}", bar)
    render.stdout().print(table)


def _show_differences(report: Report, index: KnowledgeIndex) -> None:
    console = render.stdout()
    for answer in report.answered[:_MAX_SHOWN]:
        console.print(Text(answer.question.text, "title"))
        added = {document_id: index.chunks(document_id) for document_id in answer.brought("hybrid", WITHOUT_GRAPH)}
        titles = [(chunks[0].title if chunks else "") or document_id for document_id, chunks in added.items()]
        note = Text(f"the graph adds {', '.join(titles)}") if titles else Text("same documents", "quiet")
        render.print_indented(console, note, 2)
    if len(report.answered) > _MAX_SHOWN:
        console.print(Text(f"  … and {len(report.answered) - _MAX_SHOWN:,} more questions", "quiet"))


def _report_to_dict(report: Report) -> dict[str, Any]:
    return {
        "k": report.k,
        "questions": len(report.answered),
        "judged": len(report.judged),
        "methods": {method: asdict(report.score(method)) for method in report.methods if report.judged},
        "gain": report.gain if report.judged else None,
        "gain_interval": report.gain_interval if report.judged else None,
        "better": report.better,
        "worse": report.worse,
        "p_value": report.p_value,
        "chance": report.p_value,  # the old key, for one version
        "verdict": report.verdict,
        "answers": [
            {"question": answer.question.text, "gold": answer.question.gold, "found": dict(answer.found)}
            for answer in report.answered
        ],
    }
