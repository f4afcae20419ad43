"""Documents out of files, with ids that stay the same from run to run."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphrag_core.errors import DocumentError, FileError, MissingDependency
from graphrag_core.intake import check
from graphrag_core.loading.content import Content, Fault
from graphrag_core.loading.read import FORMATS, LARGEST, read
from graphrag_core.loading.walk import File, Problem, walk
from graphrag_core.model import Document

_log = logging.getLogger(__name__)
_WORDS = re.compile(r"[-_\s]+")


def load_documents(
    paths: Iterable[str | Path],
    *,
    metadata: Mapping[str, Any] | None = None,
    largest: int = LARGEST,
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[Document]:
    """Yield the documents of folders, files and patterns, one at a time.

    Parameters
    ----------
    paths
        Folders are walked with their subfolders; ``*``, ``?`` and ``**`` match.
    metadata
        Added to every document's own: ``source``, ``file_name``, ``folder``, ``format`` and
        what the file itself says.
    largest
        Bytes above which a file that must be read whole is left out.
    on_problem
        Called for each file or row that is left out; the others go on. Logged by default.

    A document's id is its file's path under the given folder; rows of tables and objects of
    JSON files have their own id or their number behind it (``people.csv#17``).
    """
    report = on_problem or (lambda problem: _log.warning("%s", problem))
    for found in walk(paths):
        if isinstance(found, Problem):
            report(found)
        elif found.suffix in FORMATS or found.asked:
            for item in documents_of(found, found.name, metadata or {}, largest):
                if isinstance(item, Document):
                    yield item
                else:
                    report(item)


def documents_of(
    file: File, name: str, metadata: Mapping[str, Any], largest: int = LARGEST
) -> Iterator[Document | Problem]:
    """Yield the documents of one file under ids that begin with ``name``, and what was left out."""
    if file.suffix not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        yield Problem(str(file.path), f"is of no known format: give one of {known}")
        return
    count = 0
    keys: set[str] = set()
    try:
        for item in read(file, largest):
            where = f"{file.path}#{item.key}" if item.key else str(file.path)
            if isinstance(item, Fault):
                yield Problem(where, item.reason)
                continue
            if item.key and item.key in keys:
                yield Problem(where, "this id comes twice in the file: the first was kept")
                continue
            keys.add(item.key)
            made = _document(item, file, name, metadata)
            if isinstance(made, Problem):
                yield made
                continue
            count += 1
            yield made
    except (FileError, MissingDependency) as error:
        yield Problem(str(file.path), str(error), empty=file.size == 0)
    except OSError as error:
        yield Problem(str(file.path), f"cannot be read ({error.strerror or error})")
    else:
        if not count and not keys:
            yield Problem(str(file.path), "has no words in it", empty=True)


def _document(content: Content, file: File, name: str, metadata: Mapping[str, Any]) -> Document | Problem:
    where = f"{file.path}#{content.key}" if content.key else str(file.path)
    if not content.text.strip():
        return Problem(where, "has no words in it", empty=not content.key)
    file_says = {
        "folder": name.rpartition("/")[0],
        "format": FORMATS[file.suffix],
        **content.metadata,
        "source": name,
        "file_name": file.path.name,
    }
    stem = _WORDS.sub(" ", file.path.stem).strip()
    title = content.title or (f"{stem} {content.key}" if content.key else stem)
    identity = f"{name}#{content.key}" if content.key else name
    document = Document(identity, content.text, " ".join(title.split())[:200], {**file_says, **metadata})
    try:
        check(document)
    except DocumentError as error:
        return Problem(where, str(error).partition(": ")[2])
    return document
