"""The commands ``stats``, ``verify``, ``backup`` and ``delete``."""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

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
        files = {entry.key: entry for found in chosen.values() for entry in found.files}
        ids = list(dict.fromkeys(document_id for found in chosen.values() for document_id in found.documents))
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
    missing = [target for target, found in chosen.items() if not found.documents]
    if not quiet:
        render.print_line(f"{count:,} deleted")
    for target in missing:
        render.print_error(f"{target}: no such document")
    if missing:
        raise typer.Exit(1)


class _Chosen(NamedTuple):
    """Documents, and the files that lose all of theirs."""

    documents: list[str]
    files: list[CatalogueEntry]


def _chosen(target: str, index: KnowledgeIndex, catalogue: Catalogue | None) -> _Chosen:
    """Return what a target names: a document by its id, else the documents of files, else ids that match a pattern."""
    if target in index:
        return _Chosen([target], [])
    matches = _matcher(target)
    if catalogue is not None:
        files = [entry for entry in catalogue.files() if matches(entry.name, entry.path)]
        documents = [document_id for entry in files for document_id in catalogue.documents(entry)]
        if documents:
            return _Chosen([one for one in documents if one in index], files)
    if not is_pattern(target):
        return _Chosen([], [])
    return _Chosen([one for one in index.document_ids() if matches(one, "")], [])


def _matcher(target: str) -> Callable[[str, str], bool]:
    """Return a function that tells, by name and path, whether a file is the target, is in it, or matches it."""
    name, path = target.replace(os.sep, "/").rstrip("/"), os.path.abspath(target)
    if not is_pattern(target) or os.path.lexists(target):
        inside = path.rstrip(os.sep) + os.sep
        return lambda own, at: own == name or own.startswith(f"{name}/") or at == path or at.startswith(inside)
    by_name = split_pattern(name)[1] if is_pattern(PurePosixPath(name).parts[0]) else None
    folder, by_path = split_pattern(target)
    prefix = f"{folder}{os.sep}"

    def matches(own: str, at: str) -> bool:
        if by_name is not None and by_name.fullmatch(own):
            return True
        return at.startswith(prefix) and bool(by_path.fullmatch(at.removeprefix(prefix).replace(os.sep, "/")))

    return matches
