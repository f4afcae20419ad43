"""Token counts: estimated, or by a tokenizer that the user names."""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from string import ascii_letters, ascii_uppercase, digits

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
_NON_ASCII_BYTES = bytes(range(128, 256))
_NOT_UPPER = bytes(code for code in range(256) if chr(code) not in ascii_uppercase)
_DIGITS_AS_ZERO = bytes(ord("0") if chr(code) in digits else code for code in range(256))

_ENCODING = "cl100k_base"
_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name under which tiktoken keeps the file of the encoding."""
_FOLDERS: tuple[str | Path, ...] = (
    os.environ.get("TIKTOKEN_CACHE_DIR") or "",
    os.environ.get("DATA_GYM_CACHE_DIR") or "",
    Path(tempfile.gettempdir(), "data-gym-cache"),
    *(Path(folder, "llama_index", "core", "_static", "tiktoken_cache") for folder in sys.path),  # LlamaIndex ships it
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
    return count + _parts(data, _IS_LETTER, 7) + _parts(data, _IS_DIGIT, 3)


def estimate_at_most(text: str) -> int:
    """Estimate tokens for a budget: more than cl100k_base has in prose, tables, code, German, Chinese and Base64.

    A word counts one token for every four letters begun, and one for each capital letter; two bytes of another alphabet
    count one, and so do a line, two spaces, and a space before a number. English prose has about 1.4 times its tokens.

    >>> estimate_at_most("| Werk 7 | 137.50 |"), estimate_at_most("知识图谱")
    (11, 6)
    """
    data = f"{text} ".encode("utf-8", "replace")
    ascii_data = data.translate(None, _NON_ASCII_BYTES)
    count = len(ascii_data.translate(None, _LETTERS_AND_DIGITS + _SPACES)) + len(data.translate(None, _NOT_UPPER))
    count += (len(data) - len(ascii_data) + 1) // 2 + data.count(b"\xf0")
    count += data.count(b"\n") + data.count(b"  ") + data.translate(_DIGITS_AS_ZERO).count(b" 0")
    return count + _parts(data, _IS_LETTER, 4) + _parts(data, _IS_DIGIT, 3)


def _parts(data: bytes, table: bytes, size: int) -> int:
    """Return the number of parts of this size, or less, into which the marked runs fall."""
    runs, full = data.translate(table), b"x" * size
    return runs.count(full) + runs.replace(full, b"").count(b"x ")


def token_counter(tokenizer: Tokenizer | None = None) -> Callable[[str], int]:
    """Return the function that counts tokens for a budget.

    Without a tokenizer it is tiktoken with the encoding cl100k_base if its file is on this machine, and else
    :func:`estimate_at_most`: no network is called unasked. A function is returned as it is. tiktoken loads the encoding
    of a name such as ``"o200k_base"`` or ``"gpt-4o"``, and downloads it if it is not in its cache.

    Raises
    ------
    InputError
        tiktoken does not know the name, or cannot load the encoding.
    """
    if tokenizer is None:
        return _default_counter()
    if isinstance(tokenizer, str):
        return _tiktoken_counter(tokenizer)
    if not callable(tokenizer):
        raise InputError(f"tokenizer is {tokenizer!r:.80}: pass a function from a text to a number, or a name")
    return tokenizer


@lru_cache
def _default_counter() -> Callable[[str], int]:
    folder = next((folder for folder in _FOLDERS if folder and Path(folder, _FILE).is_file()), None)
    if folder is None:
        return estimate_at_most
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return _tiktoken_counter(_ENCODING)
    finally:
        del os.environ["TIKTOKEN_CACHE_DIR"]
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


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
