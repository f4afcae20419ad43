"""The two sides of a question that compares: "X and Y", "the difference between X and Y", "X compared with Y"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag_core.text.words import FUNCTION

_WORD = re.compile(r"[^\s,;?!()\"“”]+|[,;]")
_FRAME = frozenset(
    """difference differences between differ differs differing different compare compares compared comparing comparison
    versus vs vs. both each same respectively""".split()
)
_COMPARES = _FRAME - {"between"}  # "the link between X and Y" is one thing
_ASKS = frozenset("which what how when where who whose why".split())
_REFERS_BACK = frozenset("it its they them their this that these those he she his her".split())
_JOINS = frozenset(("and", "or"))
_OPPOSES = frozenset(("versus", "vs", "vs."))
_OPPOSES_WITH = frozenset(
    ("compared with", "compared to", "opposed to", "different from", "differ from", "differs from")
)
_INSIDE = frozenset(("of", "a", "an", "the"))  # do not end a noun phrase that goes on
_BRACKETS = str.maketrans("", "", "?!.\"'()“”")
_LONGEST = 6  # words of a side's name


def sides(question: str) -> tuple[str, str] | None:
    """Return the question about each of two things alone; None if it does not ask about two.

    Each keeps what the question says of both. An ordinary "and" counts if the question compares, or if names stand
    on both sides of it.

    >>> sides("What is the difference between git stash and git worktree?")
    ('git stash', 'git worktree')
    >>> sides("How long is the visibility timeout on Redis compared with Amazon SQS?")
    ('How long is the visibility timeout on Redis', 'How long is the visibility timeout on Amazon SQS')
    >>> sides("Which tokenizer do FTS4 tables use, and which one do FTS5 tables use?")
    ('Which tokenizer do FTS4 tables use', 'Which tokenizer do tables use which one do FTS5 tables use')
    >>> sides("How do I install and configure the broker?")
    """
    words = [match.group() for match in _WORD.finditer(question)]
    lower = [word.lower().rstrip(".?!") for word in words]
    compares = not _COMPARES.isdisjoint(lower)
    for at, word in enumerate(lower):
        width = 2 if " ".join(lower[at : at + 2]) in _OPPOSES_WITH else 1
        opposes = width == 2 or word in _OPPOSES
        if not opposes and word not in _JOINS:
            continue
        if word == "and" and not _ASKS.isdisjoint(lower[at + 1 : at + 3]):
            if _asks_alike(lower[:at], lower[at + 1 :]):
                return _clauses(words, at)
            continue
        left, right = _before(lower, at), _after(words, lower, at + width, words[max(at - 1, 0)])
        if left is None or right is None:
            continue
        named = _is_name(words, left) and _is_name(words, right)
        capital = named and words[right[0]][0].isupper()
        while capital and not _is_name(words, (left[0], left[0] + 1)):  # "Who owns Lumen Works": a verb before a name
            left = left[0] + 1, left[1]
        repeats = at + 1 < right[0] and lower[at + 1] in lower[max(left[0] - 2, 0) : left[0]]  # "in X and in Y"
        if any(not any(map(str.isalpha, "".join(words[slice(*side)]))) for side in (left, right)):
            continue  # a range of numbers
        if opposes or compares or named or repeats:
            return _without(words, lower, (at, right[1]), left), _without(words, lower, (left[0], right[0]), right)
    return None


def _asks_alike(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether the second part of a question asks what the first one asks, about another thing."""
    if not _REFERS_BACK.isdisjoint(right):
        return False
    content = {word for word in right if word not in FUNCTION and word not in ",;"}
    same = not content.isdisjoint(left) or "one" in right
    return bool(content) and (same or (len(content) > 1 and not _ASKS.isdisjoint(set(left) & set(right))))


def _clauses(words: Sequence[str], at: int) -> tuple[str, str]:
    """Return the sides of "which X does A have, and which does B have, [rest]"."""
    right = list(words[at + 1 :])
    comma = right.index(",") if "," in right else len(right)
    right, rest = right[:comma], right[comma + 1 :]
    left = [word for word in words[:at] if word != ","]
    names = [_is_name(left, (i, i + 1)) for i in range(len(left))]
    has_names = any(names) and any(_is_name(right, (i, i + 1)) for i in range(len(right)))
    shared = [word for word, name in zip(left, names, strict=True) if not name] if has_names else []
    return " ".join([*left, *rest]), " ".join([*shared, *right, *rest])


def _before(lower: Sequence[str], at: int) -> tuple[int, int] | None:
    """Return the span of the noun phrase that ends before a word."""
    end = at
    while end and (lower[end - 1] in FUNCTION or lower[end - 1] == ","):
        end -= 1
    start = end
    while start and end - start < _LONGEST and _continues(lower, start - 1, -1):
        start -= 1
    while start < end and lower[start] in FUNCTION:
        start += 1
    return (start, end) if start < end else None


def _after(words: Sequence[str], lower: Sequence[str], start: int, before: str) -> tuple[int, int] | None:
    """Return the span of the noun phrase that starts at a word; after a name, only names belong to it."""
    while start < len(lower) and (lower[start] in FUNCTION or lower[start] == ","):
        start += 1
    end = start
    names_only = _is_name((before, before), (1, 2)) and start < len(words) and _is_name(words, (start, start + 1))
    while end < len(lower) and end - start < _LONGEST and _continues(lower, end, 1):
        if names_only and not _is_name(words, (end, end + 1)):
            break
        end += 1
    while end > start and lower[end - 1] in FUNCTION:
        end -= 1
    return (start, end) if start < end else None


def _continues(lower: Sequence[str], at: int, step: int) -> bool:
    word = lower[at]
    if word in _INSIDE:
        return 0 <= at + step < len(lower)
    return word not in FUNCTION and word not in _FRAME and word not in ",;"


def _is_name(words: Sequence[str], span: tuple[int, int]) -> bool:
    """Return whether a word of a span is capitalised, or has a digit or a joint as identifiers do."""
    for at in range(*span):
        word = words[at].translate(_BRACKETS)
        if (at > 0 and word[:1].isupper()) or re.search(r"\d|\w[-_./:]\w|[a-z][A-Z]", word):
            return True
    return False


def _without(words: Sequence[str], lower: Sequence[str], left_out: tuple[int, int], kept: tuple[int, int]) -> str:
    """Return a question without one side and the words that compare; the other side alone if no more is asked."""
    others = [at for at in range(len(words)) if not left_out[0] <= at < left_out[1] and lower[at] not in _FRAME]
    asks = any(lower[at] not in FUNCTION and words[at] not in ",;" and not kept[0] <= at < kept[1] for at in others)
    text = " ".join(words[at] for at in (others if asks else range(*kept)))
    return text.rstrip("?!. ")
