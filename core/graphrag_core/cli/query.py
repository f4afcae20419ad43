"""The commands ``query``, for one question or an interactive prompt, and ``explain``."""

import atexit
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from graphrag_core import GraphRetriever
from graphrag_core.cli import options, render
from graphrag_core.context import Style, for_terminal
from graphrag_core.errors import FileError, GraphRAGError
from graphrag_core.query.settings import Method

_HISTORY = Path.home() / ".hybrid_graphrag_history"
_PROMPT = "\n? "
_HELP = "a question, :method NAME, :k NUMBER, or exit"
_METHODS = get_args(Method)
logging.getLogger("graphrag_core.retriever").addHandler(
    logging.NullHandler()
)  # what it logs is printed with the result


def query(
    question: Annotated[
        str | None,
        typer.Argument(help="Without a question, questions are read from a prompt or from stdin.", show_default=False),
    ] = None,
    kb: options.Kb = options.KB,
    method: options.MethodName = "hybrid",
    k: options.Count = 5,
    where: options.Where = None,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    context: Annotated[
        Style | None,
        typer.Option("--context", "-c", help="Print a context for an LLM instead of hits. Default style: graph."),
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Token limit of the context.")] = 500,
    json: options.Json = False,
    load: options.Findings = None,
    query_: Annotated[
        str | None, typer.Option("--query", metavar="QUESTION", help="The question, as an option.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print the size of the index first.")] = False,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    on_embedder_error: options.OnError = "raise",
    rerank: options.RerankerName = None,
    strategy: options.StrategyName = None,
    as_published: options.AsPublished = False,
    additive: options.Added = None,
    no_graph: options.NoGraph = False,
    vector_weight: options.VectorWeight = 0.6,
    text_weight: options.TextWeight = None,
    score_threshold: options.ScoreThreshold = None,
    min_score: options.MinScore = None,
    min_graph_score: options.MinGraphScore = None,
    min_confidence: options.MinConfidence = None,
    inverse: options.Inverses = None,
    relationships: options.Relationships = None,
    sources: options.Sources = True,
    weight: options.Weights = None,
    as_of: options.AsOf = None,
) -> None:
    """Search the index for passages that answer a question."""
    if question is not None and query_ is not None:
        raise typer.BadParameter("give the question once, as an argument or as --query", param_hint="--query")
    text = question if question is not None else query_
    where_filter, use_graph = options.parse_where(where), False if no_graph else None
    settings = options.search_settings(strategy, as_published, additive, vector_weight, text_weight, inverse, weight)
    with options.open_index(kb, embedder, embedder_url=embedder_url, findings=load) as index:
        if stats:
            render.show_stats(index.stats(), as_json=json)
            if text is None:
                return
        settings |= {"on_embedder_error": on_embedder_error, **options.rerank_settings(rerank)}
        retriever = GraphRetriever(index, method=method, k=k, **settings)
        thresholds: dict[str, Any] = {
            "score_threshold": score_threshold,
            "min_score": min_score,
            "min_graph_score": min_graph_score,
            "min_confidence": min_confidence,
        }
        steering: dict[str, Any] = {"seed_entities": seed, "exclude": exclude}
        included: dict[str, Any] = {"include_relationships": relationships, "include_sources": sources}

        def answer(question: str, **changes: Any) -> bool:
            """Print the results, or why there are none; return whether there are any."""
            result = retriever.retrieve(
                question,
                where=where_filter,
                use_graph=use_graph,
                as_of=as_of,
                **steering,
                **thresholds,
                **changes,
            )
            extra = {"context": result.context(max_tokens, style=context, **included)} if context else {}
            if json:
                render.print_json({**render.result_to_dict(result), **extra})
            elif extra:
                render.stdout().print(extra["context"], markup=False, soft_wrap=True)
            else:
                render.show_result(result)
            if not result.hits:
                render.print_error(f"no results: {result.advice}")
            return bool(result.hits)

        if text is None:
            _prompt_loop(answer, len(index), blank_lines=not json)
        elif not answer(text):
            raise typer.Exit(1)


def explain(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    kb: options.Kb = options.KB,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an interactive HTML page, which works offline.")
    ] = None,
    method: options.MethodName = "hybrid",
    k: options.Count = 5,
    where: options.Where = None,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    load: options.Findings = None,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    on_embedder_error: options.OnError = "raise",
    rerank: options.RerankerName = None,
    strategy: options.StrategyName = None,
    as_published: options.AsPublished = False,
    additive: options.Added = None,
    no_graph: options.NoGraph = False,
    vector_weight: options.VectorWeight = 0.6,
    text_weight: options.TextWeight = None,
    score_threshold: options.ScoreThreshold = None,
    min_score: options.MinScore = None,
    min_graph_score: options.MinGraphScore = None,
    min_confidence: options.MinConfidence = None,
    weight: options.Weights = None,
    as_of: options.AsOf = None,
) -> None:
    """Show why passages are found: entities, scores by channel, paths through the graph, and facts."""
    settings = options.search_settings(strategy, as_published, additive, vector_weight, text_weight, None, weight)
    with options.open_index(kb, embedder, embedder_url=embedder_url, findings=load) as index:
        settings |= {"on_embedder_error": on_embedder_error, **options.rerank_settings(rerank)}
        retriever = GraphRetriever(index, method=method, k=k, **settings)
        thresholds: dict[str, Any] = {
            "score_threshold": score_threshold,
            "min_score": min_score,
            "min_graph_score": min_graph_score,
            "min_confidence": min_confidence,
        }
        where_filter, use_graph = options.parse_where(where), False if no_graph else None
        thresholds |= {"seed_entities": seed, "exclude": exclude}
        result = retriever.retrieve(question, where=where_filter, use_graph=use_graph, as_of=as_of, **thresholds)
        if html is None:
            render.show_explanation(result)
        else:
            try:
                html.write_text(result.html(), "utf-8")
            except OSError as error:
                raise FileError(f"{html}: cannot be written ({error.strerror or error})") from error
            render.stdout().print(f"{html} written: open it in a browser", soft_wrap=True)
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
