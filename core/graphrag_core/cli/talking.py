"""Asking one question after another, from a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from graphrag_core import KnowledgeIndex, Result
from graphrag_core.cli.terminal import complain, messages
from graphrag_core.errors import GraphRAGError
from graphrag_core.retriever import Method

_HISTORY = Path.home() / ".hybrid_graphrag_history"
_HELP = "a question, or :method NAME, :k NUMBER, exit"


def talk(answer: Callable[..., Result], index: KnowledgeIndex, *, json: bool) -> None:
    """Answer lines until there are no more, or one says exit."""
    terminal = sys.stdin.isatty()
    if terminal:
        messages().print(f"{len(index):,} documents. Ask {_HELP} (or Ctrl-D).")
        _remember()
    settings: dict[str, Any] = {}
    first = True
    while (line := _line(terminal)) is not None:
        if line in {"exit", "quit", ":q"}:
            return
        if line.startswith(":"):
            _set(line, settings)
        elif line:
            if not first and not json:
                sys.stdout.write("\n")
            first = False
            try:
                if not answer(line, **settings).hits:
                    complain("nothing was found")
            except GraphRAGError as error:
                complain(str(error))


def _line(terminal: bool) -> str | None:
    try:
        if terminal and not sys.stdout.isatty():  # answers go into a file: the prompt must not
            messages().print("\n? ", end="")
            return input().strip()
        return input("\n? " if terminal else "").strip()
    except EOFError:
        if terminal:
            messages().print()
        return None


def _set(line: str, settings: dict[str, Any]) -> None:
    word, _, value = line[1:].partition(" ")
    value = value.strip()
    if word == "k" and value.isdecimal() and int(value) > 0:
        settings["k"] = int(value)
    elif word == "method" and value in get_args(Method):
        settings["method"] = value
    else:
        messages().print(f"write {_HELP}; methods are {', '.join(get_args(Method))}", soft_wrap=True)


def _remember() -> None:
    """Let lines be edited and found again, where the system can."""
    try:
        import atexit
        import readline
    except ImportError:
        return
    with suppress(OSError):
        readline.read_history_file(_HISTORY)
    readline.set_history_length(1_000)

    def save() -> None:
        with suppress(OSError):
            readline.write_history_file(_HISTORY)

    atexit.register(save)
