"""The commands that write documents: ``index``, ``rebuild`` and ``delete``."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import IndexSettings, Kb
from graphrag_apps.cli.suggest import sample_questions
from graphrag_apps.documents import FORMATS, FileSource, Problem, Progress, SyncReport, load_documents, sync_files
from graphrag_apps.documents.sync import indexed_files
from graphrag_apps.documents.walk import File
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.edges import parse_edges
from graphrag_core.llm import KEY_VARIABLE, OpenAIChat, parse_llm

if TYPE_CHECKING:
    from graphrag_core.extract import LLMExtractor

_BATCH, _LLM_BATCH = 500, 25  # documents in a transaction
_ANSWERS = "answers.sqlite"  # of a language model, beside the records
_ASKED = 10  # documents that are deleted without a question

_Embedder = Annotated[str | None, Option("--embedder", help="wordllama, openai:MODEL, ollama:MODEL, onnx:FOLDER, hash, none.")]  # fmt: skip # noqa: E501
_EmbedderUrl = Annotated[str | None, Option("--embedder-url", help="The server of openai:MODEL or ollama:MODEL.")]
_Graph = Annotated[bool | None, Option("--graph/--no-graph", help="Whether entities and facts are extracted.")]
_Llm = Annotated[str | None, Option("--llm", help="A model that extracts facts, too; none for none from now on.")]
_Quiet = Annotated[bool, Option("--quiet", "-q", help="Print problems only.")]


@contextmanager
def _extractor(place: str, settings: IndexSettings) -> Iterator[LLMExtractor | None]:
    """Yield the language model that extracts facts, which is checked before anything is written; None for none."""
    if settings.llm is None:
        yield None
        return
    if not settings.graph:
        raise typer.BadParameter("an LLM extracts the graph: use --llm none, or --graph", param_hint="--no-graph")
    from graphrag_core.extract import LLMExtractor

    url, name = settings.llm
    model = OpenAIChat(name, url, api_key=os.environ.get(KEY_VARIABLE, ""))
    try:
        model.check()
        folder = Path(place)
        if is_address(place):
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hybrid-graphrag"
            folder.mkdir(parents=True, exist_ok=True)
        elif not KnowledgeIndex.exists(place):  # its answers are kept in the folder of the index
            KnowledgeIndex.open(place).close()
        yield LLMExtractor(model, cache=folder / _ANSWERS, model=name, retries=1, backoff=0, progress=False)
    finally:
        model.close()


def _settings(kb: str | None, llm: str | None, **changes: Any) -> tuple[str, IndexSettings]:
    """Return the place of the index, and its settings with changes."""
    place, _ = options.index_place(kb)
    model = None if llm is None else () if llm == "none" else parse_llm(llm, os.environ.get("OPENAI_BASE_URL"))
    settings = IndexSettings.load(place, llm=model, **changes)
    return place, replace(settings, llm=settings.llm or None)


def _parts(settings: IndexSettings, llm: LLMExtractor | None) -> dict[str, Any]:
    """Return how documents are embedded, cut and read, and how many are one transaction."""
    parts = settings.parts() if llm is None else settings.parts(llm)
    model = options.make_embedder(settings.embedder, settings.embedder_url)
    return {**parts, "embedder": model, "batch_size": _BATCH if llm is None else _LLM_BATCH}


def index(
    paths: Annotated[
        list[str],
        Argument(metavar="PATH...", help=f"Folders, files and glob patterns. Formats: {' '.join(FORMATS)} "),
    ],
    kb: Kb = None,
    embedder: _Embedder = None,
    embedder_url: _EmbedderUrl = None,
    llm: _Llm = None,
    graph: _Graph = None,
    chunk_size: Annotated[int | None, Option(min=16, help="Tokens per passage; 256 in a new index.")] = None,
    embed_names: Annotated[bool | None, Option(help="Whether names get vectors: for two of the designs.")] = None,
    metadata: Annotated[list[str] | None, Option(metavar="KEY=VALUE", help="Of all documents; repeatable.")] = None,
    edge: Annotated[
        list[str] | None, Option(metavar="FIELD:FIELD", help="Link documents by metadata: author:author, links:id.")
    ] = None,
    max_size: Annotated[int, Option(min=1, help="Skip larger files, in MB.")] = 100,
    keep_missing: Annotated[bool, Option("--keep-missing", help="Keep the documents of deleted files.")] = False,
    follow_links: Annotated[bool, Option("--follow-links", help="Follow links out of a folder.")] = False,
    workers: Annotated[int | None, Option(min=1, help="Index into PostgreSQL by so many processes of Ray.")] = None,
    quiet: _Quiet = False,
) -> None:  # fmt: skip
    """Bring the index up to date with files.

    New ones are added, changed ones replaced, missing ones deleted. Ctrl-C is safe: the next run continues.
    """
    place, settings = _settings(
        kb, llm, embedder=embedder, embedder_url=embedder_url, chunk_size=chunk_size, graph=graph
    )
    start = time.perf_counter()
    if workers and settings.llm:
        message = "extraction with an LLM runs in one process: leave it out, or use --llm none"
        raise typer.BadParameter(message, param_hint="--workers")
    if workers and not is_address(place):
        raise InputError(f"{place} is a folder, which one process writes: --workers needs --kb postgresql://...")
    given = options.parse_pairs(metadata, "--metadata")
    source = FileSource(tuple(paths), given, max_size * 1_000_000, follow_links=follow_links)
    more: dict[str, Any] = {"edges": _edges(edge), "embed_names": embed_names}
    _check_files(source, place)
    with _extractor(place, settings) as extractor:
        parts = _parts(settings, extractor)
        source = replace(source, pipeline=f"{parts['extractor'].identity} {parts['chunker'].identity}")
        with KnowledgeIndex.open(place, progress=False, **parts, **more) as opened:
            report = _sync(opened, place, source, workers, quiet, keep_missing, embed_names=embed_names, **parts)
            settings.save(opened)
            if not report.files and not report.removed and len(opened) == report.unchanged == 0:
                raise _no_files(source)
            if not quiet:
                _show_report(report, opened, place, time.perf_counter() - start, extractor)
    for document_id, problem in report.incomplete.items():
        output.error(f"{document_id}: {problem}")
    if report.problems or report.incomplete:
        raise typer.Exit(1)


def _check_files(source: FileSource, place: str) -> None:
    """Raise if nothing can be read, so that no empty index is created."""
    if KnowledgeIndex.exists(place):
        return
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


def _kinds(formats: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in formats.most_common(8))


def _edges(edges: Sequence[str] | None) -> list[Any] | None:
    """Return the edges that ``--edge`` names; None without the option."""
    if edges is None:
        return None
    try:
        return list(parse_edges([tuple(edge.split(":")) if ":" in edge else (edge, edge) for edge in edges]))
    except InputError as error:
        raise typer.BadParameter(f"{error} (here as FIELD:FIELD)", param_hint="--edge") from error


def _sync(
    opened: KnowledgeIndex, place: str, source: FileSource, workers: int | None, quiet: bool, keep_missing: bool,
    **parts: Any,
) -> SyncReport:  # fmt: skip
    """Index the files; with ``workers`` on Ray. An interrupt keeps what was done."""
    before = len(opened)
    try:
        if workers is None:
            with _progress(source, quiet=quiet) as advance:
                return sync_files(
                    opened, source, on_progress=advance, keep_missing=keep_missing, on_problem=_print_problem
                )
        from graphrag_apps import bulk

        return bulk.sync_files(
            source, place, workers=workers, progress=None if not quiet else False,
            keep_missing=keep_missing, on_problem=_print_problem, **parts,
        )  # fmt: skip
    except KeyboardInterrupt:
        stay = f"{len(opened):,} documents are in the index and stay, {len(opened) - before:,} of them new"
        output.error(f"interrupted: {stay}; run the same command again to continue")
        raise typer.Exit(130) from None


@contextmanager
def _progress(source: FileSource, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Show on a terminal how many bytes of the files are done."""
    console = output.stderr()
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress as Bar

    files = [file for file in source.walk() if isinstance(file, File) and (file.explicit or file.suffix in FORMATS)]
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("indexing", total=sum(max(file.size, 1) for file in files))

        def advance(done: Progress) -> None:
            text = f"indexing, {done.files:,} of {len(files):,} files done"
            bar.update(task, description=text, completed=done.indexed + done.skipped)

        yield advance


