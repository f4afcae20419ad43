"""What a chunk is about: its title, its headings, the terms it defines, and its addresses.

An address is a link target, as the name of an entity. It starts with "→": ``→guide/tasks#retry`` is a section of a
document, ``→guide/tasks`` the document, and ``→#retry`` a label that is unique in a project. A chunk has the addresses
of its section as subjects, and a link mentions one. The graph drops addresses that no chunk has.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, takewhile
from typing import NamedTuple
from urllib.parse import unquote

from graphrag_core.extract.names import code_names
from graphrag_core.model import Chunk, Mark
from graphrag_core.text import normalise, title_names
from graphrag_core.text.markup import plain
from graphrag_core.text.names import file_address, is_version
from graphrag_core.text.words import FUNCTION, GENERIC_HEADINGS, GENERIC_TITLES, NEVER_ALONE, OPENERS

_PART = r"(?:chapter|section|part|line|appendix|step|kapitel|abschnitt|chapitre|capítulo|глава|раздел)\s+"
_COUNT = r"(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)*|[IVX]{1,5})"
_NUMBERING = re.compile(  # of a title: "Chapter 2: ", "3.1 ", not "24: "
    rf"\A\s*(?:{_PART}{_COUNT}(?:[.:)]+\s+|\s+[–—-]\s+|\s+(?=[^\W\d]\w{{2}}))|(?:\d+|[A-Z])(?:\.\d+)+\.?\s+)(?=\S)",
    re.IGNORECASE,
)
_ITEM_NUMBER = re.compile(
    r"\A\s*(?:(?:re|fwd?|aw|wg):\s*|§+\s*)*(?:\(?(?:\d+|[ivxIVX]{1,5})[.):]+\s+|\d{1,2}\s+(?=\D))?"
)
_REFERENCE = re.compile(rf"\s*{_PART}{_COUNT}\W*", re.IGNORECASE)
_CODE = re.compile(r"[;{}=<>\\]|\w\(.*,|\*\w|\)\(|\w\(\w+\)")
_SUFFIX = re.compile(
    r"\.(?:html?|xhtml|rst|rest|txt|md|mdx|markdown|mkd|myst|ipynb|adoc|asciidoc|org|php|pdf|docx|pptx|xlsx|epub)$",
    re.IGNORECASE,
)
_WEB = re.compile(r"https?://([^/?#]*)([^?#]*)", re.IGNORECASE)
_NO_NAMES = OPENERS | NEVER_ALONE
_GENERIC, _GENERIC_TITLES = frozenset(map(normalise, GENERIC_HEADINGS)), frozenset(map(normalise, GENERIC_TITLES))
_MAX_HEADING, _MAX_WORDS = 1_000, 8  # characters with markup, words
_MAX_HEADINGS, _MAX_TERMS = 6, 20  # of a chunk; anchors as terms


class Subjects(NamedTuple):
    """The names of what a chunk is about, and its addresses.

    A heading is with the place where it starts to apply, a term with the block that defines it.
    """

    title: tuple[str, ...] = ()
    headings: tuple[tuple[int, tuple[str, ...]], ...] = ()
    terms: tuple[tuple[Mark, tuple[str, ...]], ...] = ()
    addresses: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return all names, the title's first and addresses last."""
        groups = (names for _, names in (*self.headings, *self.terms))
        return tuple(dict.fromkeys(chain(self.title, *groups, self.addresses)))

    def at(self, position: int) -> tuple[str, ...]:
        """Return the names of the title and of the nearest heading, and of the term that is defined there."""
        nearest = next((names for start, names in reversed(self.headings) if start <= position), ())
        terms = (names for block, names in self.terms if block.start <= position < block.end)
        return tuple(dict.fromkeys(chain(self.title, nearest, *terms)))


def read_subjects(chunk: Chunk, inherited: tuple[str, ...]) -> Subjects:
    """Return the subjects of a chunk; ``inherited`` are the addresses of the section that it continues."""
    title = _title(chunk.title) if chunk.title else ()
    addresses = list(_own_addresses(chunk))
    if not chunk.headings and all(mark.kind == "paragraph" for mark in chunk.marks):
        return Subjects(title, addresses=tuple(addresses))
    anchors = [mark.value for mark in chunk.marks if mark.kind == "anchor" and mark.value.strip()]
    addresses += section_addresses(chunk, anchors)
    addresses += [address for address in inherited if address not in addresses]
    return Subjects(title, _headings(chunk, title), tuple(_terms(chunk)), tuple(dict.fromkeys(addresses)))


