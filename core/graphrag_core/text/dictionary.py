"""Ordinary English words, and the singular of their plurals.

It decides on a capitalised word only where a document's own uses say nothing: "Permanent" as the label of a table. The
list is made by ``benchmarks/word_list.py`` and has its licence at its start.
"""

import gzip
from functools import cache
from importlib import resources


@cache  # takes 30 ms, and a question without a plural does not need it
def _dictionary() -> dict[str, str]:
    """Return the singular of each ordinary word."""
    data = gzip.decompress(resources.files(__package__).joinpath("ordinary_words.txt.gz").read_bytes()).decode()
    words: dict[str, str] = {}
    for line in data.splitlines():
        if line[0] != "#":
            word, _, singular = line.partition(" ")
            words[word] = singular or word
    return words


def is_ordinary(word: str) -> bool:
    """Return whether a word in lower case is an ordinary one, and not also a name such as "china" or "mark".

    >>> [is_ordinary(word) for word in ("permanent", "sessions", "keyring", "redis", "china")]
    [True, True, False, False, False]
    """
    return word in _dictionary()


def singular(word: str) -> str:
    """Return the singular of an ordinary word in lower case; any other word as it is.

    >>> [singular(word) for word in ("developers", "news", "windows", "rails")]
    ['developer', 'news', 'windows', 'rails']
    """
    return _dictionary().get(word, word)