def _print_problem(problem: Problem) -> None:
    """Print why a file was skipped."""
    path = os.path.relpath(problem.path) if Path(problem.path).is_relative_to(Path.cwd()) else problem.path
    output.error(f"{path}: {problem.reason}")


def _show_report(
    report: SyncReport, opened: KnowledgeIndex, place: str, seconds: float, llm: LLMExtractor | None
) -> None:
    """Print what was done, what the index holds, and questions to try."""
    counts = {name: getattr(report, name) for name in ("added", "changed", "removed", "unchanged")}
    done = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    output.line(f"{done}: {len(opened):,} documents in {shown(place)}")
    stats = opened.stats()
    output.line(f"{report.files:,} files, {stats.chunks:,} passages, {stats.entities:,} entities, {seconds:.1f} s")
    if llm is not None:
        tokens = f"{llm.report.prompt_tokens:,} tokens read, {llm.report.answer_tokens:,} written"
        output.line(f"{llm.model}: {llm.report.calls:,} calls, about {tokens}")
    if report.problems:
        output.line(f"{len(report.problems):,} skipped, see above")
    if report.other_formats:
        output.line(f"Other formats skipped: {_kinds(report.other_formats)}")
    if report.incomplete:
        output.line(f"{len(report.incomplete):,} documents lack facts from the LLM; the next run asks for them again")
    if report.added or report.changed:
        questions = sample_questions(opened) or ["your question"]
        output.line("Try:")
        for question in questions:
            output.line(f'  hybrid-graphrag ask "{question}" --kb {shown(place)}')


