"""The commands ``query``, for one question or an interactive prompt, and ``explain``."""

import atexit
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from graphrag_core.cli import options, render
from graphrag_core.context import Style, for_terminal
from graphrag_core.errors import GraphRAGError
from graphrag_core.query.settings import Method

_HISTORY = Path.home() / ".hybrid_graphrag_history"
_PROMPT = "\n? "
_HELP = "a question, :method NAME, :k NUMBER, or exit"
_METHODS = get_args(Method)
logging.getLogger("graphrag_core.retriever").addHandler(
    logging.NullHandler()
)  # what it logs is printed with the result


@options.with_search_options
def query(
    question: Annotated[
        str | None,
        typer.Argument(help="Without one, questions are read from a prompt or stdin.", show_default=False),
    ] = None,
    kb: options.Kb = options.KB,
    where: options.Where = None,
    strategy: options.StrategyName = None,
    as_published: options.AsPublished = False,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    as_of: options.AsOf = None,
    context: Annotated[
        Style | None, typer.Option("--context", "-c", help="Print a context for an LLM instead of hits.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="Token limit of the context.")
    ] = 500,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Search for passages that answer a question. [retriever] in hybrid-graphrag.toml has more settings."""
    settings = {**options.strategy_settings(strategy, as_published=as_published), **given}
    scope: dict[str, Any] = {
        "where": options.parse_where(where),
        "as_of": as_of,
        "seed_entities": seed,
        "exclude": exclude,
    }
    with options.open_index(kb) as index:
        retriever = options.make_retriever(index, settings)

        def answer(question: str, **changes: Any) -> bool:
            """Print the results, or why there are none; return whether there are any."""
            result = retriever.retrieve(question, **scope, **changes)
            extra = {"context": result.context(max_tokens, style=context)} if context else {}
            if json:
                render.print_json({**render.result_to_dict(result), **extra})
            elif extra:
                render.stdout().print(extra["context"], markup=False, soft_wrap=True)
            else:
                render.show_result(result)
            if not result.hits:
                render.print_error(f"no results: {result.advice}")
            return bool(result.hits)

        if question is None:
            _prompt_loop(answer, len(index), blank_lines=not json)
        elif not answer(question):
            raise typer.Exit(1)


@options.with_search_options
def explain(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    kb: options.Kb = options.KB,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an interactive HTML page, which works offline.")
    ] = None,
    where: options.Where = None,
    strategy: options.StrategyName = None,
    as_published: options.AsPublished = False,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    as_of: options.AsOf = None,
    **given: Any,
) -> None:
    """Show why passages are found: entities, scores by channel, paths through the graph, and facts."""
    settings = {**options.strategy_settings(strategy, as_published=as_published), **given}
    with options.open_index(kb) as index:
        result = options.make_retriever(index, settings).retrieve(
            question, where=options.parse_where(where), as_of=as_of, seed_entities=seed, exclude=exclude
        )
        if html is None:
            render.show_explanation(result)
        else:
            render.write_page(html, result.html())
    if not result.hits:
        render.print_error(f"no results: {result.advice}")
        raise typer.Exit(1)


# -- the interactive prompt


def _prompt_loop(answer: Callable[..., bool], documents: int, *, blank_lines: bool) -> None:
    """Answer one question per line until ``exit`` or the end of input."""
    if sys.stdin.isatty():
        render.stderr().print(f"{documents:,} documents. Type {_HELP} (Ctrl-D).")
        _enable_history()
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
    prompt = _PROMPT if sys.stdin.isatty() else ""
    try:
        if prompt and not sys.stdout.isatty():  # input() would write the prompt into the redirected output
            render.stderr().print(prompt, end="")
            prompt = ""
        return input(prompt).strip()
    except EOFError:
        if sys.stdin.isatty():
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


def _enable_history() -> None:
    """Enable line editing and a persistent history, if readline is available."""
    try:
        import readline
    except ImportError:
        return

    @atexit.register
    def save() -> None:
        with suppress(OSError):
            readline.write_history_file(_HISTORY)

    readline.set_history_length(1_000)
    with suppress(OSError):
        readline.read_history_file(_HISTORY)
