"""The commands ``copy`` and ``db init|check|size``: move an index, and administrate a PostgreSQL database."""

from typing import Annotated

import typer
from rich.text import Text
from typer import Argument, Option

from graphrag_apps.cli import render
from graphrag_apps.cli.options import Json, Quiet
from graphrag_apps.copy import copy_index
from graphrag_core.engine.address import is_address, shown

_Url = Annotated[
    str | None,
    Argument(
        metavar="URL",
        envvar="HYBRID_GRAPHRAG_KB",
        help="postgresql://user@host/database?index=NAME. A password is better kept in PGPASSWORD or ~/.pgpass.",
    ),
]

db = typer.Typer(no_args_is_help=True, help="Create, check and measure the tables of a PostgreSQL database.")


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


@db.command()
def init(
    url: _Url = None,
    partitions: Annotated[
        int, Option(min=1, max=1024, help="Parts of each large table, for 100 million passages and more. Fixed.")
    ] = 1,
) -> None:
    """Create the extension, the tables and the index, as far as they are missing."""
    from graphrag_core.engine.postgres import operations

    address = _address(url)
    with render.working("creating tables"):
        created, existing = operations.init(address, partitions=partitions)
    state = "tables created" if created else "the tables are there"
    parts = "" if existing == 1 else f", each in {existing} partitions"
    render.print_line(f"{shown(address)}: {state}{parts}")


@db.command()
def check(url: _Url = None, json: Json = False) -> None:
    """Check the server: version, extension, tables, privileges, and settings that matter. Changes nothing."""
    from graphrag_core.engine.postgres import operations

    address = _address(url)
    with render.working("checking the server"):
        checks = operations.check(address)
    if json:
        render.print_json([line._asdict() for line in checks])
    else:
        for line in checks:
            mark = ("✗ ", "bad") if not line.ok else ("· ", "partial") if line.advice else ("✓ ", "good")
            advice = f": {line.advice}" if line.advice else ""
            render.print_line(mark, (f"{line.name} ", "bold"), line.found, advice)
    if not all(line.ok for line in checks):
        raise typer.Exit(1)


@db.command()
def size(url: _Url = None, json: Json = False) -> None:
    """Show the size of each table with its indexes, and what each index of the database holds."""
    from graphrag_core.engine.postgres import operations

    address = _address(url)
    with render.working("counting"):
        tables, indexes = operations.sizes(address)
    if json:
        listed = {"tables": [row._asdict() for row in tables], "indexes": [row._asdict() for row in indexes]}
        render.print_json(listed)
        return
    as_size = operations.as_size
    rows = [(row.table, f"{row.rows:,}", as_size(row.data), as_size(row.indexes)) for row in tables if row.data]
    total = ("all", "", as_size(sum(row.data for row in tables)), as_size(sum(row.indexes for row in tables)))
    render.print_table(("table", "rows", "data", "indexes"), [*rows, total], bold="all")
    render.print_line()
    sizes = [(Text(kb.name), f"{kb.documents:,}", f"{kb.chunks:,}", f"{kb.facts:,}") for kb in indexes]
    render.print_table(("index", "documents", "passages", "facts"), sizes)


def _address(url: str | None) -> str:
    if url is None or not is_address(url):
        raise typer.BadParameter("use postgresql://user@host/database?index=NAME", param_hint="URL")
    return url
