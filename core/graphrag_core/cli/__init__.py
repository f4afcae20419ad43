"""The command line, ``hybrid-graphrag``: from a folder of files to an explained answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphrag_core.errors import MissingDependency


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; needs the ``cli`` extra."""
    try:
        from graphrag_core.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich", "click"}:
            raise
        sys.exit(str(MissingDependency("typer and rich", "cli", "The command line")))
    app(args=None if arguments is None else list(arguments), prog_name="hybrid-graphrag")
