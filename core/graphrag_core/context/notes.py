"""``graph_notes``: what the graph adds to passages, as short notes that go with them into a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphrag_core.context.escape import one_line, shortened
from graphrag_core.errors import check_integer
from graphrag_core.text import Tokenizer, token_counter

_HEADING = "Knowledge graph:"
_LONGEST = 300  # characters of a fact


def graph_notes(
    passages: Sequence[tuple[str, Mapping[str, Any] | None]],
    *,
    max_tokens: int = 300,
    tokenizer: Tokenizer | None = None,
    facts_about: Callable[[list[str]], list[str]] | None = None,
) -> list[str]:
    r"""Return a note for each passage: the facts that no passage states, and the path through the graph to it.

    Every fact is there once, in the note of the first passage that has it. The facts of better passages come first;
    what does not fit is left out. Text from documents is escaped, so that it cannot pass for the prompt's structure.

    Parameters
    ----------
    passages
        Text and details (:meth:`graphrag_core.Result.details`) of each, best first.
    max_tokens
        The budget of all notes together.
    tokenizer
        Counts tokens, as for :meth:`graphrag_core.Result.context`.
    facts_about
        Returns facts for the texts of passages without details. By default their notes are empty.

    Examples
    --------
    >>> graph_notes([("Text.", {"facts": ["Auth Service depends on Keyring"]}), ("Other.", {})])
    ['Knowledge graph:\n- Auth Service depends on Keyring', '']
    """
    check_integer(max_tokens, "max_tokens")
    unknown = [text for text, details in passages if not details]
    found = {"facts": facts_about(unknown)} if facts_about is not None and unknown else {}
    known = [(text, details or found) for text, details in passages]
    count = token_counter(tokenizer)
    stated = "\n".join(_words(text) for text, _ in passages)
    lines: list[list[str]] = [[] for _ in passages]
    written: set[str] = set()
    for place, text in [*_facts(known), *_paths(known)]:
        if _words(text) in written or (" → " not in text and _words(text) in stated):
            continue
        written.add(_words(text))
        line = f"- {text}"
        tried = [[*note, line] if at == place else note for at, note in enumerate(lines)]
        if count("\n\n".join(filter(None, map(_note, tried)))) <= max_tokens:
            lines = tried
    return [_note(note) for note in lines]


def _note(lines: Sequence[str]) -> str:
    return "\n".join([_HEADING, *lines]) if lines else ""


def _facts(passages: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    """Return the facts of the details, each with the place of its passage."""
    return [
        (place, shortened(fact, _LONGEST))
        for place, (_, details) in enumerate(passages)
        for fact in details.get("facts") or ()
        if isinstance(fact, str)
    ]


def _paths(passages: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    """Return the paths of the details that have a fact, without the question and the passage itself."""
    found = []
    for place, (_, details) in enumerate(passages):
        steps = [step for step in details.get("path") or () if step.get("kind") != "question"][:-1]
        if any(step.get("kind") == "fact" for step in steps):
            texts = [shortened(str(step["text"]), _LONGEST) for step in steps]
            found.append((place, f"path to this passage: {' → '.join(texts)}"))
    return found


def _words(text: str) -> str:
    return " ".join(one_line(text).split()).casefold()
