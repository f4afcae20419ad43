"""Token counts: estimated, or by a tokenizer that the user names."""

import re
from collections.abc import Callable
from functools import lru_cache
from string import ascii_letters, digits

from graphrag_core.errors import InputError
from graphrag_core.text.cjk import CJK

Tokenizer = Callable[[str], int] | str
"""Counts the tokens of a text: a function, or the name of an encoding or a model that tiktoken knows."""

_LETTERS, _LETTERS_AND_DIGITS = ascii_letters.encode(), (ascii_letters + digits).encode()
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_NON_ASCII_PIECE = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_]){{1,2}}|[^\w\s]")
_IS_LETTER, _IS_DIGIT = (
    bytes(ord("x") if chr(code) in kept else ord(" ") for code in range(256)) for kept in (ascii_letters, digits)
)


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a language model would count.

    A word counts one token for every seven letters begun. Up to three digits count one token,
    as do two letters of another alphabet, a punctuation mark, and a Chinese or Japanese character.
    On English prose the estimate is a few percent above the count of byte-pair encodings.

    >>> estimate_tokens("Retrieval that follows the graph."), estimate_tokens("東京 tower")
    (7, 3)
    """
    count = 0
    if not text.isascii():
        count = len(_NON_ASCII_PIECE.findall(" ".join(_NON_ASCII.findall(text))))
        text = _NON_ASCII.sub(" ", text)
    data = f"{text} ".encode("ascii")
    count += len(data.translate(None, _LETTERS_AND_DIGITS + _SPACES))
    for table, size in ((_IS_LETTER, 7), (_IS_DIGIT, 3)):
        runs, full = data.translate(table), b"x" * size
        count += runs.count(full) + runs.replace(full, b"").count(b"x ")  # and the rest of each run
    return count


def most_tokens(text: str) -> int:
    """Return an upper bound of :func:`estimate_tokens`, several times faster to compute."""
    data = text.encode("ascii", "replace")
    others = data.translate(None, _LETTERS)
    marks = len(others.translate(None, _SPACES))
    # Each mark is a token. Marks and spaces end words, and a word has one token more than sevenths of its letters.
    return 2 * marks + (len(others) - marks) + 1 + (len(data) - len(others)) // 7


def token_counter(tokenizer: Tokenizer | None = None) -> Callable[[str], int]:
    """Return the function that counts tokens: :func:`estimate_tokens` without a tokenizer.

    A function is returned as it is. tiktoken loads the encoding of a name such as ``"o200k_base"`` or ``"gpt-4o"``, and
    downloads it if it is not in its cache.

    Raises
    ------
    InputError
        tiktoken does not know the name, or cannot load the encoding.
    """
    if tokenizer is None:
        return estimate_tokens
    if isinstance(tokenizer, str):
        return _tiktoken_counter(tokenizer)
    if not callable(tokenizer):
        raise InputError(f"tokenizer is {tokenizer!r:.80}: pass a function from a text to a number, or a name")
    return tokenizer


@lru_cache
def _tiktoken_counter(name: str) -> Callable[[str], int]:
    import tiktoken  # noqa: PLC0415 - slow to import

    try:
        is_encoding = name in tiktoken.list_encoding_names()
        encoding = tiktoken.get_encoding(name) if is_encoding else tiktoken.encoding_for_model(name)
    except KeyError as error:
        known = ", ".join(tiktoken.list_encoding_names())
        raise InputError(f"tiktoken knows no encoding or model {name!r}: the encodings are {known}") from error
    except OSError as error:  # what requests raises is one
        advice = "set TIKTOKEN_CACHE_DIR to a folder with it"
        raise InputError(f"tiktoken cannot load {name!r} ({error}): {advice}") from error
    return lambda text: len(encoding.encode(text, disallowed_special=()))
