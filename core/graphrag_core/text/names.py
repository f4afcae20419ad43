"""Names in the one spelling under which they are the same entity."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_POSSESSIVE = re.compile(r"['’]s?$")
# + and # tell C, C++ and C# apart; everything else that is no letter or digit separates.
_SEPARATORS = re.compile(r"(?:[^\w\s+#]|_)+|(?<![^\W_+#])[+#]+")
_SPACES = re.compile(r"\s+")
_ARTICLE = re.compile(r"^(?:the|a|an) (?=\S)")
_PARENTHESIS = re.compile(r"\s*[(（][^()（）]*[)）]")


@lru_cache(maxsize=8_192)
def normalise(name: str) -> str:
    """Return the spelling under which names are compared: the id of an entity.

    Lower case, compatibility forms unified, possessive and leading article dropped,
    punctuation to spaces. Letters of every script are kept.

    >>> normalise("The Auth-Service's"), normalise("auth_service"), normalise("東京")
    ('auth service', 'auth service', '東京')
    >>> normalise("C++") == normalise("C#")
    False
    """
    if name.isascii() and name.replace(" ", "").isalnum():  # most are: nothing to take out but an article
        return _ARTICLE.sub("", " ".join(name.lower().split()))
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    name = _POSSESSIVE.sub("", name.strip(" .,;:\"'’").casefold())
    name = _SPACES.sub(" ", _SEPARATORS.sub(" ", name)).strip()
    return _ARTICLE.sub("", name)


def title_names(title: str) -> tuple[str, ...]:
    """Return the names under which a title's subject is known: bare, and as written.

    >>> title_names("Devotion (1929 film)")
    ('Devotion', 'Devotion (1929 film)')
    >>> title_names("Auth Service")
    ('Auth Service',)
    """
    title = title.strip()
    if title.isascii() and "(" not in title:
        return (title,) if normalise(title) else ()
    bare = _PARENTHESIS.sub("", title).strip()
    names = [name for name in (bare, title) if normalise(name)]
    return tuple(dict.fromkeys(names))
