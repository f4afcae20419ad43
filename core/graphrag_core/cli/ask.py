"""The commands ``ask``, which answers a question with citations, and ``communities``, the themes of the collection."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import typer
from rich.text import Text

from graphrag_core import Answer, AnswerStream, Community, GraphRetriever, KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.context import for_terminal, one_line
from graphrag_core.engine.address import is_address
from graphrag_core.errors import LLMError
from graphrag_core.llm import OpenAIChat, open_llm
from graphrag_core.query.ask import MAX_TOKENS, Citation

LLM = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="MODEL",
        envvar="HYBRID_GRAPHRAG_LLM",
        show_envvar=True,
        help="The language model that writes: a model of OpenAI, or http://host:port/v1/MODEL for any compatible "
        "server (Ollama, vLLM, LM Studio). The key is read from OPENAI_API_KEY. none: sentences of the passages.",
        show_default=False,
    ),
]
LLMUrl = Annotated[
    str | None,
    typer.Option("--llm-url", metavar="URL", help="The server of --llm, up to /v1.", show_default=False),
]


def ask(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    kb: options.Kb = options.KB,
    llm: LLM = None,
    llm_url: LLMUrl = None,
    method: options.MethodName = "agentic",
    k: options.Count = 8,
    where: options.Where = None,
    seed: options.Seeds = None,
    exclude: options.Excluded = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Token limit of the passages in the prompt.")
    ] = MAX_TOKENS,
    json: options.Json = False,
    load: options.Findings = None,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    on_embedder_error: options.OnError = "raise",
    rerank: options.RerankerName = None,
    as_of: options.AsOf = None,
) -> None:
    """Answer a question from the documents, with numbered citations.

    A language model writes the answer if --llm names one. Without it, the answer consists of the sentences that match
    the question best.
    """
    model = make_llm(llm, llm_url)
    with ExitStack() as stack:
        if model is not None:
            stack.callback(model.close)
        index = stack.enter_context(options.open_index(kb, embedder, embedder_url=embedder_url, findings=load))
        given: dict[str, Any] = {"method": method, "k": k, "on_embedder_error": on_embedder_error}
        if rerank is not None:
            given["reranker"] = options.make_reranker(rerank)
        retriever = GraphRetriever(index, **{**options.CONFIG.get().retriever, **given})
        settings: dict[str, Any] = {"where": options.parse_where(where), "as_of": as_of}
        settings |= {"seed_entities": seed, "exclude": exclude}
        stream = stack.enter_context(retriever.ask_stream(question, model, max_tokens=max_tokens, **settings))
        if json:
            render.print_json({**stream.answer.to_dict(), "model": model.model if model else None})
        else:
            _show(stream, model)
        answer = stream.answer
    if answer.kind == "none":
        raise typer.Exit(1)


def make_llm(llm: str | None, llm_url: str | None) -> OpenAIChat | None:
    """Return the model that ``--llm`` names; None for none."""
    if llm in (None, "", "none"):
        if llm_url:
            raise typer.BadParameter("name the model of this server with --llm", param_hint="--llm-url")
        return None
    return open_llm(str(llm), llm_url)


def _show(stream: AnswerStream, model: OpenAIChat | None) -> None:
    """Print an answer while it is written, then what it cites and what to know about it."""
    console = render.stdout()
    for note in (stream.result.fallback,):
        if note:
            console.print(Text(note, "quiet"))
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
    answer = stream.answer
    _show_citations(answer)
    for remark in _remarks(answer, model):
        render.print_indented(console, Text(remark, "partial"), 0)


def _encodable(piece: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    return piece.encode(encoding, "replace").decode(encoding)


def _show_citations(answer: Answer) -> None:
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


def communities(
    kb: options.Kb = options.KB,
    level: Annotated[
        int, typer.Option("--level", "-l", min=0, max=2, help="0 for the broadest themes, 2 for the finest.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show, the largest first.")] = 20,
    where: options.Where = None,
    llm: LLM = None,
    llm_url: LLMUrl = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the themes of the collection: communities of entities, their names and a central sentence.

    With --llm, a language model describes each; its descriptions are stored with the index and used by later
    questions.
    """
    model = make_llm(llm, llm_url)
    # The tables of a database can only be written by an index that is opened for writing; a folder's file always can.
    with options.open_index(kb, embeds=False, read_only=not (is_address(kb) and model is not None)) as index:
        found = _communities(index, level, options.parse_where(where), model, quiet=quiet)
    if json:
        render.print_json([_to_dict(community) for community in found[:limit]])
        return
    console = render.stdout()
    for community in found[:limit]:
        noun = "document" if community.documents == 1 else "documents"
        size = f"{community.documents:,} {noun}, {community.entities:,} entities"
        render.print_indented(
            console, Text.assemble((one_line(community.name), "title"), (f"  {size}", "quiet")), 6,
            label=Text(community.id, "quiet"),
        )  # fmt: skip
        if more := community.names[3:]:
            render.print_indented(console, Text(one_line(", ".join(more)), "graph"), 6)
        if community.description:
            render.print_indented(console, Text(one_line(community.description)), 6)
    if len(found) > limit:
        console.print(Text(f"… and {len(found) - limit:,} more", "quiet"))
    if not found:
        render.print_error(f"no themes on level {level}: the documents name too few entities, or use another level")
        raise typer.Exit(1)


def _communities(
    index: KnowledgeIndex, level: int, where: Any, model: OpenAIChat | None, *, quiet: bool
) -> Sequence[Community]:
    if model is None:
        return index.graph.communities(level, where=where)
    try:
        return index.graph.summarise_communities(model, level, where=where, progress=False if quiet else None)
    finally:
        model.close()


def _to_dict(community: Community) -> dict[str, Any]:
    return {
        "id": community.id,
        "level": community.level,
        "parent": community.parent,
        "name": community.name,
        "names": list(community.names),
        "entities": community.entities,
        "documents": community.documents,
        "description": community.description,
        "sentences": list(community.sentences),
    }
