"""What a chunk is about: its title, its headings, the terms it defines, and its addresses.

An address is a link target, as the name of an entity. It starts with "→": ``→guide/tasks#retry`` is a section of a
document, ``→guide/tasks`` the document, and ``→#retry`` a label that is unique in a project. A chunk has the addresses
of its section as subjects, and a link mentions one. The graph drops addresses that no chunk has.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
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
_PART_NUMBER = rf"{_PART}{_COUNT}(?:[.:)]+\s+|\s+[–—-]\s+|\s+(?=[^\W\d]\w{{2}}))"
_NUMBERING = re.compile(
    rf"\A\s*(?:(?:re|fwd?|aw|wg):\s*)*(?:§+\s*)?(?:{_PART_NUMBER}|(?:{_PART})?"
    r"(?:\(?(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)+|[ivxIVX]{1,5})[.):]+\s+|(?:\d+|[A-Z])(?:\.\d+)+\s+"
    r"|第[\d一二三四五六七八九十]+[章节節]\s*)|\d{1,2}\s+(?=[^\W\d])|(?<=:\s))",
    re.IGNORECASE,
)
_TITLE_NUMBERING = re.compile(
    rf"\A\s*(?:{_PART_NUMBER}|(?:\d+|[A-Z])(?:\.\d+)+\.?\s+)(?=\S)", re.IGNORECASE
)  # not "24: Legacy"
_REFERENCE = re.compile(rf"\s*{_PART}{_COUNT}\W*", re.IGNORECASE)
_CODE = re.compile(r"[;{}=<>\\]|\w\(.*,|\*\w|\)\(|\w\(\w+\)")
_STRAY = " \t\r\n`*_#¶:.,;|→"
_SUFFIX = re.compile(
    r"\.(?:html?|xhtml|rst|rest|txt|md|mdx|markdown|mkd|myst|ipynb|adoc|asciidoc|org|php|pdf|docx|pptx|xlsx|epub)$",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=\S)")
_WEB = re.compile(r"https?://([^/?#]*)([^?#]*)", re.IGNORECASE)
_LABEL = re.compile(r"[^/#?\n]+")
_PLACE_KEYS = ("url", "source", "file_path")
_NO_NAMES = OPENERS | NEVER_ALONE
_GENERIC, _GENERIC_TITLES = frozenset(map(normalise, GENERIC_HEADINGS)), frozenset(map(normalise, GENERIC_TITLES))
_MOST_PARENTS = 4  # of the folders that a target from the root may mean
_MOST_WORDS = 8
_LONGEST_HEADING = 1_000  # characters, with markup; a longer one is not a name
_MOST_HEADINGS, _MOST_TERMS, _MOST_ANCHORS = 6, 20, 20


class Subjects(NamedTuple):
    """The names of what a chunk is about, and its addresses.

    A heading is with the place where it starts to apply, a term with the block that defines it.
    """

    title: tuple[str, ...]
    headings: tuple[tuple[int, tuple[str, ...]], ...]
    terms: tuple[tuple[Mark, tuple[str, ...]], ...]
    addresses: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        """Return all names, the title's first and addresses last."""
        groups = (names for _, names in (*self.headings, *self.terms))
        return tuple(dict.fromkeys(chain(self.title, *groups, self.addresses)))

    def at(self, position: int) -> tuple[str, ...]:
        """Return the names of the title and of the nearest heading, and of the term that is defined there."""
        if not self.headings and not self.terms:
            return self.title
        nearest = next((names for start, names in reversed(self.headings) if start <= position), ())
        terms = (names for block, names in self.terms if block.start <= position < block.end)
        return tuple(dict.fromkeys(chain(self.title, nearest, *terms)))


def read_subjects(chunk: Chunk, inherited: tuple[str, ...]) -> Subjects:
    """Return the subjects of a chunk; ``inherited`` are the addresses of the section that it continues."""
    title = _title(chunk.title) if chunk.title else ()
    if not chunk.headings and all(mark.kind == "paragraph" for mark in chunk.marks):
        return Subjects(title, (), (), tuple(_document_addresses(chunk)))
    addresses = tuple(dict.fromkeys((*_addresses(chunk), *inherited)))
    return Subjects(title, tuple(_headings(chunk)), tuple(_terms(chunk)), addresses)


def section_anchors(chunk: Chunk) -> tuple[str, ...]:
    """Return the addresses of the last section that starts in a chunk: the chunks that continue it have them too."""
    headings = [mark for mark in chunk.marks if mark.kind == "heading"]
    if not headings:
        return ()
    last = headings[-1]
    previous = headings[-2].end if len(headings) > 1 else -1
    anchors = [m.value for m in chunk.marks if m.kind == "anchor" and previous < m.start <= last.end]
    return tuple(address for anchor in anchors[:_MOST_ANCHORS] for address in section_addresses(chunk, anchor))


@lru_cache(maxsize=4_096)
def heading_names(heading: str) -> tuple[str, ...]:
    """Return the names in a heading or defined term; none if it says nothing, like "1. Overview".

    >>> heading_names("3.2 The `visibility timeout`"), heading_names("Session.begin()"), heading_names("See also")
    (('The visibility timeout',), ('Session.begin', 'begin'), ())
    """
    if len(heading) > _LONGEST_HEADING:
        return ()
    text = " ".join(_NUMBERING.sub("", plain(heading), count=1).split()).strip(_STRAY)
    if not text or text[-1] in "?!？！" or is_version(text) or _REFERENCE.fullmatch(text):
        return ()
    words = text.split()
    if (len(words) == 1 or "(" in words[0]) and not text.isalpha():
        code = code_names(text)
        if code:
            return code if " " not in code[0] else ()
        return title_names(text) if text.isalnum() and not text.isdigit() else ()
    lower = [word.lower() for word in words]
    if len(words) > _MOST_WORDS or _CODE.search(text) or all(map(_NO_NAMES.__contains__, lower)):
        return ()
    while lower[len(words) - 1] in FUNCTION:
        words.pop()
    return tuple(
        name for name in title_names(" ".join(words)) if len(normalise(name)) > 1 and normalise(name) not in _GENERIC
    )


