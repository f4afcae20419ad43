"""The commands ``query``, ``ask``, ``explain`` and ``compare``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer import Argument, Option

from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import Design, Filter, HowToSearch, Json, K, Kb, Llm, Set
from graphrag_core.context.display import Highlighter, HitText, citation, fact_words, hit_texts, uncovered_words
from graphrag_core.errors import GraphRAGError
from graphrag_core.result import Result
from graphrag_core.retriever import GraphRetriever

if TYPE_CHECKING:
    from graphrag_apps.ask import Answer
    from graphrag_apps.compare import Report

_Question = Annotated[str, Argument(metavar="QUESTION", help="The question.")]
_SNIPPET = 240  # characters
_FACTS = 10


def query(
    question: Annotated[str | None, Argument(help="The question; without one, each line of input is one.")] = None,
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
        retriever = GraphRetriever(index, settings)

        def answer(asked: str) -> bool:
            result = retriever.retrieve(asked, where=scope)
            if json:
                from graphrag_apps.serve.operations import as_json

                more = {} if context is None else {"context": result.context(context)}
                output.as_json(as_json(result) | more)
            elif not result.hits:
                output.error(_nothing(result))
            elif context is not None:
                output.stdout().print(str(result.context(context)), soft_wrap=True)
            else:
                _show(result)
            return bool(result.hits)

        if question is not None:
            if not answer(question):
                raise typer.Exit(1)
            return
        for asked in _lines(len(index)):
            try:
                answer(asked)
            except GraphRAGError as error:
                output.error(str(error))


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
        if not result.hits:
            output.error(_nothing(result))
            raise typer.Exit(1)


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
    if not streams:
        text = "".join(pieces)
        for one in text.splitlines():
            output.wrapped(one, 0)
        return text
    console, text = output.stdout(), ""
    try:
        for piece in pieces:
            text += piece
            console.print(piece, end="", soft_wrap=True)
    finally:
        if text:
            console.print()
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


def _nothing(result: Result) -> str:
    return f"no results: {result.advice}" if result.advice else "no results"


def _lines(documents: int) -> Iterator[str]:
    """Yield the questions of the input, a line each, until it ends or says exit."""
    if sys.stdin.isatty():
        output.error(f"{documents:,} documents; an empty line or exit ends", mark="")
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return
        if line.strip() in ("exit", "quit") or (sys.stdin.isatty() and not line.strip()):
            return
        if line.strip():
            yield line


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
        report.save(html)
        output.line(f"{html} written")
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
    names = [str(measure) for measure in report.measures] if report.judged else []
    lines = []
    for method in report.methods:
        means = [f"{100 * report.mean(method, name).value:.1f}" for name in names]
        lines.append([method, *means, f"{report.milliseconds(method) or 0:.1f}"])
    output.table(["", *names, "median ms"], lines)
    if report.judged:
        output.line()
        _show_differences(report)
    output.line()
    output.wrapped(Text(report.verdict, "bold"), 0)
    if report.decided:
        output.wrapped(report.decided, 0)
    if report.is_paired and report.changed():
        output.line("Which questions the graph changes, and how: --html FILE")


def _show_differences(report: Report) -> None:
    from graphrag_apps.compare import WITHOUT_GRAPH

    lines = []
    for measure in report.measures:
        difference = report.difference(measure)
        counts = f"{difference.better} / {difference.worse} / {difference.same}"
        lines.append([str(measure), *difference.cells, counts])
    columns = [f"hybrid minus {WITHOUT_GRAPH}", "points", "95 % interval", "p", "better / worse / same"]
    output.table(columns, lines)
    if types := report.by_type():
        first = report.measures[0]
        output.line()
        rows: list[Sequence[Any]] = [
            [kind, str(len(part.judged)), *(f"{100 * part.mean(method, first).value:.1f}" for method in part.methods)]
            for kind, part in types.items()
        ]
        output.table([f"{first} by type", "questions", *report.methods], rows)
