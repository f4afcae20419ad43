"""Commands by name. Only the module of the command that runs is imported, and all of them for the help."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graphrag_apps.cli import output
from graphrag_apps.cli.options import GIVEN, Given
from graphrag_core import __version__
from graphrag_core.errors import GraphRAGError

COMMANDS: Mapping[str, str] = {
    "demo": "demo", "index": "index", "delete": "index", "query": "questions", "ask": "questions",
    "explain": "questions", "compare": "questions", "graph": "graph", "export": "graph", "serve": "serve",
    "mcp": "serve", "key": "serve", "config": "maintain", "stats": "maintain", "verify": "maintain",
    "rebuild": "index", "backup": "maintain", "copy": "maintain",
}  # fmt: skip
"""The commands, each with the module that has it."""

_HELP = """Search documents by vector, keyword and knowledge graph, and see why each passage was found.

Begin with: hybrid-graphrag demo"""


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Errors and warnings are one line each on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="replace")  # a terminal that cannot show a character
    handler = output.LogHandler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        _app()(list(arguments), prog_name="hybrid-graphrag")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except GraphRAGError as error:
        output.error(str(error))
        return 1
    except KeyboardInterrupt:
        output.error("interrupted")
        return 130
    finally:
        logging.getLogger().removeHandler(handler)
    return 0


class _Commands(TyperGroup):
    """The commands: the module of one is imported when it is asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        commands: Any = dict.fromkeys(COMMANDS)  # imported by get_command
        self.commands = commands

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(f"graphrag_apps.cli.{COMMANDS[cmd_name]}"), cmd_name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        app = typer.Typer(rich_markup_mode=None)
        app.command(cmd_name)(found)
        return typer.main.get_group(app).commands[cmd_name]


def _app() -> typer.Typer:
    app = typer.Typer(
        cls=_Commands, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
        rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback()(_options)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        output.line(f"hybrid-graphrag {__version__}")
        raise typer.Exit


def _options(
    kb: Annotated[str | None, typer.Option(help="The index, also after the command.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="A settings file, or none.")] = None,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Keep what is given before the command."""
    del version
    GIVEN.set(Given(kb=kb, config_file=config))