@lru_cache(maxsize=4_096)
def _title(title: str) -> tuple[str, ...]:
    if normalise(_NUMBERING.sub("", title[:_LONGEST_HEADING], count=1)) in _GENERIC_TITLES:
        return ()
    return () if _REFERENCE.fullmatch(title) else title_names(_TITLE_NUMBERING.sub("", title, count=1))


def _headings(chunk: Chunk) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the nearest heading above a chunk that says something, and those in it."""
    seen = set(map(normalise, _title(chunk.title)))

    def new_names(heading: str) -> tuple[str, ...]:
        names = tuple(name for name in heading_names(heading) if normalise(name) not in seen)
        seen.update(map(normalise, names))
        return names

    if above := next(filter(None, map(new_names, reversed(chunk.headings))), ()):
        yield -1, above
    inside = [mark for mark in chunk.marks if mark.kind == "heading"]
    for mark in inside[:_MOST_HEADINGS]:
        if names := new_names(chunk.text[mark.start : mark.end]):
            yield mark.start, names


def _terms(chunk: Chunk) -> Iterator[tuple[Mark, tuple[str, ...]]]:
    blocks = [mark for mark in chunk.marks if mark.kind in {"paragraph", "item", "definition", "heading"}]
    marks = [mark for mark in chunk.marks if mark.kind == "term"]
    for term in marks[:_MOST_TERMS]:
        if names := heading_names(term.value):
            yield next((block for block in blocks if block.start <= term.start < block.end), term), names


def _document_addresses(chunk: Chunk) -> Iterator[str]:
    """Yield the address of a chunk's document, if it has a path or URL, and for its first chunk that of its file."""
    place = _place(chunk) or chunk.document_id
    if "/" in place or "." in place:
        yield document_address(chunk)
        if chunk.ordinal == 0 and _SUFFIX.search(place):
            yield file_address(place)


def _addresses(chunk: Chunk) -> Iterator[str]:
    if chunk.ordinal == 0 or not chunk.headings:
        yield from _document_addresses(chunk)
    anchors = [mark.value for mark in chunk.marks if mark.kind == "anchor" and mark.value.strip()]
    for anchor in anchors[:_MOST_ANCHORS]:
        yield from section_addresses(chunk, anchor)


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
    is_row = chunk.document_id.startswith(f"{place}#")
    return _address(place if place and not is_row else chunk.document_id)


def section_addresses(chunk: Chunk, anchor: str) -> tuple[str, ...]:
    """Return the addresses of an anchor: in its document, and as a label of the project."""
    address = f"{document_address(chunk)}#{anchor}"
    return (address,) if normalise(anchor) in _GENERIC else (address, f"→#{anchor}")


def link_addresses(chunk: Chunk, target: str) -> tuple[str, ...]:
    """Return the addresses that a link may mean. Those that no chunk has are dropped with the graph.

    >>> chunk = Chunk("1", "guide/tasks.md", "…")
    >>> link_addresses(chunk, "../faq.rst#retry"), link_addresses(chunk, "#states"), link_addresses(chunk, "states")
    (('→faq#retry',), ('→guide/tasks#states',), ('→#states', '→guide/states'))
    """
    return _resolve(_place(chunk) or chunk.document_id, target.strip())


def _place(chunk: Chunk) -> str:
    """Return the URL or path of a chunk's document that its metadata names."""
    found = (chunk.metadata.get(key) for key in _PLACE_KEYS)
    return next((value.strip() for value in found if isinstance(value, str) and value.strip()), "")


@lru_cache(maxsize=4_096)
def _resolve(base: str, target: str) -> tuple[str, ...]:
    path, _, anchor = target.partition("#")
    tail = f"#{unquote(anchor)}" if anchor else ""
    if not path:
        return (f"{_address(base)}{tail}",) if anchor else ()
    if _WEB.match(target):
        return (f"{_address(path)}{tail}",)
    labels: tuple[str, ...] = ()
    if not tail and _LABEL.fullmatch(path) and not _SUFFIX.search(path):
        labels = (f"→#{path}",)
    if _SCHEME.match(path) or (labels and " " in path):  # mailto:, the label of another project, a term
        return labels
    return (*labels, *dict.fromkeys(f"{_address(place)}{tail}" for place in _places(base, path)))


def _places(base: str, path: str) -> Iterator[str]:
    """Yield the places that a path in the document ``base`` may mean."""
    if site := _WEB.match(base):
        host = f"https://{site[1]}"
        yield host + (path if path.startswith("/") else posixpath.join(posixpath.dirname(site[2]) or "/", path))
        return
    folder = posixpath.dirname(base.replace("\\", "/"))
    if not path.startswith("/"):
        yield posixpath.join(folder, path)
        return
    # A path from the root of a project, whose folder is not known: it is one of those above the document.
    for _ in range(_MOST_PARENTS):
        yield posixpath.join(folder, path.lstrip("/"))
        if not folder.strip("/"):
            break
        folder = posixpath.dirname(folder)


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
