"""The command ``index``: keep an index in sync with files."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from tqdm import tqdm
from typing_extensions import Self

from graphrag_core import Chunk, Combined, KnowledgeIndex, LLMExtractor, OpenAIChat
from graphrag_core.cli import options, render
from graphrag_core.documents import (
    FORMATS,
    Catalogue,
    File,
    FileSource,
    Problem,
    Progress,
    SyncReport,
    changed_documents,
    is_pattern,
    open_catalogue,
    sync_files,
    walk_files,
)
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import FileError, InputError
from graphrag_core.ingest.edges import Edge
from graphrag_core.llm import KEY_VARIABLE, parse_llm
from graphrag_core.ports import Embedder
from graphrag_core.research import is_findings

_LLM_CACHE = "answers.sqlite"
_BATCH_SIZE = 500
_BATCH_SIZE_WITH_LLM = 25  # small, because answers cost time and money: an interrupted run should lose few


def index(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Folders, files and glob patterns.", show_default=False)
    ] = None,
    kb: options.Kb = options.KB,
    research: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Research findings: JSON with academic_papers or github_projects."),
    ] = None,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    graph: options.Graph = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also extract facts with an LLM: a model such as gpt-4o-mini, or the URL of a server with the model, "
            "http://localhost:1234/v1/qwen3. Stored with the index; none disables it. "
            "The API key is read from OPENAI_API_KEY.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before calling an LLM.")
    ] = False,
    keep_missing: options.KeepMissing = False,
    metadata: options.Metadata = None,
    edge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD:FIELD",
            help="Link documents by metadata: author:author for the same author, links:id for a list of ids. "
            "Can be repeated. Stored with the index; none removes all.",
        ),
    ] = None,
    chunk_size: options.ChunkSize = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="ray[:N]",
            help="Index with N processes of a Ray cluster, into a PostgreSQL database: RAY_ADDRESS, or this machine. "
            "Needs the extra ray. Default of N: the CPUs of the cluster.",
            show_default=False,
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Index files. Later runs read only new and changed files, and remove deleted ones.

    Reads txt, md, rst, html, pdf, docx, csv, json and jsonl. Skips hidden files, .git, node_modules and the like.
    Ctrl-C is safe: finished work is kept, and the same command continues.
    """
    if not paths and not research:
        raise typer.BadParameter("give folders, files or patterns to index, or --research FILE", param_hint="PATH...")
    given_metadata = options.parse_metadata(metadata)
    findings = [str(file) for file in research or () if _check_findings(file)]
    sources = (*(paths or ()), *findings)
    _check_any_exists(sources)
    processes = _parse_workers(workers)
    if processes is not None and not is_address(kb):
        raise InputError(f"{kb} is a folder, which one process writes: --workers needs --kb postgresql://...")
    settings = options.IndexSettings.load(kb).changed(embedder, embedder_url, chunk_size, graph)
    if llm is not None:
        settings = replace(settings, llm=None if llm == "none" else parse_llm(llm, os.environ.get(options.BASE_URL)))
    _check_llm(settings, processes)
    job = IndexJob.prepare(settings, kb, edges=options.parse_edge_options(edge))
    report = job.run(job.source(sources, given_metadata), processes, keep_missing=keep_missing, yes=yes, quiet=quiet)
    if report.problems or report.incomplete or len(findings) < len(research or ()):
        raise typer.Exit(1)


