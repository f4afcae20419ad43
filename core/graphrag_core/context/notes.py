"""``graph_notes``: what the graph adds to passages, as short notes that go with them into a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    known = [details or found for _, details in passages]
    count = token_counter(tokenizer)
    stated = "\n".join(_words(text) for text, _ in passages)
    notes = [""] * len(passages)
    written: set[str] = set()
    for place, text in [*_facts(known), *_paths(known)]:
        words = _words(text)
        if words in written or (" → " not in text and words in stated):
            continue
        written.add(words)
        longer = notes.copy()
        longer[place] = f"{notes[place] or _HEADING}\n- {text}"
        if count("\n\n".join(filter(None, longer))) <= max_tokens:
            notes = longer
    return notes


def _facts(known: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield the facts of the details, each with the place of its passage."""
    for place, details in enumerate(known):
        for fact in details.get("facts") or ():
            if isinstance(fact, str):
                yield place, shortened(fact, _LONGEST)


def _paths(known: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield the paths of the details that have a fact, without the question and the passage itself."""
    for place, details in enumerate(known):
        steps = [step for step in details.get("path") or () if step.get("kind") != "question"][:-1]
        if any(step.get("kind") == "fact" for step in steps):
            texts = [shortened(str(step["text"]), _LONGEST) for step in steps]
            yield place, f"path to this passage: {' → '.join(texts)}"


def _words(text: str) -> str:
    return " ".join(one_line(text).split()).casefold()
