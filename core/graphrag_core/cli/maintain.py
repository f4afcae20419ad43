"""The commands ``stats``, ``verify``, ``backup`` and ``delete``."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graphrag_core import KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.documents.catalogue import CATALOGUE, Catalogue, CatalogueEntry, has_catalogue, open_catalogue
from graphrag_core.documents.walk import is_pattern, split_pattern
from graphrag_core.engine.address import is_address

_MANY = 10  # documents that are deleted without asking
_MAX_RELATIONS = 8


def stats(kb: options.Kb = options.KB, json: options.Json = False) -> None:
    """Show the size of the index and its most frequent entities."""
    with options.open_index(kb, embeds=False) as index:
        found = index.stats()
    if json:
        top = [{"name": name, "mentions": count} for name, count in found.top_entities]
        render.print_json({**asdict(found), "top_entities": top})
        return
    rows = found.rows()
    if found.relations:
        frequent = sorted(found.relations.items(), key=lambda item: (-item[1], item[0]))[:_MAX_RELATIONS]
        rows = [*rows, ("relations", ", ".join(f"{name} ({count:,})" for name, count in frequent))]
    render.print_rows(rows)


def verify(kb: options.Kb = options.KB, json: options.Json = False) -> None:
    """Check that records, vectors, keywords and graph are consistent."""
    with options.open_index(kb, embeds=False) as index:
        found = index.verify()
    if json:
        render.print_json({"sound": bool(found), "problems": list(found.problems)})
    elif found:
        render.print_line(str(found))
    for problem in found.problems:
        render.print_error(problem)
    if not found:
        raise typer.Exit(1)


def backup(
    to: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that does not exist, or is empty.")],
    kb: options.Kb = options.KB,
    quiet: options.Quiet = False,
) -> None:
    """Copy the index to another folder, also while it is being written.

    To restore it, put the copy in the place of the index, or use it with --kb.
    """
    with options.open_index(kb, embeds=False) as index, TemporaryDirectory() as temporary:
        # The catalogue first: files that are indexed meanwhile are read again, and none is taken for indexed.
        files = Path(temporary) / CATALOGUE
        if not is_address(kb) and has_catalogue(kb):
            with open_catalogue(kb, read_only=True) as catalogue, open_catalogue(temporary) as copy:
                copy.copy_from(catalogue)
        index.backup(to)
        if files.exists():
            shutil.copyfile(files, to / CATALOGUE)
    if not quiet:
        render.print_line(f"copied to {to}")


def delete(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ID|FILE|FOLDER",
            help="Document ids, such as guide.md or people.csv#7; files, folders and glob patterns, for all documents "
            "that came from them.",
        ),
    ],
    kb: options.Kb = options.KB,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before deleting many documents.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Delete documents with their passages, entities and facts.

    If the file of a deleted document still exists, the next run of index adds it again.
    """
    with ExitStack() as opened:
        index = opened.enter_context(options.open_index(kb, embeds=False, write=True))
        catalogue = opened.enter_context(open_catalogue(kb)) if has_catalogue(kb) else None
        chosen = {target: _chosen(target, index, catalogue) for target in dict.fromkeys(targets)}
        files = {entry.key: entry for _, entries in chosen.values() for entry in entries}
        ids = list(dict.fromkeys(document_id for documents, _ in chosen.values() for document_id in documents))
        if len(ids) > _MANY and len(ids) > len(targets) and not yes:
            full = sum(1 for entry in files.values() if catalogue is not None and catalogue.documents(entry))
            of = f" of {full:,} files" if full > 1 else ""
            if not typer.confirm(f"{len(ids):,} documents{of} will be deleted. Continue?", err=True):
                render.print_error("nothing was deleted")
                raise typer.Exit(1)
        count = index.delete(ids)
        if catalogue is not None:
            for entry in files.values():
                catalogue.remove_file(entry)
            catalogue.remove_documents(ids)
    missing = [target for target, (documents, _) in chosen.items() if not documents]
    if not quiet:
        render.print_line(f"{count:,} deleted")
    for target in missing:
        render.print_error(f"{target}: no such document")
    if missing:
        raise typer.Exit(1)


def _chosen(target: str, index: KnowledgeIndex, catalogue: Catalogue | None) -> tuple[list[str], list[CatalogueEntry]]:
    """Return the documents that a target names, and the files that lose all of theirs.

    A target is a document's id, else a file, a folder or a pattern of files, else a pattern of ids.
    """
    if target in index:
        return [target], []
    matches = _matcher(target)
    if catalogue is not None:
        files = [entry for entry in catalogue.files() if matches(entry.name, entry.path)]
        documents = [document_id for entry in files for document_id in catalogue.documents(entry)]
        if documents:
            return [one for one in documents if one in index], files
    return [one for one in index.document_ids() if matches(one, "")] if is_pattern(target) else [], []


def _matcher(target: str) -> Callable[[str, str], bool]:
    """Return a function that tells, by name and path, whether a file is the target, is in it, or matches it."""
    name, path = target.replace(os.sep, "/").rstrip("/"), os.path.abspath(target)
    if not is_pattern(target) or os.path.lexists(target):
        by_name, by_path = (f"{re.escape(one)}(/.*)?" for one in (name, path.replace(os.sep, "/").rstrip("/")))
    else:
        folder, files = split_pattern(target)
        by_path = f"{re.escape(folder.as_posix())}/{files.pattern}"
        by_name = split_pattern(name)[1].pattern if is_pattern(PurePosixPath(name).parts[0]) else "(?!)"

    def matches(own: str, at: str) -> bool:
        found = re.fullmatch(by_name, own, re.DOTALL) or re.fullmatch(by_path, at.replace(os.sep, "/"), re.DOTALL)
        return found is not None

    return matches
