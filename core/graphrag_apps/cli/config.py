"""``hybrid-graphrag.toml`` as defaults of options, and the command ``config``, which shows the settings in effect."""

import os
from typing import Any

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, Json
from graphrag_apps.config import NAME, Config, load
from graphrag_core.engine.address import shown
from graphrag_core.errors import ConfigError

_SHARED = {"kb": "HYBRID_GRAPHRAG_KB", "llm": "HYBRID_GRAPHRAG_LLM"}  # options and their environment variables
_TABLES = {"index": "index", "rebuild": "index", "serve": "serve", "mcp": "serve"}  # of commands
_PLACES = ("kb", "keys")  # options that may be a folder or a file


def read_config(file: str | None) -> Config:
    """Return the settings of a given file, or of the nearest one; ``none`` for no file."""
    if file == "none":
        return Config()
    if file is not None and not os.path.isfile(file):
        raise ConfigError(f"{file}: no such file: create it, or leave out --config")
    return load(file)


def option_defaults(command: Any, config: Config, name: str = "") -> dict[str, Any]:
    """Return the defaults of options that a settings file contains, of a command or of the commands of a group."""
    if hasattr(command, "commands"):
        return {name: option_defaults(inner, config, name) for name, inner in command.commands.items()}
    values = {option: getattr(config, option) for option in _SHARED}
    if name in _TABLES:
        values |= vars(getattr(config, _TABLES[name])) | {"metadata": None}
    offered = {parameter.name for parameter in command.params}
    given = {option: value for option, value in values.items() if option in offered and value is not None}
    return given | {option: config.relative(given[option]) for option in _PLACES if option in given}


def config(json: Json = False) -> None:
    """Show the settings in effect and where each comes from: the environment or hybrid-graphrag.toml.

    The command line comes first, then the environment, then the nearest hybrid-graphrag.toml in the working directory
    or above it (or --config FILE), then the defaults.
    """
    current = options.CONFIG.get()
    settings = _in_effect(current)
    if json:
        file = None if current.path is None else str(current.path)
        values = {key: {"value": value, "source": source} for key, (value, source) in settings.items()}
        render.print_json({"file": file, "settings": values})
        return
    rows = [("file", str(current.path) if current.path else f"no {NAME} in {os.getcwd()} or above")]
    rows += [(key, f"{_as_text(value)}  ({source})") for key, (value, source) in settings.items()]
    for key, text in rows:
        render.print_line((f"{key:<26}", "quiet"), text)


def _in_effect(config: Config) -> dict[str, tuple[Any, str]]:
    """Return the values that are not defaults, and the index, by key: the value and its source."""
    settings: dict[str, tuple[Any, str]] = {"kb": (KB, "default")}
    for key, value in config.given.items():
        if isinstance(value, dict):
            settings |= {f"{key}.{name}": (inner, NAME) for name, inner in value.items()}
        else:
            settings[key] = shown(value) if key == "kb" else value, NAME
    for key, variable in _SHARED.items():
        if value := os.environ.get(variable):
            settings[key] = shown(value), f"environment {variable}"
    return settings


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
