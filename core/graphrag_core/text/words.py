"""Words: the patterns that find them, stop words, and lists that tell names from other words."""

import gzip
import re
from functools import cache
from importlib import resources

from graphrag_core.text.cjk import CJK

# -- patterns. They differ on purpose: rankings and entities depend on what each takes for a word.

WORD = re.compile(r"[^\W_]+")
"""A word: letters and digits of any script. An identifier such as ``broker_url`` is two."""

WORD_OR_IDENTIFIER = re.compile(r"\w+")
"""A word in which underscores count as letters."""

HYPHENATED_WORD = re.compile(r"\w+(?:-\w+)*")
"""A word with its hyphens, to join what a line break divides."""

NAME_WORD = re.compile(rf"(?:(?![{CJK}])[^\W_])+[+#]*")
"""A word that may be part of a name, such as "C++", outside Chinese and Japanese text."""

CJK_WORD = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_])+")
"""A word; a Chinese or Japanese character is one."""

PROSE_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*|\d[\d.,:/%-]*")
"""A word with its apostrophes and hyphens, or a number with its punctuation."""

# -- word lists, from ``word_lists.txt``


def _read_lists() -> dict[str, str]:
    text = resources.files(__package__).joinpath("word_lists.txt").read_text("utf-8")
    sections = (section.partition("]") for section in text.split("\n[")[1:])
    return {name: words.strip() for name, _, words in sections}


_LISTS = _read_lists()
_CONTRACTIONS = _LISTS["contractions"]

FUNCTION = frozenset(_LISTS["function"].split())
"""Function words. They are never names and are stripped from both ends of a name."""

KEYWORD_STOP_WORDS = frozenset(_LISTS["keyword stop words"].split())
"""Terms of a keyword index that say nothing about a question. They are compared before and after stemming.

A longer list would change which terms count."""

QUESTION_STOP_WORDS = FUNCTION | frozenset("happen happens work works tell explain give me please".split())
"""Words of a question that are not marked in a passage. They are compared before stemming."""

AUXILIARIES = frozenset(_LISTS["auxiliaries"].split())
"""Auxiliary and common verbs of several languages. A text with one of them is a sentence."""

OPENERS = FUNCTION | frozenset(_LISTS["openers"].split())
"""Function words and words that often open a sentence. They are stripped from the first name of a sentence."""

VERBS = frozenset(_LISTS["verbs"].split())
"""Words that are not names if they open a sentence and no other capitalised word follows."""

NEVER_ALONE = frozenset(
    [*_LISTS["never alone"].split(), *_CONTRACTIONS.split(), *_CONTRACTIONS.replace("'", "’").split()]
)
"""Words that are not names on their own, wherever they stand."""

GENERIC_HEADINGS = frozenset(_LISTS["generic headings"].replace("\n", "|").split("|"))
"""Headings that say what kind of section follows and not what it is about."""

GENERIC_TITLES = frozenset(_LISTS["generic titles"].replace("\n", "|").split("|"))
"""Titles that say nothing about a document."""

LANGUAGE_OPENERS = tuple(
    (frozenset(_LISTS[f"{language} openers"].split()), frozenset(_LISTS[f"{language} markers"].split()))
    for language in ("German", "French", "Spanish", "Italian", "Portuguese", "Dutch", "Russian")
)
"""Words that open sentences in other languages, and words that show the language.

Some are parts of English names ("Die Hard", "Los Angeles"), so they count only in a text of that language."""

CALENDAR = frozenset(_LISTS["calendar"].split())
"""Words that are not names on their own, such as "Monday" or "Dr"."""

CALENDAR_SHORT = frozenset("sat sun jan feb mar apr jun jul aug sep sept oct nov dec am pm".split())
"""Words that are part of a date beside a number or another word of the calendar. Some are names on their own."""

GREETINGS = frozenset("hi hello hey dear greetings cheers regards sincerely".split())
"""Words before a name at the start of a letter that are not part of it, and words that end a letter."""

TITLE_REFERENCES = frozenset(_LISTS["title references"].split())
"""Words that refer to a part of a document when a number follows."""

REFERENCES = TITLE_REFERENCES | frozenset(_LISTS["references"].split())
"""Words that are not a name with a number after them, but may be the end of one ("The Godfather Part II")."""

CONNECTORS = (
    "of|the|de|la|le|les|du|des|von|van|der|den|del|della|di|da|dos|das|do|el|al|bin|ibn|y|e|et|for|in|on|at|to|a|an"
)
"""Lower-case words inside a name ("Bank of the West"), as alternatives of a regular expression."""

# -- the dictionary. The list has its sources and its licence at its start.


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
