"""The commands ``query``, for one question or an interactive prompt, and ``explain``."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import Json
from graphrag_core import Result
from graphrag_core.context.escape import for_terminal
from graphrag_core.context.settings import Style
from graphrag_core.errors import GraphRAGError
from graphrag_core.query.settings import Method

_PROMPT = "\n? "
_HELP = "a question, :method NAME, :k NUMBER, or exit"
_METHODS = get_args(Method)


@options.expand
def query(
    question: Annotated[str | None, Argument(help="Without one, questions are read from a prompt or stdin.")] = None,
    *,
    search: options.StrategySearch,
    context: Annotated[Style | None, Option("--context", "-c", help="Print a context for an LLM, not hits.")] = None,
    max_tokens: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Print a context of at most N tokens. Default: 500, or the design's."),
    ] = None,
    json: Json = False,
) -> None:
    """Search for passages that answer a question. [retriever] in hybrid-graphrag.toml has more settings."""
    with options.open_index(search.kb) as index:
        retriever = search.retriever(index)
        form: dict[str, Any] = {"context.style": context, "context.max_tokens": max_tokens}

        def answer(question: str, **changes: Any) -> None:
            with render.working("searching"):
                result = retriever.retrieve(question, **search.scope, **form, **changes)
            extra = {"context": result.context()} if context or max_tokens else {}
            if json:
                render.print_json({**render.result_to_dict(result), **extra})
            elif extra:
                render.print_line(extra["context"])
            else:
                render.show_result(result)
            _check_hits(result)

        if question is None:
            _prompt_loop(answer, len(index), blank_lines=not json)
        else:
            answer(question)


@options.expand
def explain(
    question: Annotated[str, Argument(help="The question.")],
    search: options.StrategySearch,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an interactive page that works offline.")] = None,
) -> None:
    """Show why passages are found: entities, scores by channel, paths through the graph, and facts."""
    with options.open_index(search.kb) as index:
        with render.working("searching"):
            result = search.retriever(index).retrieve(question, **search.scope)
        if html is None:
            render.show_explanation(result)
        else:
            render.write_page(html, result.html())
        _check_hits(result)


def _check_hits(result: Result) -> None:
    if not result.hits:
        raise GraphRAGError(f"no results: {result.advice}")


# -- the interactive prompt


def _prompt_loop(answer: Callable[..., None], documents: int, *, blank_lines: bool) -> None:
    """Answer one question per line until ``exit`` or the end of input."""
    if sys.stdin.isatty():
        render.stderr().print(f"{documents:,} documents. Type {_HELP} (Ctrl-D).")
        with suppress(ImportError):
            import readline  # noqa: F401 - input() can edit lines then
    settings: dict[str, Any] = {}
    separator = ""
    while (line := _read_line()) not in (None, "exit", "quit", ":q"):
        if line.startswith(":"):
            _change_setting(line, settings)
        elif line:
            sys.stdout.write(for_terminal(separator))
            separator = "\n" if blank_lines else ""
            try:
                answer(line, **settings)
            except GraphRAGError as error:
                render.print_error(str(error))


def _read_line() -> str | None:
    is_terminal = sys.stdin.isatty()
    try:
        if is_terminal and not sys.stdout.isatty():  # input() would write the prompt into the redirected output
            render.stderr().print(_PROMPT, end="")
        return input(_PROMPT if is_terminal and sys.stdout.isatty() else "").strip()
    except EOFError:
        if is_terminal:
            render.stderr().print()
        return None


def _change_setting(line: str, settings: dict[str, Any]) -> None:
    name, _, value = line[1:].partition(" ")
    value = value.strip()
    if name == "k" and value.isdecimal() and int(value) > 0:
        settings["k"] = int(value)
    elif name == "method" and value in _METHODS:
        settings["method"] = value
    else:
        render.stderr().print(f"Type {_HELP}. Methods: {', '.join(_METHODS)}.", soft_wrap=True)
