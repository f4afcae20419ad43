"""The command ``compare`` measures whether the graph helps on the user's questions."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text
from tqdm import tqdm

from graphrag_core import KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.evaluation import WITHOUT_GRAPH, Answered, Difference, Measure, Report, load_questions
from graphrag_core.evaluation import compare as run_comparison

_MAX_SHOWN = 10
_MAX_FOUND = 5  # results of each method in a won or lost question


def compare(
    questions: Annotated[
        str,
        typer.Argument(
            metavar="QUESTIONS",
            help="A text file with one question per line; JSON Lines, JSON or CSV with the ids of the relevant "
            'documents or quotes from them: {"question": "...", "gold": ["document id", ...]} or {"question": "...", '
            '"evidence": ["quote", ...]}; a BEIR folder; or a LlamaIndex dataset (JSON).',
            show_default=False,
        ),
    ],
    kb: options.Kb = options.KB,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of documents that count.")] = 5,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="NAME@K",
            help="What to measure: recall, all, ndcg, mrr, precision or success, such as ndcg@10. Can be repeated; "
            "the first one decides which questions are won and lost.",
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Which file of a BEIR folder's qrels to read.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots and all wins and losses.")
    ] = None,
    show: Annotated[
        int, typer.Option("--show", metavar="N", min=0, help="How many won and lost questions to print.")
    ] = 2,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure whether the graph helps on your questions, with intervals.

    Without gold documents or evidence, only the differences between the methods are shown.
    """
    if html is not None and not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"{html.parent} is no folder", param_hint="--html")
    measures = [Measure.parse(one) for one in measure or ()]
    asked = load_questions(questions, split=split)
    with options.open_index(kb) as index:
        bar = tqdm(asked, "querying", unit=" questions", disable=quiet or None, leave=False, dynamic_ncols=True)
        report = run_comparison(options.make_retriever(index, {}), bar, k=k, measures=measures)
        _show_report(report, index, show, json=json)
    if html is not None:
        report.save(html)
        render.stderr().print(Text(f"written to {html}", "quiet"))
    _report_missing(report)


def _report_missing(report: Report) -> None:
    """Print gold that is not in the index, and exit with an error if there is any."""
    for gold in report.missing[:_MAX_SHOWN]:
        kind = "evidence" if any(gold in answer.question.evidence for answer in report.answered) else "document"
        render.print_error(f"{gold}: gold {kind} is not in the index")
    if report.missing:
        render.print_error(f"gold that is not in the index, left out of all measures: {len(report.missing):,}")
        raise typer.Exit(1)


def _show_report(report: Report, index: KnowledgeIndex, show: int, *, json: bool) -> None:
    if json:
        render.print_json(report.to_dict())
        return
    console = render.stdout()
    if report.judged:
        _show_scores(report)
        console.print()
        _show_gains(report)
        if types := report.by_type():
            console.print()
            _show_types(report, types)
        _show_changed(report, show)
    else:
        _show_differences(report, index)
    console.print()
    render.print_indented(console, Text(report.verdict, "bold"), 0)
    if report.decided:
        render.print_indented(console, Text(report.decided), 0)


def _table(first: str, *names: str) -> Table:
    numbers = [Column(name, justify="right") for name in names]
    return Table(first, *numbers, box=None, pad_edge=False, header_style="quiet")


def _show_scores(report: Report) -> None:
    """Print each method's measures, the interval of the first one, and latencies."""
    first, *others = report.measures
    names = (str(first), "95 % interval", *map(str, others), "p50 ms", "p95 ms")
    table = _table("method", *names)
    for method in report.methods:
        mean = report.mean(method, first)
        latency = report.latency(method)
        table.add_row(
            Text(method, "bold" if method == "hybrid" else ""),
            Text(f"{mean.value:.1%}", "bold" if method == "hybrid" else ""),
            f"{mean.interval.low:.1%} – {mean.interval.high:.1%}",
            *(f"{report.mean(method, measure).value:.1%}" for measure in others),
            *((f"{latency.p50:.1f}", f"{latency.p95:.1f}") if latency else ("", "")),
        )
    render.stdout().print(table)


def _show_gains(report: Report) -> None:
    """Print what the graph changes, by measure."""
    table = _table(f"hybrid minus {WITHOUT_GRAPH}", "points", "95 % interval", "p", "better", "worse", "same")
    for measure in report.measures:
        found = report.difference(measure)
        p_value = "< 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
        table.add_row(str(measure), *_gain_cells(found), p_value, *_counts(found))
    render.stdout().print(table)


def _show_types(report: Report, types: dict[str, Report]) -> None:
    first = report.measures[0]
    names = ("questions", WITHOUT_GRAPH, "hybrid", "points", "95 % interval")
    table = _table(f"{first} by type", *names)
    for kind, part in types.items():
        plain, hybrid = (part.mean(method, first).value for method in (WITHOUT_GRAPH, "hybrid"))
        cells = _gain_cells(part.difference(first))
        table.add_row(Text(kind), f"{len(part.judged):,}", f"{plain:.1%}", f"{hybrid:.1%}", *cells)
    render.stdout().print(table)


def _gain_cells(found: Difference) -> tuple[Text, str]:
    low, high = (100 * value + 0.0 for value in found.interval)
    style = "" if not found.significant else "good" if found.value > 0 else "bad"
    interval = "too few" if found.too_few else f"{low:+.1f} to {high:+.1f}"
    return Text(f"{100 * found.value + 0.0:+.1f}", style), interval


def _counts(found: Difference) -> tuple[str, str, str]:
    return f"{found.better:,}", f"{found.worse:,}", f"{found.same:,}"


def _show_changed(report: Report, show: int) -> None:
    """Print the questions with the largest gains and losses, and what both methods returned."""
    changed = report.changed()
    parts = (
        ("better with the graph", [pair for pair in changed if pair[1] > 0]),
        ("worse with the graph", [pair for pair in reversed(changed) if pair[1] < 0]),
    )
    console = render.stdout()
    for heading, pairs in parts:
        for number, (answer, gain) in enumerate(pairs[:show]):
            if number == 0:
                console.print(Text(f"\n{heading} ({len(pairs):,} questions)", "quiet"))
            _show_question(answer, gain)


def _show_question(answer: Answered, gain: float) -> None:
    console = render.stdout()
    label = Text(f"{100 * gain:+.0f}", "good" if gain > 0 else "bad")
    render.print_indented(console, Text(answer.question.text, "title"), 6, label=label)
    for method in (WITHOUT_GRAPH, "hybrid"):
        judged = answer.judgement(method).found
        line = Text()
        for place, found in enumerate(answer.found[method][:_MAX_FOUND]):
            is_gold = bool(judged[place]) if place < len(judged) else False
            line.append(" · " if place else "")
            line.append(f"{'✓ ' if is_gold else ''}{_name(answer, found)}", "good" if is_gold else "quiet")
        render.print_indented(console, line or Text("nothing", "quiet"), 22, label=Text(f"      {method}"))
    if answer.decided:
        render.print_indented(console, Text(answer.decided, "quiet"), 22, label=Text("      decided by"))


def _name(answer: Answered, found: str) -> str:
    title = answer.titles.get(found, "")
    return f"{title} ({found})" if title and title != found else found


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
