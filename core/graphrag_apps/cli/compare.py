"""The command ``compare`` measures whether the graph helps on the user's questions."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from tqdm import tqdm
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, Json, Kb, Quiet
from graphrag_apps.compare import WITHOUT_GRAPH, Answered, Difference, Measure, Report, load_questions
from graphrag_apps.compare import compare as run_comparison

_MAX_SHOWN = 10
_MAX_FOUND = 5  # results of each method in a won or lost question


def compare(
    questions: Annotated[
        str,
        Argument(
            metavar="QUESTIONS",
            help="A text file with one question per line; JSON Lines, JSON or CSV with the ids of the relevant "
            'documents or quotes from them: {"question": "...", "gold": ["document id", ...]} or {"question": "...", '
            '"evidence": ["quote", ...]}.',
        ),
    ],
    kb: Kb = KB,
    k: Annotated[int, Option("--k", "-k", min=1, help="Number of documents that count.")] = 5,
    measure: Annotated[
        list[str] | None,
        Option(
            metavar="NAME@K",
            help="What to measure: recall, all, ndcg, mrr, precision or success, such as ndcg@10. Can be repeated; "
            "the first one decides which questions are won and lost.",
        ),
    ] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write a page with bars, wins and losses.")] = None,
    show: Annotated[int, Option(metavar="N", min=0, help="How many won and lost questions to print.")] = 2,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure whether the graph helps on your questions, with intervals.

    Without gold documents or evidence, only the differences between the methods are shown.
    """
    if html is not None and not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"{html.parent} is not a folder", param_hint="--html")
    measures = [Measure.parse(name) for name in measure or ()]
    asked = load_questions(questions)
    with options.open_index(kb) as index:
        bar = tqdm(asked, "querying", unit=" questions", disable=quiet or None, leave=False, dynamic_ncols=True)
        report = run_comparison(options.make_retriever(index, {}), bar, k=k, measures=measures)
    if json:
        render.print_json(report.to_dict())
    else:
        _show_report(report, show)
    if html is not None:
        report.save(html)
        render.stderr().print(Text(f"written to {html}", "quiet"))
    for gold in report.missing[:_MAX_SHOWN]:
        kind = "evidence" if any(gold in answer.question.evidence for answer in report.answered) else "document"
        render.print_error(f"{gold}: gold {kind} is not in the index")
    if report.missing:
        render.print_error(f"gold that is not in the index, left out of all measures: {len(report.missing):,}")
        raise typer.Exit(1)


def _show_report(report: Report, show: int) -> None:
    if report.judged:
        _show_measures(report)
        for heading, pairs in (("better", report.won), ("worse", report.lost)):
            if pairs[:show]:
                render.print_line((f"\n{heading} with the graph ({len(pairs):,} questions)", "quiet"))
            for answer, gain in pairs[:show]:
                _show_question(answer, gain)
    else:
        _show_differences(report)
    render.print_line()
    render.print_indented(Text(report.verdict, "bold"), 0)
    if report.decided:
        render.print_indented(Text(report.decided), 0)


def _show_measures(report: Report) -> None:
    """Print each method's measures and latencies, what the graph changes, and the same by type of question."""
    first, *others = report.measures
    rows = []
    for method in report.methods:
        mean, *means = (report.mean(method, measure) for measure in report.measures)
        interval = f"{mean.interval.low:.1%} – {mean.interval.high:.1%}"
        times = (f"{time:.1f}" for time in report.latency(method) or ())
        rows.append((method, f"{mean.value:.1%}", interval, *(f"{other.value:.1%}" for other in means), *times))
    columns = ("method", str(first), "95 % interval", *map(str, others), "p50 ms", "p95 ms")
    render.print_table(columns, rows, bold="hybrid")
    render.print_line()
    columns = (f"hybrid minus {WITHOUT_GRAPH}", "points", "95 % interval", "p", "better", "worse", "same")
    render.print_table(columns, [_gain_row(str(measure), report.difference(measure)) for measure in report.measures])
    if types := report.by_type():
        render.print_line()
        columns = (f"{first} by type", "questions", WITHOUT_GRAPH, "hybrid", "points", "95 % interval")
        render.print_table(columns, [_type_row(kind, part) for kind, part in types.items()])


def _gain_row(measure: str, difference: Difference) -> list[str | Text]:
    shown = difference.shown
    counts = (f"{count:,}" for count in (difference.better, difference.worse, difference.same))
    return [measure, Text(shown.points, shown.state), shown.interval, shown.p_value, *counts]


def _type_row(kind: str, part: Report) -> list[str | Text]:
    means = (f"{part.mean(method, part.measures[0]).value:.1%}" for method in (WITHOUT_GRAPH, "hybrid"))
    shown = part.difference().shown
    return [Text(kind), f"{len(part.judged):,}", *means, Text(shown.points, shown.state), shown.interval]


def _show_question(answer: Answered, gain: float) -> None:
    """Print a question that the graph changes, and what both methods returned."""
    label = Text(f"{100 * gain:+.0f}", "good" if gain > 0 else "bad")
    render.print_indented(Text(answer.question.text, "title"), 6, label=label)
    for method in (WITHOUT_GRAPH, "hybrid"):
        pieces = []
        for title, document_id, is_gold in answer.ranked(method)[:_MAX_FOUND]:
            name = f"{title} ({document_id})" if title and title != document_id else document_id
            pieces.append(Text(f"✓ {name}", "good") if is_gold else Text(name, "quiet"))
        line = Text(" · ").join(pieces) if pieces else Text("nothing", "quiet")
        render.print_indented(line, 22, label=Text(f"      {method}"))
    if answer.decided:
        render.print_indented(Text(answer.decided, "quiet"), 22, label=Text("      decided by"))


def _show_differences(report: Report) -> None:
    """Print which documents the graph adds, for questions without gold."""
    for answer in report.answered[:_MAX_SHOWN]:
        render.print_line((answer.question.text, "title"))
        titles = [answer.titles.get(document, document) for document in answer.brought("hybrid", WITHOUT_GRAPH)]
        note = Text(f"the graph adds {', '.join(titles)}") if titles else Text("same documents", "quiet")
        render.print_indented(note, 2)
    if len(report.answered) > _MAX_SHOWN:
        render.print_line((f"  … and {len(report.answered) - _MAX_SHOWN:,} more questions", "quiet"))
