"""``stats``, ``verify`` and ``delete``: looking after an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from graphrag_core import KnowledgeIndex, Stats
from graphrag_core.cli.opening import FILES, reading
from graphrag_core.cli.options import Json, Kb, Quiet
from graphrag_core.cli.serialising import print_json, stats_to_dict
from graphrag_core.cli.terminal import complain, results
from graphrag_core.errors import NotAnIndex
from graphrag_core.loading import Catalogue

_KB = Path("kb")


def stats(kb: Kb = _KB, json: Json = False) -> None:
    """Show how large the index is and what it speaks of most."""
    with reading(kb, embeds=False) as index:
        if json:
            print_json(stats_to_dict(index.stats()))
        else:
            show_stats(index.stats(), results())


def show_stats(found: Stats, console: Console) -> None:
    """Print stats as a table of two columns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="quiet", no_wrap=True)
    grid.add_column(overflow="fold")
    for line in str(found).splitlines():
        grid.add_row(line[:15].strip(), line[15:])
    if found.relations:
        most = sorted(found.relations.items(), key=lambda pair: (-pair[1], pair[0]))[:8]
        grid.add_row("relations", ", ".join(f"{name} ({count:,})" for name, count in most))
    console.print(grid)


def verify(kb: Kb = _KB, json: Json = False) -> None:
    """Compare records, vectors, keywords and graph with each other, completely."""
    with reading(kb, embeds=False) as index:
        found = index.verify()
    if json:
        print_json({"sound": bool(found), "problems": list(found.problems)})
    elif found:
        results().print(str(found))
    for problem in found.problems:
        complain(problem)
    if not found:
        raise typer.Exit(1)


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Of documents, as hits show them.")],
    kb: Kb = _KB,
    quiet: Quiet = False,
) -> None:
    """Delete documents with everything that was read in them.

    A file that is still there comes back with the next run of index.
    """
    if not (kb / "records.sqlite").is_file():
        raise NotAnIndex(f"there is no index in {kb}")
    with KnowledgeIndex.open(kb) as index:
        missing = [document_id for document_id in ids if document_id not in index]
        count = index.delete(ids)
        if (kb / FILES).is_file():
            with Catalogue(kb / FILES) as catalogue:
                catalogue.forget(ids)
    if not quiet:
        results().print(f"{count:,} deleted")
    for document_id in missing:
        complain(f"{document_id}: there is no such document")
    if missing:
        raise typer.Exit(1)
