"""All commands under one name, and what holds for each of them."""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphrag_core import __version__
from graphrag_core.cli.asking import explain, query
from graphrag_core.cli.comparing import compare
from graphrag_core.cli.demonstrating import demo
from graphrag_core.cli.indexing import index
from graphrag_core.cli.options import Style
from graphrag_core.cli.terminal import complain
from graphrag_core.cli.upkeep import delete, stats, verify
from graphrag_core.errors import GraphRAGError

_BARE = ("--load", "--query", "--method", "--stats")  # may stand without the word "query" before them


class Commands(TyperGroup):
    """Turns errors of the library into one line, and bare ``--query`` options into the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front where it was left out."""
        if args and args[0].split("=")[0] in _BARE:
            args = ["query", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except GraphRAGError as error:
            complain(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            complain("stopped")
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Index files into passages, entities and facts; ask them by vector, keyword and graph; see why.\n\n"
        "The index lies in the folder **kb** unless --kb, --out or HYBRID_GRAPHRAG_KB says otherwise. "
        "Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 something was left out or not "
        "found, 2 wrong usage, 130 stopped by Ctrl-C. NO_COLOR is honoured."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hybrid-graphrag {__version__}\n")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options before any command."""


class Query(TyperCommand):
    """Lets ``--context`` stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare ``--context`` the style it has by default."""
        spelled = []
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            spelled.append(word)
            if word in ("--context", "-c") and following not in set(Style):
                spelled.append(Style.graph.value)
        return super().parse_args(ctx, spelled)


for _command in (demo, index, query, explain, compare, stats, verify, delete):
    app.command(cls=Query if _command is query else None)(_command)
