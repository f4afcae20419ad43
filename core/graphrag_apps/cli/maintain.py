"""The commands ``stats``, ``verify``, ``backup``, ``copy`` and ``config``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import Json, Kb
from graphrag_apps.config import NAME
from graphrag_core.engine.address import shown

_RELATIONS = 20


def stats(json: Json = False, kb: Kb = None) -> None:
    """Show the size of the index and its top entities."""
    with options.open_index(kb, embeds=False) as index:
        found = index.stats()
    if json:
        top = [{"name": name, "mentions": count} for name, count in found.top_entities]
        output.as_json({**asdict(found), "top_entities": top})
        return
    relations = ", ".join(f"{name} ({count:,})" for name, count in list(found.relations.items())[:_RELATIONS])
    output.rows([*found.rows(), *([("relations", relations)] if relations else [])])


def verify(json: Json = False, kb: Kb = None) -> None:
    """Check that records, vectors, keywords and graph agree."""
    with options.open_index(kb, embeds=False) as index, output.working("verifying"):
        found = index.verify()
    if json:
        output.as_json({"sound": bool(found), "problems": list(found.problems)})
    elif found:
        output.line(str(found))
    for problem in found.problems:
        output.error(problem)
    if not found:
        raise typer.Exit(1)


def backup(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The folder of the copy, which must be new.")],
    kb: Kb = None,
) -> None:
    """Copy the index into a new folder, also while it is written."""
    with options.open_index(kb, embeds=False) as index, output.working("copying"):
        index.backup(folder)
    output.line(f"copied to {folder}")


def copy(
    source: Annotated[str, Argument(help="A folder, or the address of a database.")],
    target: Annotated[str, Argument(help="A new folder, or the address of a database.")],
) -> None:
    """Copy an index between folders and databases."""
    from graphrag_apps.copy import copy_index

    with output.working("copying"):
        counts = copy_index(source, target)
    output.line(f"{', '.join(f'{count:,} {name}' for name, count in counts.items())} copied to {shown(target)}")


def config(json: Json = False) -> None:
    """Show the settings in effect, and where they come from."""
    found = options.GIVEN.get().config
    place, source = options.index_place(None)
    effective: dict[str, tuple[Any, str]] = {"kb": (shown(place), source)}
    for name in ("embedder", "embedder_url", "llm", "design"):
        if (value := getattr(found, name)) is not None:
            effective[name.replace("_", "-")] = value, NAME
    effective |= {f"set.{name}": (value, NAME) for name, value in found.numbers.items()}
    if json:
        values = {name: {"value": value, "source": where} for name, (value, where) in effective.items()}
        output.as_json({"file": str(found.path) if found.path else None, "settings": values})
        return
    file = str(found.path) if found.path else f"no {NAME} in {Path.cwd()} or above"
    output.rows([("file", file), *((name, f"{value}  ({where})") for name, (value, where) in effective.items())])
