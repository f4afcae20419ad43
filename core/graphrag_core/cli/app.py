"""The command-line application: all commands, and how errors become exit codes."""

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from graphrag_core import __version__
from graphrag_core.cli import options
from graphrag_core.cli.ask import ask
from graphrag_core.cli.compare import compare
from graphrag_core.cli.config import config, option_defaults, read_config
from graphrag_core.cli.database import copy, db
from graphrag_core.cli.demo import demo
from graphrag_core.cli.graph import graph
from graphrag_core.cli.index import index, rebuild
from graphrag_core.cli.maintain import backup, delete, stats, verify
from graphrag_core.cli.memory import memory
from graphrag_core.cli.query import explain, query
from graphrag_core.cli.render import LogHandler, print_error, stderr
from graphrag_core.cli.serve import key, mcp, serve
from graphrag_core.cli.watch import watch
from graphrag_core.context.escape import for_terminal
from graphrag_core.errors import GraphRAGError


class Commands(TyperGroup):
    """Prints errors of the library in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except GraphRAGError as error:
            print_error(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            print_error("interrupted")
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Search documents by vector, keyword and knowledge graph, and see why each passage was found.\n\n"
        'Try demo first. Then run index FOLDER and ask "your question".\n\n'
        "The index is stored in the folder kb; set another one, or the address of a PostgreSQL database, with --kb "
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
        Option(
            "--config",
            envvar="HYBRID_GRAPHRAG_CONFIG",
            metavar="FILE",
            help="Settings file; none ignores all. Default: the nearest hybrid-graphrag.toml in the working "
            "directory or above it.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""
    logger = logging.getLogger("graphrag_core")
    if not any(isinstance(handler, LogHandler) for handler in logger.handlers):
        logger.addHandler(LogHandler())
    if context.resilient_parsing:
        return
    settings = read_config(config_file)
    options.CONFIG.set(settings)
    if settings.path is not None and settings.addresses and settings.path.parent != Path.cwd():
        names = ", ".join(settings.addresses)
        stderr().print(f"{settings.path} sets {names}", style="quiet", markup=False)
    context.default_map = option_defaults(context.command, settings)


for _command in (
    demo, index, watch, delete, query, ask, explain, compare, stats, verify, rebuild, backup, copy, serve, mcp, config,
):  # fmt: skip
    app.command()(_command)
for _name, _group in {"graph": graph, "memory": memory, "key": key, "db": db}.items():
    app.add_typer(_group, name=_name)