def _own_addresses(chunk: Chunk) -> Iterator[str]:
    """Yield the address of a chunk's document, if it has a path or URL, and for its first chunk that of its file."""
    place = _place(chunk)
    if (chunk.ordinal == 0 or not chunk.headings) and ("/" in place or "." in place):
        yield document_address(chunk)
        if chunk.ordinal == 0 and _SUFFIX.search(place):
            yield file_address(place)


def _terms(chunk: Chunk) -> Iterator[tuple[Mark, tuple[str, ...]]]:
    """Yield the defined terms of a chunk, each with its block."""
    blocks = [mark for mark in chunk.marks if mark.kind in {"paragraph", "item", "definition", "heading"}]
    for term in [mark for mark in chunk.marks if mark.kind == "term"][:_MAX_TERMS]:
        if names := heading_names(term.value):
            yield next((block for block in blocks if block.start <= term.start < block.end), term), names


def _headings(chunk: Chunk, title: tuple[str, ...]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the nearest heading above a chunk that says something, and those in it."""
    seen = set(map(normalise, title))
    headings: list[tuple[int, tuple[str, ...]]] = []
    above = [(-1, heading) for heading in reversed(chunk.headings)]
    inside = [(mark.start, chunk.text[mark.start : mark.end]) for mark in chunk.marks if mark.kind == "heading"]
    for start, heading in (*above, *inside[:_MAX_HEADINGS]):
        if start >= 0 or not headings:  # of those above, the nearest one that says something
            names = tuple(name for name in heading_names(heading) if normalise(name) not in seen)
            seen.update(map(normalise, names))
            headings += [(start, names)] if names else []
    return tuple(headings)


def section_anchors(chunk: Chunk) -> tuple[str, ...]:
    """Return the addresses of the last section that starts in a chunk: the chunks that continue it have them too."""
    headings = [mark for mark in chunk.marks if mark.kind == "heading"]
    if not headings:
        return ()
    previous = headings[-2].end if len(headings) > 1 else -1
    return section_addresses(
        chunk,
        [mark.value for mark in chunk.marks if mark.kind == "anchor" and previous < mark.start <= headings[-1].end],
    )


@lru_cache(maxsize=4_096)
def heading_names(heading: str) -> tuple[str, ...]:
    """Return the names in a heading or defined term; none if it says nothing, like "1. Overview".

    >>> heading_names("3.2 The `visibility timeout`"), heading_names("Session.begin()"), heading_names("See also")
    (('The visibility timeout',), ('Session.begin', 'begin'), ())
    """
    if len(heading) > _MAX_HEADING:
        return ()
    text = _ITEM_NUMBER.sub("", _NUMBERING.sub("", plain(heading), count=1), count=1)
    words = text.strip(" \t\r\n`*_#¶:.,;|→").split()
    text = " ".join(words)
    if not text or text[-1] in "?!？！" or is_version(text) or _REFERENCE.fullmatch(text):
        return ()
    if (len(words) == 1 or "(" in words[0]) and not text.isalpha():
        if code := code_names(text):
            return code if " " not in code[0] else ()
        return title_names(text) if text.isalnum() and not text.isdigit() else ()
    lower = [word.lower() for word in words]
    first, _, rest = text.partition(", ")
    is_entry = bool(rest) and rest.startswith(first)  # of an index: "High Pass, High Pass"
    if len(words) > _MAX_WORDS or is_entry or _CODE.search(text) or all(map(_NO_NAMES.__contains__, lower)):
        return ()
    while lower[len(words) - 1] in FUNCTION:
        words.pop()
    names = title_names(" ".join(words))
    return tuple(name for name in names if len(normalise(name)) > 1 and normalise(name) not in _GENERIC)


@lru_cache(maxsize=4_096)
def _title(title: str) -> tuple[str, ...]:
    name = _NUMBERING.sub("", title[:_MAX_HEADING], count=1)
    if normalise(_ITEM_NUMBER.sub("", name, count=1)) in _GENERIC_TITLES or _REFERENCE.fullmatch(title):
        return ()
    return title_names(_NUMBERING.sub("", title, count=1))


# -- addresses


def document_address(chunk: Chunk) -> str:
    """Return the address of a chunk's document: its URL or path without the suffix, else its id.

    The rows of a table are documents with the same path. Each has its id as its address, so that they are not linked.

    >>> document_address(Chunk("1", "1", "…", metadata={"source": "https://example.org/guide/tasks.html"}))
    '→example.org/guide/tasks'
    >>> document_address(Chunk("1", "people.csv#2", "…", metadata={"source": "people.csv"}))
    '→people.csv#2'
    """
    place = _place(chunk)
    return _address(chunk.document_id if chunk.document_id.startswith(f"{place}#") else place)


def section_addresses(chunk: Chunk, anchors: list[str]) -> tuple[str, ...]:
    """Return the addresses of anchors: in their document, and as labels of the project."""
    document = document_address(chunk) if anchors else ""
    places = ((f"{document}#{a}", *((f"→#{a}",) if normalise(a) not in _GENERIC else ())) for a in anchors[:_MAX_TERMS])
    return tuple(chain.from_iterable(places))


def link_addresses(chunk: Chunk, target: str) -> tuple[str, ...]:
    """Return the addresses that a link may mean. Those that no chunk has are dropped with the graph.

    >>> chunk = Chunk("1", "guide/tasks.md", "…")
    >>> link_addresses(chunk, "../faq.rst#retry"), link_addresses(chunk, "#states"), link_addresses(chunk, "states")
    (('→faq#retry',), ('→guide/tasks#states',), ('→#states', '→guide/states'))
    """
    return _resolve(_place(chunk), target.strip())


def _place(chunk: Chunk) -> str:
    """Return the URL or path of a chunk's document that its metadata names, else the document's id."""
    found = map(chunk.metadata.get, ("url", "source", "file_path"))
    return next((value.strip() for value in found if isinstance(value, str) and value.strip()), chunk.document_id)


@lru_cache(maxsize=4_096)
def _resolve(base: str, target: str) -> tuple[str, ...]:
    path, _, anchor = target.partition("#")
    tail = f"#{unquote(anchor)}" if anchor else ""
    if not path:
        return (f"{_address(base)}{tail}",) if anchor else ()
    if _WEB.match(target):
        return (f"{_address(path)}{tail}",)
    is_label = not tail and not set("/?\n") & set(path) and not _SUFFIX.search(path)
    labels = (f"→#{path}",) if is_label else ()
    scheme = path.partition(":")[0]
    if (scheme != path and "/" not in scheme) or (is_label and " " in path):  # mailto:, of another project, a term
        return labels
    site = _WEB.match(base)
    folder = posixpath.dirname(site[2] if site else base.replace("\\", "/"))
    folders = [folder]
    if path.startswith("/"):  # from the root of a site, or of a project: its folder is one of those above the document
        above = posixpath.dirname(folder), posixpath.dirname(posixpath.dirname(folder))
        folders = [""] if site else [folder, *takewhile(lambda _: folder.strip("/"), above)]
    host = f"https://{site[1]}/" if site else ""
    places = (host + posixpath.join(folder, path.lstrip("/") if path[0] == "/" else path) for folder in folders)
    return (*labels, *dict.fromkeys(f"{_address(place)}{tail}" for place in places))


@lru_cache(maxsize=4_096)
def _address(place: str) -> str:
    """Normalise a URL or path, for links: without scheme, query string, file suffix and a final "index"."""
    if site := _WEB.match(place):
        place = f"{site[1].lower()}/{site[2]}"
    place = posixpath.normpath(unquote(place).replace("\\", "/")).removeprefix("./").rstrip("/")
    place = _SUFFIX.sub("", place)
    if posixpath.basename(place).lower() == "index":
        place = posixpath.dirname(place)
    return f"→{place.replace('//', '/')}"
