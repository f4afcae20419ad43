"""The command-line application: all commands, and how errors become exit codes."""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_group

from graphrag_apps.cli import options
from graphrag_apps.cli.config import option_defaults, read_config
from graphrag_apps.cli.render import LogHandler, print_error, stderr
from graphrag_apps.config import NAME
from graphrag_core import __version__
from graphrag_core.context.escape import for_terminal
from graphrag_core.errors import GraphRAGError

_MODULES = {
    "demo": "demo", "index": "index", "delete": "maintain", "query": "query", "ask": "ask",
    "explain": "query", "compare": "compare", "stats": "maintain", "verify": "maintain", "rebuild": "index",
    "backup": "maintain", "copy": "maintain", "export": "graph", "graph": "graph", "serve": "serve", "mcp": "serve",
    "key": "serve", "config": "config",
}  # of commands and groups, in the order of --help  # fmt: skip
_USAGE_ERROR: Any = typer.BadParameter.__base__  # typer exports none of its other usage errors
_INDEXING_ONLY = {
    "--embedder": "The index remembers the embedder that it was built with, and is searched with it. To change it, "
    "index the files into another folder: index FOLDER --embedder NAME --kb OTHER",
    "--embedder-url": f"The index remembers the server of its embedder. To change it, set embedder-url in {NAME}",
}  # options of the commands that build an index: what to do where a search is given one


@cache
def _command(name: str) -> Any:
    part = getattr(import_module(f"graphrag_apps.cli.{_MODULES[name]}"), name)
    group = typer.Typer(rich_markup_mode=None)
    if isinstance(part, typer.Typer):
        group.add_typer(part, name=name)
    else:
        group.command(name)(part)
    command = get_group(group).commands[name]
    commands: list[Any] = [command]
    for inner in commands:
        commands += getattr(inner, "commands", {}).values()
        inner.get_params = partial(_convert_lazily, inner.get_params)
    return command


def _convert_lazily(get_params: Callable[..., list[Any]], context: Any) -> list[Any]:
    """Return the parameters of a command. Typer imports pydantic to convert a value: only do that if it must be."""
    parameters = get_params(context)
    for parameter in parameters:
        if "process_value" not in vars(parameter):
            parameter.process_value = partial(_process_value, parameter, parameter.process_value)
    return parameters


def _process_value(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
    """Convert a value, unless it is absent, or a text that stays one."""
    is_absent = value is None and not parameter.required
    is_text = getattr(getattr(parameter, "type_descriptor", None), "annotation", None) is str
    if not (is_absent or (is_text and isinstance(value, str))):
        try:
            return convert(context, value)
        except typer.BadParameter as error:  # in the words of pydantic
            error.message = error.message.removeprefix("Value error, ")
            if wanted := _wanted_number(parameter):
                error.message = f"use {wanted}, not {value!r:.80}"
            raise
    if is_absent and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _wanted_number(parameter: Any) -> str:
    """Return which numbers a parameter takes; empty if it takes no number, or with a typer before pydantic."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if kind not in (int, float):
        return ""
    noun, least, most = "an integer" if kind is int else "a number", parameter.min, parameter.max
    if least is None:
        return noun
    return f"{noun} of at least {least}" if most is None else f"{noun} from {least} to {most}"


class LazyCommands(Mapping[str, Any]):
    """The commands by name. The module of a command is imported when the command is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class Commands(TyperGroup):
    """Imports commands when they are used, and prints errors of the library in one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": LazyCommands()})

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command."""
        return _convert_lazily(super().get_params, ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except _USAGE_ERROR as error:
            if advice := _INDEXING_ONLY.get(getattr(error, "option_name", "")):
                error.message, error.possibilities = f"{error.message}. {advice}", None
            raise
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
    name = str(context.invoked_subcommand)
    context.default_map = {name: option_defaults(_command(name), settings, name)}