@dataclass(frozen=True)
class IndexJob:
    """How an index is written: what ``index`` and ``watch`` share. The models are loaded once."""

    settings: options.IndexSettings
    kb: str
    embedder: Embedder | None
    extractor: Combined
    llm_extractor: LLMExtractor | None
    edges: list[Edge] | None

    @classmethod
    def prepare(cls, settings: options.IndexSettings, kb: str, *, edges: list[Edge] | None = None) -> Self:
        """Load the embedder, and connect to the LLM if there is one."""
        llm = _make_llm_extractor(settings, kb)
        extractor = options.make_extractor(*([llm] if llm else []), graph=settings.graph)
        embedder = options.make_embedder(settings.embedder, settings.embedder_url)
        return cls(settings, kb, embedder, extractor, llm, edges)

    def open(self) -> KnowledgeIndex:
        """Open the index for writing."""
        return KnowledgeIndex.open(
            self.kb,
            self.embedder,
            chunker=self.settings.chunker,
            extractor=self.extractor,
            progress=False,
            batch_size=_BATCH_SIZE_WITH_LLM if self.llm_extractor else _BATCH_SIZE,
            edges=self.edges,
            embed_facts=options.CONFIG.get().index.embed_facts,
        )

    def source(self, paths: Sequence[str], metadata: Mapping[str, Any]) -> FileSource:
        """Return the files to index, with metadata of the settings file and of options."""
        configured = options.CONFIG.get().index
        pipeline = f"{self.extractor.identity} {self.settings.chunker.identity}"
        most_bytes = configured.max_size * 1_000_000
        return FileSource(tuple(paths), {**configured.metadata, **metadata}, most_bytes, pipeline)

    def run(
        self, source: FileSource, processes: int | None, *, keep_missing: bool, yes: bool, quiet: bool
    ) -> SyncReport:
        """Index the files and print what was done; with ``processes``, on Ray."""
        with self.open() as index, open_catalogue(self.kb) as catalogue:
            self.settings.save(catalogue)
            if self.llm_extractor:
                changed = changed_documents(index, catalogue, source)
                documents = (self.settings.chunker.split(document) for document in changed)
                _confirm_cost(self.llm_extractor, documents, yes=yes, quiet=quiet)
            if processes is None:
                report = _sync(index, catalogue, source, keep_missing=keep_missing, quiet=quiet)
            else:
                report = _sync_with_ray(index, self.kb, source, processes, keep_missing=keep_missing, quiet=quiet)
            if not quiet:
                _print_report(report, len(index), self.kb)
                if self.llm_extractor and (usage := self.llm_extractor.report).calls:
                    tokens = f"{usage.prompt_tokens:,} prompt tokens and {usage.answer_tokens:,} answer tokens"
                    render.stdout().print(f"{self.llm_extractor.model}: {usage.calls:,} calls, about {tokens}")
        return report


def _check_findings(path: Path) -> bool:
    """Whether a file holds research findings; print an error if not."""
    try:
        if is_findings(options.read_json(path)):
            return True
        render.print_error(f"{path}: has neither academic_papers nor github_projects")
    except FileError as error:
        render.print_error(str(error))
    return False


def _check_any_exists(paths: tuple[str, ...]) -> None:
    """Exit if all paths are missing, before an empty index is created."""
    if any(os.path.lexists(path) or is_pattern(path) for path in paths):
        return
    for path in paths:
        render.print_error(f"{path}: no such file or folder")
    raise typer.Exit(1)


def _check_llm(settings: options.IndexSettings, processes: int | None) -> None:
    """Raise if an LLM is to extract facts where none are extracted, or in several processes."""
    if settings.llm is None:
        return
    if processes is not None:
        message = "extraction with an LLM runs in one process: leave it out, or use --llm none"
        raise typer.BadParameter(message, param_hint="--workers")
    if not settings.graph:
        raise typer.BadParameter("an LLM extracts the graph: use --llm none, or --graph", param_hint="--no-graph")


def _make_llm_extractor(settings: options.IndexSettings, kb: str) -> LLMExtractor | None:
    if settings.llm is None:
        return None
    base_url, name = settings.llm
    model = OpenAIChat(name, base_url, api_key=os.environ.get(KEY_VARIABLE, ""))
    model.check()
    if is_address(kb):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hybrid-graphrag"
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder = Path(kb)
        if not KnowledgeIndex.exists(kb):  # the cache needs the folder, and a new index needs an empty folder
            KnowledgeIndex.open(kb).close()
    return LLMExtractor(model, cache=folder / _LLM_CACHE, model=name, retries=1, backoff=0, progress=False)


def _confirm_cost(extractor: LLMExtractor, documents: Iterable[Sequence[Chunk]], *, yes: bool, quiet: bool) -> None:
    """Print how much the LLM will have to read, and ask whether to continue."""
    passages = tokens = 0
    for chunks in documents:
        passages += len(chunks)
        tokens += extractor.estimate(chunks)
    if not tokens:
        return
    cost = f"{extractor.model} will read {passages:,} passages: about {tokens:,} prompt tokens, plus the answers."
    if not yes and not typer.confirm(f"{cost} Continue?", err=True):
        render.print_error("nothing was indexed: confirm with --yes, or index without an LLM with --llm none")
        raise typer.Exit(1)
    if yes and not quiet:
        render.stderr().print(cost)


