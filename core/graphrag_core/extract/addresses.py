"""Addresses: the places that links lead to, as names of entities.

An address starts with "→": ``→guide/tasks#retry`` is a section of a document, ``→guide/tasks`` the document, and
``→#retry`` a label that is unique in a project. A chunk has the addresses of its section as subjects, and a
link mentions one. The graph drops addresses that no chunk has.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

from graphrag_core.model import Chunk
from graphrag_core.text import normalise
from graphrag_core.text.words import GENERIC_HEADINGS

_SUFFIX = re.compile(
    r"\.(?:html?|xhtml|rst|rest|txt|md|mdx|markdown|mkd|myst|ipynb|adoc|asciidoc|org|php|pdf|docx|pptx|xlsx|epub)$",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=\S)")
_WEB = re.compile(r"https?://([^/?#]*)([^?#]*)", re.IGNORECASE)
_ESCAPED = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_LABEL = re.compile(r"[^/#?\n]+")
_MOST_PARENTS = 4  # of the folders that a target from the root may mean


def document_address(chunk: Chunk) -> str:
    """Return the address of a chunk's document: its URL or path without the suffix, else its id.

    The rows of a table are documents with the same path. Each has its id as its address, so that they are not linked.

    >>> document_address(Chunk("1", "1", "…", metadata={"source": "https://example.org/guide/tasks.html"}))
    '→example.org/guide/tasks'
    >>> document_address(Chunk("1", "people.csv#2", "…", metadata={"source": "people.csv"}))
    '→people.csv#2'
    """
    for key in ("url", "source", "file_path"):
        value = chunk.metadata.get(key)
        if isinstance(value, str) and value.strip():
            is_row = chunk.document_id.startswith(f"{value.strip()}#")
            return _address(chunk.document_id if is_row else value.strip())
    return _address(chunk.document_id)


def section_addresses(chunk: Chunk, anchor: str) -> tuple[str, ...]:
    """Return the addresses of an anchor: in its document, and as a label of the project."""
    own = f"{document_address(chunk)}#{anchor}"
    return (own,) if normalise(anchor) in GENERIC_HEADINGS else (own, f"→#{anchor}")


def link_addresses(chunk: Chunk, target: str) -> tuple[str, ...]:
    """Return the addresses that a link may mean. Those that no chunk has are dropped with the graph.

    >>> chunk = Chunk("1", "guide/tasks.md", "…")
    >>> link_addresses(chunk, "../faq.rst#retry"), link_addresses(chunk, "#states"), link_addresses(chunk, "states")
    (('→faq#retry',), ('→guide/tasks#states',), ('→#states', '→guide/states'))
    """
    base = next(
        (str(chunk.metadata[key]).strip() for key in ("url", "source", "file_path") if chunk.metadata.get(key)),
        chunk.document_id,
    )
    return _resolve(base, target.strip())


@lru_cache(maxsize=4_096)
def _resolve(base: str, target: str) -> tuple[str, ...]:
    path, _, anchor = target.partition("#")
    tail = f"#{_unquote(anchor)}" if anchor else ""
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
    """Return the address of a URL or path: without scheme, query, suffix and "index"."""
    if site := _WEB.match(place):
        place = f"{site[1].lower()}/{site[2]}"
    place = posixpath.normpath(_unquote(place).replace("\\", "/")).removeprefix("./").rstrip("/")
    place = _SUFFIX.sub("", place)
    if posixpath.basename(place).lower() == "index":
        place = posixpath.dirname(place)
    return f"→{place.replace('//', '/')}"


def _unquote(text: str) -> str:
    """Return a part of a URL with the escaped characters as themselves."""
    if "%" not in text:
        return text
    return _ESCAPED.sub(lambda m: bytes.fromhex(m.group().replace("%", "")).decode("utf-8", "replace"), text)
