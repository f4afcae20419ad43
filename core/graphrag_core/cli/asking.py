"""``query`` and ``explain``: questions, their answers, and why."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from graphrag_core import GraphRetriever, KnowledgeIndex, Result
from graphrag_core.cli.explaining import show_explanation
from graphrag_core.cli.opening import loaded, reading
from graphrag_core.cli.options import Count, EmbedderName, Json, Kb, Method, MethodName, Style, Where, to_where
from graphrag_core.cli.serialising import print_json, result_to_dict, stats_to_dict
from graphrag_core.cli.showing import show_result
from graphrag_core.cli.talking import talk
from graphrag_core.cli.terminal import complain, results
from graphrag_core.cli.upkeep import show_stats
from graphrag_core.errors import FileError

_KB = Path("kb")


def query(
    question: Annotated[
        str | None, typer.Argument(help="Left out, questions are read one by one.", show_default=False)
    ] = None,
    kb: Kb = _KB,
    method: MethodName = Method.hybrid,
    k: Count = 5,
    where: Where = None,
    context: Annotated[
        Style | None, typer.Option("--context", "-c", help="Print the context for a language model instead of hits.")
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Of the context.")] = 500,
    json: Json = False,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Ask these research findings, in memory.")
    ] = None,
    query_: Annotated[
        str | None, typer.Option("--query", metavar="QUESTION", help="The question, as an option.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Show how large the index is, too.")] = False,
    embedder: EmbedderName = None,
) -> None:
    """Ask a question; without one, ask as many as you like."""
    if question is not None and query_ is not None:
        raise typer.BadParameter("give the question once", param_hint="--query")
    asked = question if question is not None else query_
    filter_ = to_where(where)
    with _index(kb, load, embedder) as index:
        if stats:
            _show_stats(index, json=json)
            if asked is None:
                return
        retriever = GraphRetriever(index, method=method.value, k=k)

        def answer(text: str, **settings: Any) -> Result:
            result = retriever.retrieve(text, where=filter_, **settings)
            _show(result, context, max_tokens, json=json)
            return result

        if asked is None:
            talk(answer, index, json=json)
        elif not answer(asked).hits:
            complain("nothing was found" + (": does any document fit --where?" if where else ""))
            raise typer.Exit(1)


def explain(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    kb: Kb = _KB,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page that shows it all, without network.")
    ] = None,
    method: MethodName = Method.hybrid,
    k: Count = 5,
    where: Where = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Ask these research findings, in memory.")
    ] = None,
    embedder: EmbedderName = None,
) -> None:
    """Show why a question gets its answer: entities, channels, paths and facts."""
    with _index(kb, load, embedder) as index:
        result = GraphRetriever(index, method=method.value, k=k).retrieve(question, where=to_where(where))
        if html is None:
            show_explanation(result, results())
        else:
            _write_page(result, html)
    if not result.hits:
        complain("nothing was found")
        raise typer.Exit(1)


def _write_page(result: Result, path: Path) -> None:
    try:
        path.write_text(result.html(), "utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from error
    results().print(f"{path}: open it in a browser", soft_wrap=True)


def _index(kb: Path, load: Path | None, embedder: str | None) -> AbstractContextManager[KnowledgeIndex]:
    return loaded(load, embedder) if load else reading(kb, embedder)


def _show(result: Result, context: Style | None, max_tokens: int, *, json: bool) -> None:
    text = result.context(max_tokens=max_tokens, style=context.value) if context else None
    if json:
        print_json({**result_to_dict(result), **({} if text is None else {"context": text})})
    elif text is not None:
        results().print(text, markup=False, soft_wrap=True)
    else:
        show_result(result, results())


def _show_stats(index: KnowledgeIndex, *, json: bool) -> None:
    if json:
        print_json(stats_to_dict(index.stats()))
    else:
        show_stats(index.stats(), results())
