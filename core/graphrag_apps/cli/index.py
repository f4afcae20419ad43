"""The commands ``index``, which keeps an index in sync with files, and ``rebuild``."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from tqdm import tqdm
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, EmbedderName, Kb, Quiet
from graphrag_apps.cli.questions import sample_questions
from graphrag_apps.documents.load import FORMATS, load_documents
from graphrag_apps.documents.sync import FileSource, Progress, SyncReport, sync_files
from graphrag_apps.documents.walk import File, Problem, is_pattern
from graphrag_core import Combined, KnowledgeIndex, LLMExtractor, OpenAIChat
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import InputError, LLMError
from graphrag_core.ingest.edges import Edge, parse_edges
from graphrag_core.llm import KEY_VARIABLE, parse_llm
from graphrag_core.ports import Embedder
from graphrag_core.research import is_findings

_LLM_CACHE = "answers.sqlite"
_BATCH_SIZE = 500
_BATCH_SIZE_WITH_LLM = 25  # small, because answers cost time and money: an interrupted run should lose few
_PATHS_HELP = f"Folders, files and glob patterns. Formats: {' '.join(FORMATS)}"

_EmbedderUrl = Annotated[
    str | None,
    Option(
        metavar="URL",
        help="Server of openai:MODEL or ollama:MODEL, such as http://localhost:1234/v1. Stored with the index. "
        "Default: OPENAI_BASE_URL or OLLAMA_HOST, else OpenAI or Ollama on this machine.",
    ),
]
_Graph = Annotated[
    bool | None,
    Option(
        help="Whether entities and facts are extracted; without them, search is by vector and keyword. "
        "Stored with the index. Default: the stored setting; a new index has a graph."
    ),
]
_Llm = Annotated[
    str | None,
    Option(
        metavar="MODEL",
        help="Also extract facts with an LLM: a model such as gpt-4o-mini, or the URL of a server with the model, "
        "http://localhost:1234/v1/qwen3. Stored with the index; none disables it. "
        "The API key is read from OPENAI_API_KEY.",
    ),
]


@dataclass(frozen=True)
class IndexJob:
    """How files are indexed. The models are loaded once."""

    kb: Kb = KB
    embedder: EmbedderName = None
    embedder_url: _EmbedderUrl = None
    graph: _Graph = None
    embed_names: Annotated[
        bool | None,
        Option(
            help="Whether the names of entities are embedded, so that a question finds them by similarity. Stored with "
            "the index. Default: the stored setting; in a new index, no."
        ),
    ] = None
    metadata: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="Metadata of all documents. Can be repeated.")
    ] = None
    chunk_size: Annotated[int | None, Option(min=16, help="Tokens per passage. 256 in a new index.")] = None
    keep_missing: Annotated[bool, Option("--keep-missing", help="Keep the documents of deleted files.")] = False
    follow_links: Annotated[bool, Option("--follow-links", help="Follow symbolic links out of a folder.")] = False
    quiet: Quiet = False
    llm: _Llm = None
    edge: Annotated[
        list[str] | None,
        Option(
            metavar="FIELD:FIELD",
            help="Link documents by metadata: author:author for the same author, links:id for a list of ids. "
            "Can be repeated. Stored with the index; none removes all.",
        ),
    ] = None

    @cached_property
    def settings(self) -> options.IndexSettings:
        """The settings of the index, with what the options say."""
        stored = options.IndexSettings.load(
            self.kb, self.embedder, self.embedder_url, chunk_size=self.chunk_size, graph=self.graph
        )
        if self.llm is None:
            return stored
        model = None if self.llm == "none" else parse_llm(self.llm, os.environ.get(options.BASE_URL))
        return replace(stored, llm=model)

    @cached_property
    def model(self) -> Embedder | None:
        """The embedder."""
        return options.make_embedder(self.settings.embedder, self.settings.embedder_url)

    @cached_property
    def llm_extractor(self) -> LLMExtractor | None:
        """The extractor that asks an LLM, if the index has one."""
        if self.settings.llm is None:
            return None
        base_url, name = self.settings.llm
        model = OpenAIChat(name, base_url, api_key=os.environ.get(KEY_VARIABLE, ""))
        try:
            model.check()
        except LLMError:
            model.close()
            raise
        folder = Path(self.kb)
        if is_address(self.kb):
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hybrid-graphrag"
            folder.mkdir(parents=True, exist_ok=True)
        elif not KnowledgeIndex.exists(self.kb):  # the cache needs the folder, and a new index needs an empty folder
            KnowledgeIndex.open(self.kb).close()
        return LLMExtractor(model, cache=folder / _LLM_CACHE, model=name, retries=1, backoff=0, progress=False)

    @cached_property
    def extractor(self) -> Combined:
        """All extractors."""
        return self.settings.extractor(*filter(None, [self.llm_extractor]))

    def open(self) -> KnowledgeIndex:
        """Open the index for writing."""
        with render.working("opening the index", show=not self.quiet):
            return KnowledgeIndex.open(
                self.kb,
                self.model,
                chunker=self.settings.chunker,
                extractor=self.extractor,
                progress=False,
                batch_size=_BATCH_SIZE_WITH_LLM if self.llm_extractor else _BATCH_SIZE,
                edges=_parse_edges(self.edge),
                embed_names=self.embed_names,
            )

    def close(self) -> None:
        """Close the connections to the language model, if there is one."""
        if isinstance(extractor := vars(self).get("llm_extractor"), LLMExtractor):
            cast("OpenAIChat", extractor.complete).close()

    def files(self, paths: Sequence[str]) -> FileSource:
        """Return files, with metadata of the settings file and of options."""
        configured = options.CONFIG.get().index
        metadata = {**configured.metadata, **options.parse_pairs(self.metadata, "--metadata")}
        return FileSource(tuple(paths), metadata, configured.max_size * 1_000_000, follow_links=self.follow_links)

    def source(self, paths: Sequence[str]) -> FileSource:
        """Return the files to index. An LLM needs a folder for its answers, so that a new index is created here."""
        pipeline = f"{self.extractor.identity} {self.settings.chunker.identity}"
        return replace(self.files(paths), pipeline=pipeline)


@options.expand
def index(
    paths: Annotated[list[str] | None, Argument(metavar="PATH", help=_PATHS_HELP)] = None,
    *,
    job: IndexJob,
    research: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Research findings: JSON with academic_papers or github_projects."),
    ] = None,
    workers: Annotated[
        str | None,
        Option(
            metavar="ray[:N]",
            help="Index with N processes of a Ray cluster, into a PostgreSQL database: RAY_ADDRESS, or this machine. "
            "Needs the extra ray. Default of N: the CPUs of the cluster.",
        ),
    ] = None,
) -> None:
    """Index files. Later runs read only new and changed files, and remove deleted ones.

    Skips hidden files, .git, node_modules and the like. Ctrl-C is safe: finished work is kept, and the same command
    continues. At the end it shows what the index holds, and questions to try.
    """
    if not paths and not research:
        raise typer.BadParameter("give folders, files or patterns to index, or --research FILE", param_hint="PATH...")
    findings = [str(file) for file in research or () if _check_findings(file)]
    sources = (*(paths or ()), *findings)
    _check_sources(sources)
    processes = _check_settings(job, workers)
    if not KnowledgeIndex.exists(job.kb):
        with render.working("looking for files", show=not job.quiet):
            _check_documents(job.files(sources))
    source = job.source(sources)
    with closing(job), job.open() as opened:
        job.settings.save(opened)
        start = time.perf_counter()
        report = _sync(opened, job, source, processes)
        if not job.quiet:
            _print_report(report, opened, job, time.perf_counter() - start)
    if not (report.files or report.removed or report.problems):
        raise _no_files(source)
    if report.problems or report.incomplete or len(findings) < len(research or ()):
        raise typer.Exit(1)


def rebuild(
    kb: Annotated[
        str,
        Argument(
            metavar="INDEX", envvar="HYBRID_GRAPHRAG_KB", help="Folder of the index, or the address of its database."
        ),
    ] = KB,
    embedder: EmbedderName = None,
    embedder_url: _EmbedderUrl = None,
    graph: _Graph = None,
    llm: _Llm = None,
    quiet: Quiet = False,
) -> None:
    """Extract entities and facts again from the stored passages, and build the search indexes again.

    Use it after an upgrade, or to extract with other settings. No passage is embedded again. Remembered facts and edits
    of the graph are kept. Ctrl-C is safe: run the same command again.
    """
    options.check_exists(kb)
    job = IndexJob(kb, embedder, embedder_url, graph, quiet=quiet, llm=llm)
    _check_settings(job)
    with closing(job), job.open() as opened:
        report = opened.rebuild(progress=sys.stderr.isatty() and not quiet)
        job.settings.save(opened, only_if_stored=True)
    if not quiet:
        render.print_line(f"{report.replaced:,} documents extracted again in {shown(kb)}")
    problems = report.problems.items()
    render.print_errors(f"{document}: {problem}: it keeps its entities and facts" for document, problem in problems)


def _sync(index: KnowledgeIndex, job: IndexJob, source: FileSource, processes: int | None) -> SyncReport:
    """Index the files; with ``processes``, on Ray."""
    before = len(index)
    show_progress = sys.stderr.isatty() and not job.quiet
    shared: dict[str, Any] = {"keep_missing": job.keep_missing, "on_problem": _print_problem}
    try:
        if processes is None:
            with progress_bar(source, show=show_progress) as advance:
                return sync_files(index, source, on_progress=advance, **shared)
        from graphrag_apps import bulk

        return bulk.sync_files(
            source, job.kb, job.model, workers=processes or None, progress=None if show_progress else False, **shared,
            chunker=job.settings.chunker, extractor=job.extractor, batch_size=index.batch_size,
            embed_names=job.embed_names,
        )  # fmt: skip
    except KeyboardInterrupt:
        render.print_error(
            f"interrupted: {len(index):,} documents are in the index and stay, {len(index) - before:,} of them new; "
            "run the same command again to continue"
        )
        raise typer.Exit(130) from None


def _parse_edges(edges: list[str] | None) -> list[Edge] | None:
    """Return the edges that ``--edge`` names; None without the option, no edges for ``none``."""
    if edges is None or edges == ["none"]:
        return None if edges is None else []
    try:
        return list(parse_edges([tuple(edge.split(":")) if ":" in edge else (edge, edge) for edge in edges]))
    except InputError as error:
        raise typer.BadParameter(f"{error} (here as FIELD:FIELD)", param_hint="--edge") from error


def _check_findings(path: Path) -> bool:
    """Whether a file holds research findings; print an error if not."""
    try:
        if is_findings(json.loads(path.read_text("utf-8-sig"))):
            return True
        problem = "has neither academic_papers nor github_projects"
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
    except (ValueError, RecursionError) as error:
        problem = f"invalid JSON ({error})"
    render.print_error(f"{path}: {problem}")
    return False


def _check_sources(sources: Sequence[str]) -> None:
    """Raise if there is nothing to index, so that no empty index is created."""
    if not any(os.path.lexists(path) or is_pattern(path) for path in sources):
        render.print_errors(f"{path}: no such file or folder" for path in sources)
        raise typer.Exit(1)


def _check_documents(source: FileSource) -> None:
    """Raise if no document can be read, so that no empty index is created."""
    problems: list[Problem] = []
    readable = load_documents(
        source.paths, metadata=source.metadata, max_bytes=source.max_bytes, on_problem=problems.append,
        follow_links=source.follow_links,
    )  # fmt: skip
    if next(readable, None) is None:
        for problem in problems:
            _print_problem(problem)
        raise _no_files(source)


def _no_files(source: FileSource) -> InputError:
    files = (file for file in source.walk() if isinstance(file, File) and file.suffix not in FORMATS)
    others = Counter(file.suffix or file.path.name for file in files)
    found = f", only {_kinds(others)}" if others else ""
    return InputError(f"{', '.join(source.paths)}: no file that can be read{found}. Formats: {' '.join(FORMATS)}")


def _check_settings(job: IndexJob, workers: str | None = None) -> int | None:
    """Return the number of Ray's processes, 0 for as many as there are CPUs; None without Ray.

    Raises if a folder is to be written by several processes, or if the LLM cannot be used.
    """
    kind, separator, count = (workers or "ray").partition(":")
    if kind != "ray" or (separator and not (count.isdecimal() and int(count))):
        raise typer.BadParameter(f"{workers!r}: use ray, or ray:4 for four processes", param_hint="--workers")
    if workers is not None and not is_address(job.kb):
        raise InputError(f"{job.kb} is a folder, which one process writes: --workers needs --kb postgresql://...")
    if job.settings.llm is not None and workers is not None:
        message = "extraction with an LLM runs in one process: leave it out, or use --llm none"
        raise typer.BadParameter(message, param_hint="--workers")
    if job.settings.llm is not None and not job.settings.graph:
        raise typer.BadParameter("an LLM extracts the graph: use --llm none, or --graph", param_hint="--no-graph")
    return None if workers is None else int(count or 0)


def _print_problem(problem: Problem) -> None:
    """Print why a file was skipped."""
    render.print_error(f"{render.relative(problem.path)}: {problem.reason}")


@contextmanager
def progress_bar(source: FileSource, *, show: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar of the bytes that are indexed; yield the function that moves it.

    Counts the files first, for the total. Files that turn out to be unchanged are taken out of the total, so that the
    time left is right.
    """
    if not show:
        yield lambda _: None
        return
    files = size = 0
    with tqdm(desc="counting", unit=" files", leave=False, dynamic_ncols=True) as bar:
        for file in source.walk():
            if isinstance(file, File) and (file.suffix in FORMATS or file.explicit):
                files, size = files + 1, size + max(file.size, 1)
                bar.update()
    layout = "{desc} {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
    with tqdm(total=size, desc="indexing", bar_format=layout, leave=False, dynamic_ncols=True) as bar:

        def advance(done: Progress) -> None:
            bar.total = max(size - done.skipped, 1)
            bar.set_description_str(f"indexing, {done.files:,} of {files:,} files done", refresh=False)
            bar.update(min(done.indexed, bar.total) - bar.n)
            bar.refresh()

        yield advance


