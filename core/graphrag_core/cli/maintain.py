"""The commands ``stats``, ``verify``, ``backup`` and ``delete``."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graphrag_core.cli import options, render
from graphrag_core.documents import CATALOGUE, Catalogue, has_catalogue, open_catalogue
from graphrag_core.engine.address import is_address


def stats(kb: options.Kb = options.KB, json: options.Json = False) -> None:
    """Show the size of the index and its most frequent entities."""
    with options.open_index(kb, embeds=False) as index:
        render.show_stats(index.stats(), as_json=json)


def verify(kb: options.Kb = options.KB, json: options.Json = False) -> None:
    """Check that records, vectors, keywords and graph are consistent."""
    with options.open_index(kb, embeds=False) as index:
        found = index.verify()
    if json:
        render.print_json({"sound": bool(found), "problems": list(found.problems)})
    elif found:
        render.stdout().print(str(found))
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
            Catalogue.copy(Path(kb) / CATALOGUE, files)
        index.backup(to)
        if files.exists():
            shutil.copyfile(files, to / CATALOGUE)
    if not quiet:
        render.stdout().print(f"copied to {to}")


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Document ids, such as guide.md or people.csv#7.")],
    kb: options.Kb = options.KB,
    quiet: options.Quiet = False,
) -> None:
    """Delete documents with their passages, entities and facts.

    If the file of a deleted document still exists, the next run of index adds it again.
    """
    with options.open_index(kb, embeds=False, read_only=False) as index:
        missing = [document_id for document_id in ids if document_id not in index]
        count = index.delete(ids)
        if has_catalogue(kb):
            with open_catalogue(kb) as catalogue:
                catalogue.remove_documents(ids)
    if not quiet:
        render.stdout().print(f"{count:,} deleted")
    for document_id in missing:
        render.print_error(f"{document_id}: no such document")
    if missing:
        raise typer.Exit(1)
