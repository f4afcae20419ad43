"""The command ``ask``, which answers a question with citations."""

import sys
from contextlib import ExitStack
from itertools import chain
from typing import Annotated

import typer
from rich.text import Text
from typer import Argument, Option

from graphrag_apps.ask import MAX_TOKENS, Answer, AnswerStream, ask_stream
from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import LLM, Json
from graphrag_core.context.escape import for_terminal, one_line
from graphrag_core.errors import LLMError
from graphrag_core.llm import OpenAIChat


@options.expand
def ask(
    question: Annotated[str, Argument(help="The question.")],
    search: options.Search,
    llm: LLM = None,
    max_tokens: Annotated[int, Option(min=1, help="Token limit of the passages in the prompt.")] = MAX_TOKENS,
    answer_threshold: Annotated[
        float | None, Option(metavar="N", min=0, help="Lowest first score that is answered; 0 answers always.")
    ] = None,
    json: Json = False,
) -> None:
    """Answer a question from the documents, with numbered citations.

    A language model writes the answer if --llm names one. Without it, the answer consists of the sentences that match
    the question best. The method is agentic, with 8 passages, unless you set them. If the score of the first passage
    is too low for an answer, the nearest passages are listed and the exit code is 1.
    """
    model = options.make_llm(llm)
    with ExitStack() as stack:
        if model is not None:
            stack.callback(model.close)
        index = stack.enter_context(options.open_index(search.kb))
        asked = {"max_tokens": max_tokens, "answer_threshold": answer_threshold, **search.scope}
        with render.working("searching"):
            retriever = search.retriever(index, method="agentic", k=8)
            stream = stack.enter_context(ask_stream(retriever, question, model, **asked))
        with render.working(f"waiting for {model.model}" if model else "answering"):
            first = next(stream, "")
            if json:
                _ = stream.answer
        if json:
            render.print_json({**stream.answer.to_dict(), "model": model.model if model else None})
        else:
            _print_answer(stream, first, model)
        if stream.answer.kind == "none":
            raise typer.Exit(1)


def _print_answer(stream: AnswerStream, first: str, model: OpenAIChat | None) -> None:
    """Print an answer, of which the first piece was read, while it is written; then what it cites, and remarks."""
    if stream.result.fallback:
        render.print_line((stream.result.fallback, "quiet"))
    if model is None:
        render.print_indented(stream.answer.text, 0)
    else:
        try:
            for piece in chain([first], stream):
                sys.stdout.write(for_terminal(render.encodable(piece)))
                sys.stdout.flush()
        except LLMError:
            if stream.text:
                sys.stdout.write(for_terminal("\n"))
            raise
        sys.stdout.write(for_terminal("\n"))
    if stream.answer.kind != "none":  # its text names the passages
        _print_citations(stream.answer)
    for remark in _remarks(stream.answer, model):
        render.print_indented(Text(remark, "partial"), 0)


def _print_citations(answer: Answer) -> None:
    """Print the title, section, page and passage of each citation. Ids are whole, so that they can be copied."""
    if answer.citations:
        render.print_line()
    width = max((len(str(citation.number)) for citation in answer.citations), default=1) + 3
    for citation in answer.citations:
        title = one_line(citation.title) or one_line(citation.document_id)
        section = f" › {one_line(citation.section)}" if citation.section else ""
        page = f", page {citation.page}" if citation.page is not None else ""
        passage = "" if title == citation.chunk_id else f"  {one_line(citation.chunk_id)}"
        text = Text.assemble((title, "title"), section, page, (passage, "quiet"))
        render.print_indented(text, width, label=Text(f"[{citation.number}]", "quiet"))


def _remarks(answer: Answer, model: OpenAIChat | None) -> list[str]:
    if answer.kind == "none":
        advice = f": {answer.result.advice}" if answer.result.advice else ""
        return [] if answer.result.hits else [f"Searched 0 passages{advice}."]
    remarks = []
    if answer.kind == "extract":
        remarks.append("Extracted sentences, not written by a language model: name one with --llm.")
    elif not answer.cited:
        name = model.model if model else "the language model"
        remarks.append(f"Not supported: {name} cites no passage for this answer.")
    if answer.unknown_citations:
        numbers = ", ".join(map(str, answer.unknown_citations))
        remarks.append(f"The answer cites passages that do not exist, marked with a question mark: {numbers}.")
    return ["", *remarks] if remarks else []