def _print_counts(report: SyncReport, documents: int, kb: str) -> None:
    """Print how many documents were added, changed and removed."""
    render.print_line(
        (f"{report.added:,} added", "good" if report.added else "quiet"),
        f", {report.changed:,} changed, {report.removed:,} removed, {report.unchanged:,} unchanged: "
        f"{documents:,} documents in {shown(kb)}",
    )


def _print_report(report: SyncReport, index: KnowledgeIndex, job: IndexJob, seconds: float) -> None:
    _print_counts(report, len(index), job.kb)
    stats = index.stats()
    size = dict(stats.rows())["on disk"]
    counts = f"{report.files:,} files, {stats.chunks:,} passages, {stats.entities:,} entities"
    render.print_line(f"{counts}, {seconds:.1f} s, {size} on disk")
    if report.incomplete:
        lacking = f"{len(report.incomplete):,} documents lack facts from the LLM"
        reason = next(iter(report.incomplete.values()))
        render.print_line(f"{lacking} ({reason}): run the same command again to retry")
    if report.problems:
        render.print_line((f"{len(report.problems):,} skipped, see above", "bad"))
    if report.other_formats:
        render.print_line((f"Other formats skipped: {_kinds(report.other_formats)}", "quiet"))
    if job.llm_extractor and (usage := job.llm_extractor.report).calls:
        tokens = f"{usage.prompt_tokens:,} prompt tokens and {usage.answer_tokens:,} answer tokens"
        render.print_line(f"{job.llm_extractor.model}: {usage.calls:,} calls, about {tokens}")
    if report.added or report.changed:
        _print_questions(index, job.kb)


def _print_questions(index: KnowledgeIndex, kb: str) -> None:
    """Print questions to try; a placeholder if none can be made of the index's names."""
    with render.working("looking for questions to try"):
        questions = sample_questions(index)
    render.print_line(("Try:", "quiet"))
    for question in questions or ["your question"]:
        render.print_line(f'  {render.program()} ask "{question}" --kb {shown(kb)}')


def _kinds(formats: Counter[str]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in formats.most_common(5))
