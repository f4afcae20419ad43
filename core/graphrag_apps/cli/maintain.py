"""The commands ``stats``, ``verify``, ``backup``, ``copy`` and ``delete``."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, Json, Kb, Quiet
from graphrag_apps.copy import copy_index
from graphrag_apps.documents.catalogue import CATALOGUE, Catalogue, CatalogueEntry, has_catalogue, open_catalogue
from graphrag_apps.documents.walk import is_pattern, split_pattern
from graphrag_core import KnowledgeIndex
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import GraphRAGError

_MANY = 10  # documents that are deleted without asking
_MAX_RELATIONS = 8


def stats(kb: Kb = KB, json: Json = False) -> None:
    """Show the size of the index and its most frequent entities."""
    with options.open_index(kb, embeds=False) as index, render.working("counting"):
        sizes = index.stats()
    if json:
        top = [{"name": name, "mentions": count} for name, count in sizes.top_entities]
        render.print_json({**asdict(sizes), "top_entities": top})
        return
    frequent = sorted(sizes.relations.items(), key=lambda item: (-item[1], item[0]))[:_MAX_RELATIONS]
    relations = ", ".join(f"{name} ({count:,})" for name, count in frequent)
    render.print_rows([*sizes.rows(), *([("relations", relations)] if relations else [])])


def verify(kb: Kb = KB, json: Json = False) -> None:
    """Check that records, vectors, keywords and graph are consistent."""
    with options.open_index(kb, embeds=False) as index, render.working("verifying"):
        report = index.verify()
    if json:
        render.print_json({"sound": bool(report), "problems": list(report.problems)})
    elif report:
        render.print_line(str(report))
    render.print_errors(report.problems)


def backup(
    to: Annotated[Path, Argument(metavar="FOLDER", help="A folder that does not exist, or is empty.")],
    kb: Kb = KB,
    quiet: Quiet = False,
) -> None:
    """Copy the index to another folder, also while it is being written.

    To restore it, put the copy in the place of the index, or use it with --kb.
    """
    with options.open_index(kb, embeds=False) as index, TemporaryDirectory() as temporary:
        # The catalogue first: files that are indexed meanwhile are read again, and none is taken for indexed.
        files = Path(temporary) / CATALOGUE
        if not is_address(kb) and has_catalogue(kb):
            with open_catalogue(kb, read_only=True) as catalogue, open_catalogue(temporary) as copied:
                copied.copy_from(catalogue)
        with render.working("copying", show=not quiet):
            index.backup(to)
        if files.exists():
            shutil.copyfile(files, to / CATALOGUE)
    if not quiet:
        render.print_line(f"copied to {to}")


def copy(
    source: Annotated[str, Argument(metavar="FROM", help="A folder, or the address of a database.")],
    target: Annotated[str, Argument(metavar="TO", help="A new folder, or the address of an empty index.")],
    quiet: Quiet = False,
) -> None:
    """Copy an index between folders and PostgreSQL databases. Nothing is extracted or embedded again.

    Settings, edits, remembered facts and the catalogue of indexed files are copied too. Ctrl-C is safe: the same
    command continues. At the end the counts of both are compared.
    """
    copied = copy_index(source, target, progress=False if quiet else None)
    if not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in copied.counts.items() if count)
        render.print_line(f"copied to {shown(target)}: {counts or 'an empty index'}")


def delete(
    targets: Annotated[
        list[str],
        Argument(
            metavar="ID|FILE|FOLDER",
            help="Document ids, such as guide.md or people.csv#7; files, folders and glob patterns, for all documents "
            "that came from them.",
        ),
    ],
    kb: Kb = KB,
    yes: Annotated[bool, Option("--yes", "-y", help="Delete many documents without confirmation.")] = False,
    quiet: Quiet = False,
) -> None:
    """Delete documents with their passages, entities and facts.

    If the file of a deleted document still exists, the next run of index adds it again.
    """
    with ExitStack() as opened:
        index = opened.enter_context(options.open_index(kb, embeds=False, write=True))
        catalogue = opened.enter_context(open_catalogue(kb)) if has_catalogue(kb) else None
        selected = {target: _select(target, index, catalogue) for target in dict.fromkeys(targets)}
        ids = list(dict.fromkeys(chain.from_iterable(documents for documents, _ in selected.values())))
        files = list({entry.key: entry for _, entries in selected.values() for entry in entries}.values())
        if not yes and len(ids) > max(_MANY, len(targets)):
            _confirm(ids, files, catalogue)
        with render.working("deleting", show=not quiet):
            count = index.delete(ids)
        if catalogue is not None:
            for entry in files:
                catalogue.remove_file(entry)
            catalogue.remove_documents(ids)
    if not quiet:
        render.print_line(f"{count:,} deleted")
    render.print_errors(f"{target}: no such document" for target, (documents, _) in selected.items() if not documents)


def _confirm(ids: list[str], files: list[CatalogueEntry], catalogue: Catalogue | None) -> None:
    """Ask before many documents are deleted."""
    count = sum(1 for entry in files if catalogue is not None and catalogue.documents(entry))
    of_files = f" of {count:,} files" if count > 1 else ""
    if not typer.confirm(f"{len(ids):,} documents{of_files} will be deleted. Continue?", err=True):
        raise GraphRAGError("nothing was deleted")


def _select(target: str, index: KnowledgeIndex, catalogue: Catalogue | None) -> tuple[list[str], list[CatalogueEntry]]:
    """Return the documents that a target names, and the files that lose all of their documents.

    A target is the id of a document, else a file, a folder or a pattern of files, else a pattern of ids.
    """
    if target in index:
        return [target], []
    matches = _matcher(target)
    if catalogue is not None:
        files = [entry for entry in catalogue.files() if matches(entry.name, entry.path)]
        documents = [document_id for entry in files for document_id in catalogue.documents(entry)]
        if documents:
            return [document_id for document_id in documents if document_id in index], files
    ids = index.document_ids() if is_pattern(target) else ()
    return [document_id for document_id in ids if matches(document_id, "")], []


def _matcher(target: str) -> Callable[[str, str], bool]:
    """Return a function that tells, by name and path, whether a file is the target, is in it, or matches it."""
    name, path = target.replace(os.sep, "/").rstrip("/"), os.path.abspath(target)
    if not is_pattern(target) or os.path.lexists(target):
        by_name, by_path = (f"{re.escape(text)}(/.*)?" for text in (name, path.replace(os.sep, "/").rstrip("/")))
    else:
        folder, files = split_pattern(target)
        by_path = f"{re.escape(folder.as_posix())}/{files.pattern}"
        by_name = split_pattern(name)[1].pattern if is_pattern(PurePosixPath(name).parts[0]) else "(?!)"

    def matches(file_name: str, file_path: str) -> bool:
        texts = ((by_name, file_name), (by_path, file_path.replace(os.sep, "/")))
        return any(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in texts)

    return matches
