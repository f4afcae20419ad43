"""``index``: files in, step by step, so that a later run does the rest."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from graphrag_core import Combined, KnowledgeIndex, LLMExtractor
from graphrag_core.cli.llm import ChatModel, parse_llm
from graphrag_core.cli.opening import ANSWERS, FILES, Settings, free_extractor, make_embedder, read_json, remembered
from graphrag_core.cli.options import EmbedderName, Quiet, to_metadata
from graphrag_core.cli.progress import FileProgress
from graphrag_core.cli.terminal import complain, is_watched, messages, program, results, shown
from graphrag_core.errors import FileError
from graphrag_core.loading import Catalogue, Problem, Source, Synchronised, changed_documents, synchronise
from graphrag_core.loading.pattern import is_pattern
from graphrag_core.research import is_findings

_BATCH = 500
_BATCH_WITH_LLM = 25  # answers cost time and money: what is read is written soon


def index(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Folders, files and patterns.", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "--kb", "-o", envvar="HYBRID_GRAPHRAG_KB", help="The folder of the index.")
    ] = Path("kb"),
    research: Annotated[
        list[Path] | None,
        typer.Option("--research", metavar="FILE", help="Findings: academic_papers, github_projects."),
    ] = None,
    embedder: EmbedderName = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="MODEL",
            help="Also read facts with a language model: gpt-4o-mini, or its address with the model behind it, "
            "http://localhost:1234/v1/qwen3; none to stop. The key is read from OPENAI_API_KEY.",
        ),
    ] = None,
    llm_url: Annotated[
        str | None,
        typer.Option("--llm-url", envvar="OPENAI_BASE_URL", metavar="URL", help="An OpenAI-compatible address."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before paying.")] = False,
    keep_missing: Annotated[bool, typer.Option("--keep-missing", help="Keep what was read of files now gone.")] = False,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="Put on every document, for --where.")
    ] = None,
    chunk_size: Annotated[
        int | None, typer.Option("--chunk-size", min=16, help="Tokens of a passage (256 in a new index).")
    ] = None,
    max_size: Annotated[int, typer.Option("--max-size", min=1, help="Leave out files of more megabytes.")] = 100,
    quiet: Quiet = False,
) -> None:
    """Index files; every later run reads only what is new or changed, and drops what is gone.

    Reads txt, md, rst, html, pdf, docx, csv, json and jsonl. Hidden files, .git, node_modules and the like are
    passed over. Ctrl-C is safe: what was done stays, and the same command does the rest.
    """
    problems: list[Problem] = []
    sources = [*(paths or ()), *_findings(research or [], problems)]
    _check_paths(sources, asked=bool(paths or research))
    settings = _settings(remembered(out), embedder, chunk_size, llm, llm_url)
    model = _model(settings)
    extractor = free_extractor(*_llm_extractors(model, out)) if model else free_extractor()
    with (
        KnowledgeIndex.open(
            out,
            make_embedder(settings.embedder),
            chunker=settings.chunker,
            extractor=extractor,
            progress=False,
            batch_size=_BATCH_WITH_LLM if model else _BATCH,
        ) as kb,
        Catalogue(out / FILES) as catalogue,
    ):
        settings.keep(catalogue)
        catalogue.commit()
        reading = f"{extractor.identity} {settings.chunker.identity}"
        source = Source(tuple(sources), to_metadata(metadata), max_size * 1_000_000, reading)
        if model:
            _confirm(kb, catalogue, source, extractor.extractors[-1], settings, yes=yes, quiet=quiet)
        report = _run(kb, catalogue, source, keep_missing=keep_missing, quiet=quiet)
        if not quiet:
            _summarise(report, len(kb), out, results())
            _say_cost(extractor, results())
    if problems or report.problems or report.unread:
        raise typer.Exit(1)


def _settings(kept: Settings, embedder: str | None, size: int | None, llm: str | None, url: str | None) -> Settings:
    settings = replace(kept, embedder=embedder or kept.embedder, chunk_size=size or kept.chunk_size)
    if llm is not None:
        settings = replace(settings, llm=None if llm == "none" else parse_llm(llm, url))
    return settings


def _model(settings: Settings) -> ChatModel | None:
    if settings.llm is None:
        return None
    model = ChatModel(*settings.llm, key=os.environ.get("OPENAI_API_KEY", ""))
    model.check()
    return model


def _llm_extractors(model: ChatModel, out: Path) -> list[LLMExtractor]:
    # The folder must be there for the answers, and hold nothing else before it is an index.
    cache = out / ANSWERS if (out / "records.sqlite").is_file() else _made(out) / ANSWERS
    return [LLMExtractor(model, cache=cache, model=model.model, retries=1, backoff=0, progress=False)]


def _made(out: Path) -> Path:
    KnowledgeIndex.open(out).close()
    return out


def _findings(files: list[Path], problems: list[Problem]) -> list[str]:
    good = []
    for file in files:
        try:
            value = read_json(file)
        except FileError as error:
            problems.append(Problem(str(file), str(error)))
            complain(str(error))
            continue
        if is_findings(value):
            good.append(str(file))
        else:
            problems.append(Problem(str(file), "has neither academic_papers nor github_projects"))
            complain(str(problems[-1]))
    return good


def _check_paths(paths: list[str], *, asked: bool) -> None:
    if not asked:
        raise typer.BadParameter("give folders, files or patterns to index, or --research FILE", param_hint="PATH...")
    missing = [path for path in paths if not os.path.lexists(path) and not is_pattern(path)]
    if len(missing) == len(paths):  # nothing to do: do not leave an empty index behind
        for path in missing:
            complain(f"{path}: there is no such file or folder")
        raise typer.Exit(1)


def _confirm(
    kb: KnowledgeIndex,
    catalogue: Catalogue,
    source: Source,
    extractor: object,
    settings: Settings,
    *,
    yes: bool,
    quiet: bool,
) -> None:
    """Say what a model will have to read, and ask."""
    if not isinstance(extractor, LLMExtractor) or settings.llm is None:
        return
    passages = tokens = 0
    for document in changed_documents(kb, catalogue, source):
        chunks = settings.chunker.split(document)
        passages += len(chunks)
        tokens += extractor.estimate(chunks)
    if not tokens:
        return
    _, model = settings.llm
    cost = f"{passages:,} passages for {model} to read: about {tokens:,} tokens of prompts, and the answers."
    if yes:
        if not quiet:
            messages().print(cost)
        return
    if not typer.confirm(f"{cost} Go on?", err=True):
        complain("nothing was indexed: go on with --yes, or without a model with --llm none")
        raise typer.Exit(1)


def _run(kb: KnowledgeIndex, catalogue: Catalogue, source: Source, *, keep_missing: bool, quiet: bool) -> Synchronised:
    console = messages()
    before = len(kb)
    with FileProgress(console, source.paths, show=is_watched() and not quiet) as progress:
        try:
            return synchronise(
                kb,
                catalogue,
                source,
                keep_missing=keep_missing,
                on_file=progress.advance,
                on_problem=_complainer(console),
            )
        except KeyboardInterrupt:
            progress.stop()
            complain(f"stopped: {len(kb) - before:,} documents came in; run the same command again for the rest")
            raise typer.Exit(130) from None


def _complainer(console: Console) -> Callable[[Problem], None]:
    def say(problem: Problem) -> None:
        line = f"{shown(problem.path)}: {problem.reason}"
        console.print(Text.assemble(("✗ ", "bad"), line), soft_wrap=True)

    return say


def _say_cost(extractor: Combined, console: Console) -> None:
    for part in extractor.extractors:
        if isinstance(part, LLMExtractor) and part.report.calls:
            spent = part.report
            console.print(
                f"{part.model} gave {spent.calls:,} answers: about {spent.prompt_tokens:,} tokens of prompts, "
                f"{spent.answer_tokens:,} of answers"
            )


def _summarise(report: Synchronised, documents: int, out: Path, console: Console) -> None:
    counts = Text.assemble(
        (f"{report.added:,} added", "good" if report.added else "quiet"),
        f", {report.changed:,} changed, {report.removed:,} removed, {report.unchanged:,} unchanged",
    )
    console.print(Text.assemble(counts, f": {documents:,} documents in {out}"))
    if report.unread:
        reason = next(iter(report.unread.values()))
        console.print(f"{len(report.unread):,} documents lack the model's facts ({reason}): run again to read them")
    if report.problems:
        console.print(Text(f"{len(report.problems):,} left out, see above", "bad"))
    if report.other_formats:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.other_formats.most_common(5))
        console.print(Text(f"Other formats were passed over: {kinds}", "quiet"))
    if report.added and documents == report.added:
        console.print(Text(f'Next: {program()} query "your question" --kb {out}', "quiet"))
