"""Canonical forms: the normalised name of an entity, stable ids and hashes, and the texts that are indexed."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from graphrag_core.text.words import singular

_POSSESSIVE = re.compile(r"['’]s?$")
# "+" and "#" distinguish C, C++ and C#. Every other character that is not a letter or digit is a separator.
_SEPARATORS = re.compile(r"(?:[^\w\s+#]|_)+|(?<![^\W_+#])[+#]+")
_SPACES = re.compile(r"\s+")
_ARTICLE = re.compile(r"^(?:the|a|an) (?=\S)")
_PARENTHESIS = re.compile(r"(?<!\s)\s*[(（][^()（）]*[)）]")
# Python orders combining characters in time that is quadratic in the length of their run.
_MARKS = re.compile(r"([^\w\s\x00-\x7f]{60})[^\w\s\x00-\x7f]+")

_CAPITALS_PLURAL = re.compile(r"(?:[Tt]he )?[A-Z][A-Z0-9]+s")

_LONG = 60  # characters
_VERSIONED_ID = re.compile(r"(?<![A-Za-z0-9_.])(\d{4}\.\d{4,5})v\d+(?![A-Za-z0-9_]|\.\d)")  # of arXiv

_VERSION = re.compile(
    r"\W*(?!\W)(?:(?:(?:version|released?|v)[ :.]*)?\d+(?:\.\w+)+\b|\d{4}-\d\d(?:-\d\d)?\b|unreleased\b)", re.IGNORECASE
)


def is_version(heading: str) -> bool:
    """Return whether a heading is a version or a date: a section of a change log, not a name or title.

    >>> is_version("v2.1.0 (2024-06-17)"), is_version("Unreleased"), is_version("3D graphics")
    (True, True, False)
    """
    return _VERSION.match(heading) is not None


EDGE = "→="
"""The last name of a fact that an explicit edge states, and the start of the addresses that such edges lead to.

It is an address that no chunk has, and so no entity. See :mod:`graphrag_core.ingest.edges`.
"""


def file_address(name: str) -> str:
    """Return the name of the entity that stands for a file: the address of the file's name in any folder.

    >>> file_address("guide/Tasks.md")
    '→/tasks.md'
    """
    return f"→/{name.replace(chr(92), '/').rpartition('/')[2].lower()}"


REFERS_TO = "refers_to"
"""The relation of a link between two sections."""


def plain_runs(norm: str) -> list[str] | None:
    """Return texts that any name of ASCII characters contains whose normalised form contains ``norm``; None: no name.

    >>> plain_runs("auth serv"), plain_runs("東京")
    (['auth', 'serv'], None)
    """
    return re.findall("[a-z0-9]+", norm) if norm.isascii() else None


def unify(text: str) -> str:
    """Return a text with Unicode compatibility forms unified, such as ligatures and letters with combining accents."""
    return unicodedata.normalize("NFKC", _MARKS.sub(r"\1", text) if len(text) > _LONG else text)


@lru_cache(maxsize=8_192)
def normalise(name: str) -> str:
    """Return the spelling under which names are compared. It is the id of an entity.

    Lower case, Unicode compatibility forms unified, possessive and leading article removed,
    punctuation replaced by spaces. Letters of every script are kept. The plural of one ordinary word or of capitals
    is the singular.

    >>> normalise("The Auth-Service's"), normalise("auth_service"), normalise("東京")
    ('auth service', 'auth service', '東京')
    >>> normalise("ACLs"), normalise("Developers"), normalise("Windows")
    ('acl', 'developer', 'windows')
    >>> normalise("C++") == normalise("C#")
    False
    """
    if name[:1] == "→":  # the address of a section, whose punctuation matters
        return name.casefold() if len(name) > 1 else ""
    if name.isascii() and name.replace(" ", "").isalnum():  # fast path: most names are plain ASCII words
        norm = _ARTICLE.sub("", " ".join(name.lower().split()))
        if norm[-1:] != "s" or " " in norm:
            return norm
        return norm[:-1] if _CAPITALS_PLURAL.fullmatch(name) else singular(norm)
    if not name.isascii():
        name = unify(name)
    name = _POSSESSIVE.sub("", name.strip(" .,;:\"'’").casefold())
    name = _SPACES.sub(" ", _SEPARATORS.sub(" ", name)).strip()
    return _ARTICLE.sub("", name)


def title_names(title: str) -> tuple[str, ...]:
    """Return the names of a title's subject: without the parenthesis, and as written.

    >>> title_names("Devotion (1929 film)"), title_names("Auth Service")
    (('Devotion', 'Devotion (1929 film)'), ('Auth Service',))
    """
    names = (_PARENTHESIS.sub("", title).strip(), title.strip())
    return tuple(dict.fromkeys(name for name in names if normalise(name)))


def with_arxiv_ids(question: str) -> str:
    """Return a question with its arXiv ids without their version at the end: most documents write them so.

    >>> with_arxiv_ids("Who wrote 2501.03236v2?")
    'Who wrote 2501.03236v2? 2501.03236'
    """
    return " ".join((question, *dict.fromkeys(_VERSIONED_ID.findall(question))))


def hash64(text: str) -> int:
    """Return a signed 64-bit hash of a text. It is the same on every machine and in every version."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def fingerprint(parts: Iterable[str]) -> str:
    """Return a hex digest of a list of texts. Moving a boundary between two texts changes it.

    >>> fingerprint(["ab", "c"]) == fingerprint(["a", "bc"])
    False
    """
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(piece).to_bytes(8, "little") + piece for piece in data])
    return hashlib.blake2b(framed, digest_size=16).hexdigest()


def label(title: str, headings: Sequence[str]) -> str:
    """Return what a chunk is called: its document's title and its nearest heading.

    >>> label("Configuration", ("Broker settings", "broker_url")), label("Configuration", ())
    ('Configuration - broker_url', 'Configuration')
    """
    nearest = headings[-1] if headings else ""
    return f"{title} - {nearest}" if title and nearest and nearest != title else title or nearest


def chunk_text(label: str, text: str) -> str:
    """Return the text under which a chunk is embedded and indexed: its label and its text."""
    return f"{label}\n{text}" if label else text


def fact_text(label: str, text: str, relation: str, entities: Sequence[str]) -> str:
    """Return the text under which a fact is embedded and indexed.

    A sentence follows its chunk's label. A triple is written in words, followed by its description.

    >>> fact_text("Auth Service", "It issues tokens.", "", ["Auth Service"])
    'Auth Service: It issues tokens.'
    >>> fact_text("", "It delegates logins.", "depends_on", ["Auth Service", "OAuth Provider"])
    'Auth Service depends on OAuth Provider: It delegates logins.'
    """
    if not relation or relation == REFERS_TO:  # a reference is the sentence with the link
        return f"{label}: {text}" if label else text
    if EDGE in entities:  # the other end may be an id
        return text
    words = relation.replace("_", " ")
    triple = f"{entities[0]} {words} {' '.join(entities[1:])}".rstrip() if entities else words
    plain = f"{entities[0]} {relation} {' '.join(entities[1:])}".rstrip() if entities else relation
    return triple if text in ("", triple, plain) else f"{triple}: {text}"
