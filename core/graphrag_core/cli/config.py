"""``hybrid-graphrag.toml`` as defaults of the options, and the command ``config``, which shows what is in effect."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from graphrag_core.cli import options, render
from graphrag_core.config import NAME, Config, load, unknown
from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import ConfigError

_QUERYING = ("query", "explain", "ask", "serve", "mcp", "explore")  # whose options the section [retriever] sets
_SEARCHING = (*_QUERYING, "compare")  # commands that use the section [retriever]
_FOLDERS = {"kb", "out"}  # options that are a folder, or the address of a database
_MODELS = {"embedder", "rerank"}
_RETRIEVER = "[retriever]"
_NOT_OPTIONS = {"help", "config", "version", "install-completion", "show-completion"}


def read_config(file: str | None) -> Config:
    """Return the configuration: a given file, or the nearest one; ``none`` for no file."""
    if file == "none":
        return Config()
    if file is not None and not os.path.isfile(file):
        raise ConfigError(f"{file}: no such file: create it, or leave out --config")
    return load(file)


def default_map(context: Any, group: Any, config: Config) -> dict[str, Any]:
    """Return the defaults of a group's commands that a configuration sets, after checking its keys and values.

    Uses of typer's contexts, groups and parameters what those of click have too: typer was built on click once.

    Raises
    ------
    ConfigError
        A key is not an option of a command, or a value is not one that the option takes.
    """
    commands = {name: command for name, command in group.commands.items() if not command.hidden}
    known = {name: _options_of(command, name, context) for name, command in commands.items()}
    defaults: dict[str, Any] = {name: {} for name in commands}
    for key, value in config.options.items():
        having = [name for name, found in known.items() if _dashed(key) in found]
        if not having:
            names = [*(name for found in known.values() for name in found), *commands, "retriever"]
            raise ConfigError(f"{config.path}: {unknown(key, set(names), 'key')}")
        for name in having:
            defaults[name] |= known[name][_dashed(key)].default(value, key, config)
    for name in _QUERYING:
        parameters = {option.parameter.name for option in known.get(name, {}).values()}
        for argument, parameter in options.RETRIEVER_OPTIONS.items():
            if argument in config.retriever_settings and parameter in parameters:
                defaults[name][parameter] = config.retriever_settings[argument]
    for name, table in config.sections.items():
        if name not in commands:
            raise ConfigError(f"{config.path}: {unknown(name, [*commands, 'retriever'], 'section')}")
        defaults[name] |= _section(context, commands[name], name, table, config)
    return defaults


def _section(context: Any, command: Any, name: str, table: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Return the defaults that a section sets, for a command or for the commands of a group."""
    if hasattr(command, "commands"):
        for key, value in table.items():
            if not isinstance(value, Mapping):
                raise ConfigError(f"{config.path}, [{name}]: {unknown(key, command.commands, 'section')}")
        return default_map(context, command, Config(config.path, {}, table))
    known = _options_of(command, name, context)
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        if _dashed(key) not in known:
            raise ConfigError(f"{config.path}, [{name}]: {unknown(key, known, 'key')}")
        defaults |= known[_dashed(key)].default(value, f"[{name}] {key}", config)
    return defaults


def _dashed(key: str) -> str:
    """Return a key as the long name of an option; in TOML, underscores are usual too."""
    return key.replace("_", "-")


class _Option(NamedTuple):
    """An option by one of its long names. ``inverted`` is true for the name that switches it off."""

    parameter: Any
    inverted: bool
    context: Any  # for the conversion of values

    def default(self, value: Any, key: str, config: Config) -> dict[str, Any]:
        """Return a value of the file as a default of the parameter."""
        parameter, given = self.parameter, value
        if parameter.multiple:
            if isinstance(value, Mapping):  # such as metadata
                value = [f"{name}={str(one).lower() if isinstance(one, bool) else one}" for name, one in value.items()]
            value = value if isinstance(value, list) else [value]
        try:
            if isinstance(value, Mapping) or (isinstance(value, list) and not parameter.multiple):
                raise typer.BadParameter("use one value, not a list or a table")  # noqa: TRY301
            if parameter.is_flag and not isinstance(value, bool):
                raise typer.BadParameter("use true or false")  # noqa: TRY301
            converted = parameter.process_value(self.context, value)
        except (typer.BadParameter, ValueError, TypeError) as error:
            reason = getattr(error, "message", str(error))
            raise ConfigError(f"{config.path}: {key} cannot be {given!r:.80}: {reason}") from error
        if self.inverted:
            return {parameter.name: not value}
        is_path = any(isinstance(one, Path) for one in (converted if parameter.multiple else [converted]))
        return {
            parameter.name: [_in_folder(parameter.name, one, config, is_path=is_path) for one in value]
            if parameter.multiple
            else _in_folder(parameter.name, value, config, is_path=is_path)
        }


def _options_of(command: Any, name: str, parent: Any) -> dict[str, _Option]:
    """Return the options of a command by their long names, without dashes in front."""
    context = type(parent)(command, info_name=name)
    found: dict[str, _Option] = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            for inverted, names in ((False, parameter.opts), (True, parameter.secondary_opts)):
                long = [one[2:] for one in names if one.startswith("--")]
                found |= {one: _Option(parameter, inverted, context) for one in long if one not in _NOT_OPTIONS}
    return found


