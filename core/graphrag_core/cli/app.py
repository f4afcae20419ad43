"""The command-line application: all commands, and how errors become exit codes."""

import logging
import sys
from itertools import zip_longest
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from graphrag_core import __version__
from graphrag_core.cli import options
from graphrag_core.cli.ask import ask, communities
from graphrag_core.cli.compare import compare
from graphrag_core.cli.config import config, default_map, read_config
from graphrag_core.cli.database import copy, db
from graphrag_core.cli.demo import demo
from graphrag_core.cli.explore import explore
from graphrag_core.cli.graph import COMMANDS as GRAPH_COMMANDS
from graphrag_core.cli.index import index
from graphrag_core.cli.maintain import backup, delete, stats, verify
from graphrag_core.cli.memory import confirm, forget, memories, reject, remember
from graphrag_core.cli.query import explain, query
from graphrag_core.cli.render import LogHandler, print_error
from graphrag_core.cli.serve import key, mcp, serve
from graphrag_core.cli.watch import watch
from graphrag_core.context import Style, for_terminal
from graphrag_core.errors import GraphRAGError
from graphrag_core.filters import EXISTS

_QUERY_OPTIONS = ("--load", "--query", "--method", "--stats")  # accepted without the command "query"


class Commands(TyperGroup):
    """Prints errors of the library in one line, and accepts query options without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command ``query`` before its options."""
        if args and args[0].split("=")[0] in _QUERY_OPTIONS:
            args = ["query", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except GraphRAGError as error:
            print_error(str(error).replace(EXISTS, "--where 'KEY?'"))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            print_error("interrupted")
            raise typer.Exit(130) from error


class Query(TyperCommand):
    """Accepts ``--context`` without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default style after a bare ``--context``."""
        completed = []
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            completed.append(word)
            if word in ("--context", "-c") and following not in get_args(Style):
                completed.append("graph")
        return super().parse_args(ctx, completed)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Search documents by vector, keyword and knowledge graph, and see why each passage was found.\n\n"
        'Try **demo** first. Then run **index FOLDER** and **ask "your question"**.\n\n'
        "The index is stored in the folder **kb**; set another one, or the address of a PostgreSQL database, with --kb "
        "or HYBRID_GRAPHRAG_KB. "
        "Results go to stdout, messages and progress to stderr. Set NO_COLOR to disable colors. "
        "Exit codes: 0 success, 1 error, no results or skipped files, 2 invalid usage, 130 interrupted."
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(for_terminal(f"hybrid-graphrag {__version__}\n"))
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    config_file: Annotated[
        str | None,
        typer.Option(
            "--config",
            envvar="HYBRID_GRAPHRAG_CONFIG",
            metavar="FILE",
            help="Configuration file; none ignores all. Default: the nearest hybrid-graphrag.toml in the working "
            "directory or above it.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""
    logger = logging.getLogger("graphrag_core")
    if not any(isinstance(handler, LogHandler) for handler in logger.handlers):
        logger.addHandler(LogHandler())
    if context.resilient_parsing:
        return
    found = read_config(config_file)
    options.CONFIG.set(found)
    context.default_map = default_map(context, context.command, found)


_COMMANDS = (
    demo, index, watch, query, ask, explain, explore, communities, compare, stats, verify, backup, copy, delete,
    remember, confirm, reject, forget, memories, *GRAPH_COMMANDS, serve, mcp, config,
)  # fmt: skip
for _command in _COMMANDS:
    app.command(cls=Query if _command is query else None)(_command)
app.add_typer(db, name="db")
app.add_typer(key, name="key")
