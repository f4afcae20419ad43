"""The ``hybrid-graphrag`` command line: index files, query them, and explain the results.

Import :func:`main` from here. Each command is a function in a module of its own name.
"""

import atexit
import gc
import sys
from collections.abc import Sequence

from graphrag_core.errors import MissingDependency


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Needs the ``cli`` extra."""
    if arguments is None:  # a process of its own: imports leave little garbage, and it need not be searched for at exit
        gc.set_threshold(50_000)
        atexit.register(gc.freeze)
    try:
        from graphrag_apps.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich", "click"}:
            raise
        sys.exit(str(MissingDependency("typer and rich", "cli", "The command line")))
    app(args=None if arguments is None else list(arguments), prog_name="hybrid-graphrag")