def _sync(
    index: KnowledgeIndex, catalogue: Catalogue, source: FileSource, *, keep_missing: bool, quiet: bool
) -> SyncReport:
    before = len(index)
    try:
        with _progress_bar(source.paths, show=sys.stderr.isatty() and not quiet) as advance:
            return sync_files(
                index,
                catalogue,
                source,
                keep_missing=keep_missing,
                on_progress=advance,
                on_problem=_print_problem,
            )
    except KeyboardInterrupt:
        render.print_error(
            f"interrupted: {len(index):,} documents are in the index and stay, {len(index) - before:,} of them new; "
            "run the same command again to continue"
        )
        raise typer.Exit(130) from None


def _parse_workers(workers: str | None) -> int | None:
    """Return the number of Ray's processes, 0 for as many as there are CPUs; None without Ray."""
    if workers is None:
        return None
    kind, _, count = workers.partition(":")
    if kind != "ray" or (":" in workers and not (count.isdecimal() and int(count))):
        raise typer.BadParameter(f"{workers!r}: use ray, or ray:4 for four processes", param_hint="--workers")
    return int(count or 0)


def _sync_with_ray(
    index: KnowledgeIndex, kb: str, source: FileSource, processes: int, *, keep_missing: bool, quiet: bool
) -> SyncReport:
    from graphrag_core import bulk

    pipeline, embedding = index.pipeline, index.embedding
    try:
        return bulk.sync_files(
            source,
            kb,
            None if embedding is None else embedding.embedder,
            workers=processes or None,
            batch_size=index.batch_size,
            keep_missing=keep_missing,
            progress=False if quiet or not sys.stderr.isatty() else None,
            on_problem=_print_problem,
            chunker=pipeline.chunker,
            extractor=pipeline.extractor,
        )
    except KeyboardInterrupt:
        render.print_error("interrupted: what was written stays; run the same command again to continue")
        raise typer.Exit(130) from None


def _print_problem(problem: Problem) -> None:
    render.print_error(f"{render.relative(problem.path)}: {problem.reason}")


@contextmanager
def _progress_bar(paths: tuple[str, ...], *, show: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar of the bytes that are indexed; yield the function that moves it.

    Counts the files first, for the total. Files that turn out to be unchanged are taken out of the
    total, so that the time left is that of the work left.
    """
    if not show:
        yield lambda _: None
        return
    files = size = 0
    with tqdm(desc="counting", unit=" files", leave=False, dynamic_ncols=True) as bar:
        for found in walk_files(paths):
            if isinstance(found, File) and (found.suffix in FORMATS or found.explicit):
                files, size = files + 1, size + max(found.size, 1)
                bar.update()
    layout = "{desc} {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
    with tqdm(total=size, desc="indexing", bar_format=layout, leave=False, dynamic_ncols=True) as bar:

        def advance(done: Progress) -> None:
            bar.total = max(size - done.skipped, 1)
            bar.set_description_str(f"indexing, {done.files:,} of {files:,} files done", refresh=False)
            bar.update(min(done.indexed, bar.total) - bar.n)
            bar.refresh()

        yield advance


def _print_report(report: SyncReport, documents: int, kb: str) -> None:
    console = render.stdout()
    console.print(
        Text.assemble(
            (f"{report.added:,} added", "good" if report.added else "quiet"),
            f", {report.changed:,} changed, {report.removed:,} removed, {report.unchanged:,} unchanged: "
            f"{documents:,} documents in {shown(kb)}",
        )
    )
    if report.incomplete:
        count, reason = len(report.incomplete), next(iter(report.incomplete.values()))
        console.print(f"{count:,} documents lack facts from the LLM ({reason}): run the same command again to retry")
    if report.problems:
        console.print(Text(f"{len(report.problems):,} skipped, see above", "bad"))
    if report.other_formats:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.other_formats.most_common(5))
        console.print(Text(f"Other formats skipped: {kinds}", "quiet"))
    if report.added and documents == report.added:
        console.print(Text(f'Next: {render.program()} query "your question" --kb {shown(kb)}', "quiet"))
