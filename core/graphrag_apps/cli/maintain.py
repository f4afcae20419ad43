"""The commands ``stats``, ``verify``, ``backup``, ``copy`` and ``delete``."""

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, Json, Kb, Quiet
from graphrag_apps.copy import copy_index
from graphrag_apps.documents.sync import IndexedFile, indexed_files
from graphrag_apps.documents.walk import is_pattern, split_pattern
from graphrag_core import KnowledgeIndex
from graphrag_core.engine.address import shown
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
    with options.open_index(kb, embeds=False) as index, render.working("copying", show=not quiet):
        index.backup(to)
    if not quiet:
        render.print_line(f"copied to {to}")


def copy(
    source: Annotated[str, Argument(metavar="FROM", help="A folder, or the address of a database.")],
    target: Annotated[str, Argument(metavar="TO", help="A new folder, or the address of an empty index.")],
    quiet: Quiet = False,
) -> None:
    """Copy an index between folders and PostgreSQL databases. Nothing is extracted or embedded again.

    Settings, edits, remembered facts and which files were indexed are copied too. Ctrl-C is safe: the same
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
    with options.open_index(kb, embeds=False, write=True) as index:
        known = indexed_files(index)
        selected = {target: _select(target, index, known) for target in dict.fromkeys(targets)}
        ids = list(dict.fromkeys(chain.from_iterable(documents for documents, _ in selected.values())))
        if not yes and len(ids) > max(_MANY, len(targets)):
            _confirm(ids, {file.place for _, files in selected.values() for file in files})
        with render.working("deleting", show=not quiet):
            count = index.delete(ids)
    if not quiet:
        render.print_line(f"{count:,} deleted")
    render.print_errors(f"{target}: no such document" for target, (documents, _) in selected.items() if not documents)


def _confirm(ids: Sequence[str], files: Collection[str]) -> None:
    """Ask before many documents are deleted."""
    of_files = f" of {len(files):,} files" if len(files) > 1 else ""
    if not typer.confirm(f"{len(ids):,} documents{of_files} will be deleted. Continue?", err=True):
        raise GraphRAGError("nothing was deleted")


def _select(target: str, index: KnowledgeIndex, known: Sequence[IndexedFile]) -> tuple[list[str], list[IndexedFile]]:
    """Return the documents that a target names, and the files that lose all of their documents.

    A target is the id of a document, else a file, a folder or a pattern of files, else a pattern of ids.
    """
    if target in index:
        return [target], []
    matches = _matcher(target)
    if files := [file for file in known if matches(file.name, file.path)]:
        return [one for file in files for one in index.engine.documents_of_file(file.place)], files
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