def rebuild(
    kb: Kb = None,
    embedder: _Embedder = None,
    embedder_url: _EmbedderUrl = None,
    llm: _Llm = None,
    graph: _Graph = None,
    quiet: _Quiet = False,
) -> None:
    """Extract entities and facts again from the stored documents.

    The search indexes are built again, too. Use it after an upgrade, or to extract with other settings. Only
    passages that change are embedded. Remembered facts and edits
    of the graph are kept. Ctrl-C is safe: run the same command again.
    """
    options.check_exists(options.index_place(kb)[0])
    place, settings = _settings(kb, llm, embedder=embedder, embedder_url=embedder_url, graph=graph)
    with (
        _extractor(place, settings) as extractor,
        KnowledgeIndex.open(place, progress=sys.stderr.isatty() and not quiet, **_parts(settings, extractor)) as opened,
    ):
        report = opened.rebuild()
        if settings.is_stored(opened):
            settings.save(opened)
    if not quiet:
        output.line(f"{report.replaced:,} documents extracted again in {shown(place)}")
    for document_id, problem in report.problems.items():
        output.error(f"{document_id}: {problem}: it keeps its entities and facts")


# -- delete


def delete(
    targets: Annotated[list[str], Argument(metavar="TARGET...", help="Ids, files, folders and patterns of ids.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask before many documents are deleted.")] = False,
    quiet: _Quiet = False,
    kb: Kb = None,
) -> None:
    """Delete documents, also from the graph.

    Exactly what they added is deleted. A file that still exists is added again by the next index.
    """
    with options.open_index(kb, embeds=False, write=True) as opened:
        found = {target: _select(target, opened) for target in targets}
        ids = list(dict.fromkeys(chain.from_iterable(found.values())))
        if len(ids) > _ASKED and not yes:
            output.error(f"{len(ids):,} documents will be deleted, such as {ids[0]}", mark="")
            typer.confirm("Delete them?", abort=True, err=True)
        count = opened.delete(ids) if ids else 0
    if not quiet and count:
        output.line(f"{count:,} deleted")
    missing = [target for target, own in found.items() if not own]
    for target in missing:
        output.error(f"{target}: no such document")
    if missing:
        raise typer.Exit(1)


def _select(target: str, opened: KnowledgeIndex) -> list[str]:
    """Return the documents of an id, a file, a folder or a pattern of ids."""
    if target in opened:
        return [target]
    name, path = target.rstrip("/"), Path(target).absolute()
    files = [
        file
        for file in indexed_files(opened)
        if file.name == name or file.name.startswith(f"{name}/") or Path(file.path).is_relative_to(path)
    ]
    of_files = {one for file in files for one in opened.engine.documents_of_file(file.place)}
    return [one for one in opened.document_ids() if one in of_files or fnmatchcase(one, target)]
