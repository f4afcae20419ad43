"""The command line: 18 commands around an index. ``main`` runs one of them."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, by default that of the process, and end the process with its exit code."""
    try:
        from graphrag_apps.cli.app import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs 'typer and rich': pip install 'hybrid-graphrag[cli]'")
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))
