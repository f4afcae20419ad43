"""The commands ``query``, ``ask``, ``explain`` and ``compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from typer import Argument, Option

from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import Design, Filter, HowToSearch, Json, K, Kb, Llm, Set
from graphrag_core.context.display import Highlighter, HitText, citation, fact_words, hit_texts, uncovered_words
from graphrag_core.result import Result
from graphrag_core.retriever import GraphRetriever

if TYPE_CHECKING:
    from graphrag_apps.ask import Answer
    from graphrag_apps.compare import Measure, Report

_Question = Annotated[str, Argument(metavar="QUESTION", help="The question.")]
_SNIPPET = 240  # characters
_FACTS = 10


def query(
    question: _Question,
    k: K = None,
    method: HowToSearch = None,
    design: Design = None,
    filter: Filter = None,  # noqa: A002 - the name of the option
    set: Set = None,  # noqa: A002 - as above
    context: Annotated[int | None, Option(metavar="TOKENS", min=1, help="Print prompt text for an LLM.")] = None,
    json: Json = False,
    kb: Kb = None,
) -> None:
    """Find the passages that answer a question, each with the reason."""
    settings, scope = options.search_settings(k, method, design, set), options.parse_filter(filter)
    with options.open_index(kb) as index:
        result = GraphRetriever(index, settings).retrieve(question, where=scope)
        if json:
            from graphrag_apps.serve.operations import as_json

            more = {} if context is None else {"context": result.context(context)}
            output.as_json(as_json(result) | more)
        elif result.hits and context is not None:
            output.stdout().print(str(result.context(context)), soft_wrap=True)
        elif result.hits:
            _show(result)
    _check_hits(result, quiet=json)


def _check_hits(result: Result, *, quiet: bool = False) -> None:
    """End with an exit code of 1 if nothing was found."""
    if not result.hits:
        if not quiet:
            output.error(f"no results: {result.advice}" if result.advice else "no results")
        raise typer.Exit(1)


def explain(
    question: _Question,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write a page with the graph around the answer.")] = None,
    k: K = None,
    method: HowToSearch = None,
    design: Design = None,
    filter: Filter = None,  # noqa: A002
    set: Set = None,  # noqa: A002
    kb: Kb = None,
) -> None:
    """Show why each passage was found.

    The searches that found it, its path through the graph, and what decided the order.
    """
    settings, scope = options.search_settings(k, method, design, set), options.parse_filter(filter)
    with options.open_index(kb) as index:
        result = GraphRetriever(index, settings).retrieve(question, where=scope)
        if html is not None:
            output.write(html, result.html())
        elif result.hits:
            report, *rest = result.explain().split("\n")
            output.line((report, "bold"))
            for one in rest:
                output.wrapped(one.lstrip(), len(one) - len(one.lstrip()))
            output.line(f"  {result.trust}")
            if result.facts:
                output.line(("  Supporting facts", "bold"))
            for fact in result.facts[:_FACTS]:
                output.wrapped(fact_words(result, fact))
    _check_hits(result)


def ask(
    question: _Question,
    llm: Llm = None,
    k: K = None,
    method: HowToSearch = None,
    design: Design = None,
    filter: Filter = None,  # noqa: A002
    set: Set = None,  # noqa: A002
    json: Json = False,
    kb: Kb = None,
) -> None:
    """Answer a question with citations.

    With a language model, or else by showing the sentences that come nearest.
    """
    from graphrag_apps.ask import ask_stream

    settings, scope = options.search_settings(k, method, design, set), options.parse_filter(filter)
    model = options.make_llm(llm)
    with options.open_index(kb) as index:
        with ask_stream(GraphRetriever(index, settings), question, model, where=scope) as stream:
            written = "" if json else _written(stream, streams=model is not None)
            answer = stream.answer
        if json:
            output.as_json({**answer.to_dict(), "model": model.model if model else None})
        else:
            _show_sources(answer, written, model.model if model else "")
    if model is not None:
        model.close()
    if answer.kind == "none":
        raise typer.Exit(1)


def _written(pieces: Iterator[str], *, streams: bool) -> str:
    """Print an answer while it is written; what is there at once in lines that fit the terminal."""
    text = ""
    if not streams:
        text = "".join(pieces)
        for one in text.splitlines():
            output.wrapped(one, 0)
        return text
    try:
        for piece in pieces:
            text += piece
            output.stdout().print(piece, end="", soft_wrap=True)
    finally:
        if text:
            output.line()
    return text


def _show_sources(answer: Answer, written: str, model: str) -> None:
    """List what an answer cites, and say what is wrong with it."""
    if answer.citations and written:
        output.line()
    for one in answer.citations:
        chunk = answer.result.hits[one.number - 1].chunk
        output.line((f"[{one.number}]", "bold"), f" {citation(chunk)}  ", (chunk.id, "dim"))
    remarks = []
    if answer.kind == "llm" and not answer.cited:
        remarks.append(f"Not supported: {model} cites no passage.")
    if answer.unknown_citations:
        numbers = ", ".join(map(str, answer.unknown_citations))
        remarks.append(f"Cited passages that do not exist, marked with a question mark: {numbers}.")
    if answer.kind == "extract":
        remarks.append("Sentences of the documents: a language model, named with --llm, writes an answer from them.")
    for remark in remarks:
        output.line()
        output.wrapped(Text(remark, "dim"), 0)


def _show(result: Result) -> None:
    """Print the passages of a result."""
    for remark in (result.route, result.decided, result.fallback, uncovered_words(result), result.advice):
        if remark:
            output.wrapped(Text(remark, "dim"), 0)
    texts = Highlighter(result)
    for shown in hit_texts(result):
        chunk = shown.hit.chunk
        output.line()
        output.line((f"{shown.rank:>2}", "bold cyan"), "  ", (citation(chunk), "bold"), "  ", (chunk.id, "dim"))
        snippet = texts.snippet(shown.hit, _SNIPPET)
        output.wrapped(Text.assemble(*((text, "bold" if marked else "") for text, marked in texts.pieces(snippet))))
        for reason in _reasons(shown):
            output.wrapped(Text(reason, "dim"))


def _reasons(shown: HitText) -> Iterator[str]:
    """Yield the ranks of a passage, how the graph leads to it, and the words that only it has."""
    yield " · ".join(f"{name} #{channel.rank}" for name, channel in shown.hit.channels.items())
    first, *rest = [step.text for step in shown.path] or [""]
    if rest:
        yield f"{first} — {' → '.join(rest)}"
    if shown.link:
        yield "".join(shown.link)
    if shown.covers:
        yield shown.covers


# -- compare


def compare(
    questions: Annotated[Path, Argument(metavar="FILE", help="Questions: .txt, .jsonl, .csv or .tsv.")],
    k: Annotated[int, Option("--k", "-k", min=1, help="How many documents count.")] = 5,
    measure: Annotated[list[str] | None, Option(help="Such as recall@5, ndcg@10, mrr@5; repeatable.")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write a page with all questions.")] = None,
    design: Design = None,
    set: Set = None,  # noqa: A002
    json: Json = False,
    kb: Kb = None,
) -> None:
    """Measure on your own questions whether the graph helps."""
    from graphrag_apps import compare as comparison

    settings, asked = options.search_settings(design=design, numbers=set), comparison.load_questions(questions)
    with options.open_index(kb) as index, output.working("comparing"):
        report = comparison.compare(GraphRetriever(index, settings), asked, k=k, measures=measure or ())
    if json:
        output.as_json(report.to_dict())
    elif html is not None:
        output.write(html, report.html())
    else:
        _show_report(report)
    if report.missing:
        quotes = {quote for one in report.answered for quote in one.question.evidence}
        for item in report.missing:
            output.error(f"{item}: gold {'evidence' if item in quotes else 'document'} is not in the index")
        output.error(f"left out of all measures: {len(report.missing)}")
        raise typer.Exit(1)


def _show_report(report: Report) -> None:
    """Print the measures of each method, the differences, and the verdict."""
    measures = report.measures if report.judged else ()
    lines = [
        [method, *_means(report, [method], measures), f"{report.milliseconds(method) or 0:.1f}"]
        for method in report.methods
    ]
    output.table(["", *map(str, measures), "median ms"], lines)
    if report.judged:
        differences = [(str(measure), report.difference(measure)) for measure in measures]
        counts = [f"{one.better} / {one.worse} / {one.same}" for _, one in differences]
        columns = ["hybrid minus vector+keyword", "points", "95 % interval", "p", "better / worse / same"]
        output.line()
        output.table(
            columns, [[name, *one.cells, count] for (name, one), count in zip(differences, counts, strict=True)]
        )
    output.line()
    output.wrapped(Text(report.verdict, "bold"), 0)
    if report.judged and report.changed():
        output.line("Each type of question, and which questions the graph changes: --html FILE")


def _means(report: Report, methods: Sequence[str], measures: Sequence[Measure]) -> list[str]:
    return [f"{100 * mean(report.values(method, one)):.1f}" for method in methods for one in measures]