def _in_folder(name: str, value: Any, config: Config, *, is_path: bool) -> Any:
    """Return a path of the file relative to the working directory; other values as they are."""
    folder = config.folder
    if not isinstance(value, str) or folder == Path.cwd():
        return value
    if is_path or (name in _FOLDERS and not is_address(value)):
        return os.path.relpath(folder / os.path.expanduser(value))
    kind, _, model = value.partition(":")
    return f"onnx:{os.path.relpath(folder / model)}" if name in _MODELS and kind == "onnx" and model else value


# -- the command


class _Setting(NamedTuple):
    """An option of a command, its value and where the value comes from."""

    command: str
    key: str
    value: Any
    source: str


def config(
    context: typer.Context,
    command: Annotated[
        str | None, typer.Argument(metavar="[COMMAND]", help="Show all options of this command.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Show the settings in effect and where each comes from: the environment, hybrid-graphrag.toml or a default.

    Without a command, what is not a default is shown. The command line comes first, then the environment, then the
    nearest hybrid-graphrag.toml in the working directory or above it (or --config FILE), then the defaults.
    """
    root = context.find_root()
    group: Any = root.command
    found = options.CONFIG.get()
    if command is not None and command not in group.commands:
        raise typer.BadParameter(unknown(command, group.commands, "command"), param_hint="COMMAND")
    rows = [row for name in ([command] if command else group.commands) for row in _settings(name, group, root, found)]
    if json:
        commands: dict[str, dict[str, Any]] = {}
        for row in rows:
            commands.setdefault(row.command, {})[row.key] = {"value": row.value, "source": row.source}
        file = None if found.path is None else str(found.path)
        retriever = dict(found.retriever_settings)
        render.print_json(
            {"file": file, "commands": commands, "retriever": retriever, "retriever_commands": list(_SEARCHING)}
        )
        return
    _print("file", str(found.path) if found.path else f"no {NAME} in {os.getcwd()} or above", "")
    if command is None:
        _show_changed(rows, found)
    else:
        for row in rows:
            _print(row.key, row.value, row.source)
        if command in _SEARCHING:
            listed = {row.key for row in rows}
            settings = found.retriever_settings.items()
            _show_retriever({key: value for key, value in settings if _dashed(key) not in listed})


def _show_changed(rows: list[_Setting], found: Config) -> None:
    """Print what is not a default: first what holds for all commands, then each command's own."""
    changed = [row for row in rows if row.source != "default" and not row.source.endswith(_RETRIEVER)]
    shared = {row.key: row for row in reversed(rows) if row.key == "kb"}
    shared |= {row.key: row for row in changed if row.key in found.options or row.source.startswith("environment")}
    for row in shared.values():
        _print(row.key, row.value, row.source)
    section = ""
    for row in changed:
        if row.key in shared and shared[row.key][1:] == row[1:]:
            continue
        if row.command != section:
            render.stdout().print(Text(f"[{row.command}]", "bold"))
            section = row.command
        _print(row.key, row.value, row.source)
    _show_retriever(found.retriever_settings)


def _show_retriever(settings: Mapping[str, Any]) -> None:
    """Print settings of the section ``[retriever]`` and the commands that use it."""
    if settings:
        used = f"  used by {', '.join(_SEARCHING)}"
        render.stdout().print(Text.assemble((_RETRIEVER, "bold"), (used, "quiet")), soft_wrap=True)
    for key, value in settings.items():
        _print(key, value, NAME)


def _settings(name: str, group: Any, root: Any, found: Config) -> Iterator[_Setting]:
    """Yield the options of a command as they would be without a command line."""
    command = group.commands[name]
    if hasattr(command, "commands") or command.hidden:
        return
    context = command.make_context(name, [], parent=root, resilient_parsing=True)
    sources = {"ENVIRONMENT": "environment", "DEFAULT_MAP": found.path.name if found.path else NAME}
    known = _options_of(command, name, root)
    for parameter in command.params:
        keys = [key for key, option in known.items() if option.parameter is parameter]
        if not keys:
            continue
        source = context.get_parameter_source(str(parameter.name))
        said = sources.get(source.name, "default") if source is not None else "default"
        if said == "environment":
            variables = [parameter.envvar] if isinstance(parameter.envvar, str) else list(parameter.envvar or ())
            said = f"environment {next((one for one in variables if os.environ.get(one)), '')}".strip()
        elif said != "default" and name in _QUERYING and _is_retrievers(str(parameter.name), keys, name, found):
            said = f"{said} {_RETRIEVER}"
        value = context.params.get(str(parameter.name))
        key = "kb" if "kb" in keys else keys[0]
        yield _Setting(name, key, shown(value) if key == "kb" and isinstance(value, str) else value, said)


def _is_retrievers(parameter: str, keys: list[str], command: str, found: Config) -> bool:
    """Return whether the section ``[retriever]`` sets an option, and the section of the command does not."""
    own = {_dashed(key) for key in found.sections.get(command, {})}
    arguments = {argument for argument, option in options.RETRIEVER_OPTIONS.items() if option == parameter}
    return bool(arguments & found.retriever_settings.keys()) and not own.intersection(keys)


def _print(key: str, value: Any, source: str) -> None:
    line = Text.assemble((f"{key:<20}", "quiet"), f"{_shown(value):<24}" if source else _shown(value))
    render.stdout().print(line.append(f"  {source}" if source else "", "quiet"), soft_wrap=True)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
