"""The commands ``copy`` and ``db init|check|size``: move an index, and administrate a PostgreSQL database."""

from typing import Annotated

import typer
from rich.text import Text

from graphrag_core.cli import options, render
from graphrag_core.engine.address import is_address, shown

_Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        envvar="HYBRID_GRAPHRAG_KB",
        help="postgresql://user@host/database?index=NAME. A password is better kept in PGPASSWORD or ~/.pgpass.",
        show_default=False,
    ),
]

db = typer.Typer(no_args_is_help=True, help="Create, check and measure the tables of a PostgreSQL database.")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A folder, or the address of a database.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A new folder, or the address of an empty index.")],
    quiet: options.Quiet = False,
) -> None:
    """Copy an index between folders and PostgreSQL databases. Nothing is extracted or embedded again.

    Settings, edits, remembered facts and the catalogue of indexed files are copied too. Ctrl-C is safe: the same
    command continues. At the end the counts of both are compared.
    """
    from graphrag_core.transfer import copy_index

    copied = copy_index(source, target, progress=False if quiet else None)
    if not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in copied.counts.items() if count)
        render.print_line(f"copied to {shown(target)}: {counts or 'an empty index'}")


@db.command()
def init(
    url: _Url = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=1024, help="Parts of each large table, for 100 million passages and more. Fixed.")
    ] = 1,
) -> None:
    """Create the extension, the tables and the index, as far as they are missing."""
    from graphrag_core.engine.postgres import operations

    address = _address(url)
    created, found = operations.init(address, partitions=partitions)
    state = "tables created" if created else "the tables are there"
    parts = "" if found == 1 else f", each in {found} partitions"
    render.print_line(f"{shown(address)}: {state}{parts}")


@db.command()
def check(url: _Url = None, json: options.Json = False) -> None:
    """Check the server: version, extension, tables, privileges, and settings that matter. Changes nothing."""
    from graphrag_core.engine.postgres import operations

    checks = operations.check(_address(url))
    if json:
        render.print_json([one._asdict() for one in checks])
    else:
        for one in checks:
            mark = ("✗ ", "bad") if not one.ok else ("· ", "partial") if one.advice else ("✓ ", "good")
            advice = f": {one.advice}" if one.advice else ""
            render.print_line(mark, (f"{one.name} ", "bold"), one.found, advice)
    if not all(one.ok for one in checks):
        raise typer.Exit(1)


@db.command()
def size(url: _Url = None, json: options.Json = False) -> None:
    """Show the size of each table with its indexes, and what each index of the database holds."""
    from graphrag_core.engine.postgres import operations

    tables, indexes = operations.sizes(_address(url))
    if json:
        render.print_json({"tables": [one._asdict() for one in tables], "indexes": [one._asdict() for one in indexes]})
        return
    as_size = operations.as_size
    table = render.make_table("table", "rows", "data", "indexes")
    for one in tables:
        if one.data:
            table.add_row(one.table, f"{one.rows:,}", as_size(one.data), as_size(one.indexes))
    data, index = sum(one.data for one in tables), sum(one.indexes for one in tables)
    table.add_row("all", "", as_size(data), as_size(index), style="bold")
    render.print_table(table)
    render.print_line()
    listed = render.make_table("index", "documents", "passages", "facts")
    for kb in indexes:
        listed.add_row(Text(kb.name), f"{kb.documents:,}", f"{kb.chunks:,}", f"{kb.facts:,}")
    render.print_table(listed)


def _address(url: str | None) -> str:
    if url is None or not is_address(url):
        raise typer.BadParameter("use postgresql://user@host/database?index=NAME", param_hint="URL")
    return url
