"""The command ``ask``, which answers a question with citations."""

import sys
from contextlib import ExitStack
from typing import Annotated, Any

import typer
from rich.text import Text

from graphrag_core import Answer, AnswerStream
from graphrag_core.cli import options, render
from graphrag_core.context import for_terminal, one_line
from graphrag_core.errors import LLMError
from graphrag_core.llm import OpenAIChat
from graphrag_core.query.ask import MAX_TOKENS, Citation


@options.with_search_options
def ask(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    kb: options.Kb = options.KB,
    llm: options.LLM = None,
    where: options.Where = None,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    as_of: options.AsOf = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Token limit of the passages in the prompt.")
    ] = MAX_TOKENS,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Answer a question from the documents, with numbered citations.

    A language model writes the answer if --llm names one. Without it, the answer consists of the sentences that match
    the question best. The method is agentic, with 8 passages, unless you set them.
    """
    model = options.make_llm(llm)
    with ExitStack() as stack:
        if model is not None:
            stack.callback(model.close)
        index = stack.enter_context(options.open_index(kb))
        retriever = options.make_retriever(index, given, method="agentic", k=8)
        stream = stack.enter_context(
            retriever.ask_stream(
                question, model, max_tokens=max_tokens,
                where=options.parse_where(where), as_of=as_of, seed_entities=seed, exclude=exclude,
            )
        )  # fmt: skip
        if json:
            render.print_json({**stream.answer.to_dict(), "model": model.model if model else None})
        else:
            _print_answer(stream, model)
        answer = stream.answer
    if answer.kind == "none":
        raise typer.Exit(1)


def _print_answer(stream: AnswerStream, model: OpenAIChat | None) -> None:
    """Print an answer while it is written, then what it cites and what to know about it."""
    console = render.stdout()
    if stream.result.fallback:
        console.print(Text(stream.result.fallback, "quiet"))
    if model is None:
        render.print_indented(console, Text(stream.answer.text), 0)
    else:
        try:
            for piece in stream:
                sys.stdout.write(for_terminal(_encodable(piece)))
                sys.stdout.flush()
        except LLMError:
            if stream.text:
                sys.stdout.write(for_terminal("\n"))
            raise
        sys.stdout.write(for_terminal("\n"))
    _print_citations(stream.answer)
    for remark in _remarks(stream.answer, model):
        render.print_indented(console, Text(remark, "partial"), 0)


def _encodable(piece: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    return piece.encode(encoding, "replace").decode(encoding)


def _print_citations(answer: Answer) -> None:
    console = render.stdout()
    if answer.citations:
        console.print()
    width = max((len(str(citation.number)) for citation in answer.citations), default=1) + 3
    for citation in answer.citations:
        label = Text(f"[{citation.number}]", "quiet")
        render.print_indented(console, _source(citation), width, label=label)


def _source(citation: Citation) -> Text:
    """Return the title, section, page and document of a citation. The id is whole, so that it can be copied."""
    title = one_line(citation.title) or one_line(citation.document_id)
    section = f" › {one_line(citation.section)}" if citation.section else ""
    page = f", page {citation.page}" if citation.page is not None else ""
    own = "" if title == citation.chunk_id else f"  {one_line(citation.chunk_id)}"
    return Text.assemble((title, "title"), section, page, (own, "quiet"))


def _remarks(answer: Answer, model: OpenAIChat | None) -> list[str]:
    remarks = []
    if answer.kind == "none":
        advice = f": {answer.result.advice}" if answer.result.advice and not answer.result.hits else ""
        return [f"Searched {len(answer.result.hits):,} passages{advice}."] if not answer.result.hits else []
    if answer.kind == "extract":
        remarks.append("Extracted sentences, not written by a language model: name one with --llm.")
    elif not answer.cited:
        name = model.model if model else "the language model"
        remarks.append(f"Not supported: {name} cites no passage for this answer.")
    if answer.unknown_citations:
        numbers = ", ".join(map(str, answer.unknown_citations))
        remarks.append(f"The answer cites passages that do not exist, marked with a question mark: {numbers}.")
    return ["", *remarks] if remarks else []
