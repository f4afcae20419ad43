"""Load documents from files, with ids that are stable from run to run."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from graphrag_apps.documents.containers import read_eml, read_epub, read_notebook
from graphrag_apps.documents.office import read_docx, read_pptx, read_xlsx
from graphrag_apps.documents.pdf import read_pdf
from graphrag_apps.documents.plain import read_markdown, read_text
from graphrag_apps.documents.rows import read_csv, read_json, read_jsonl
from graphrag_apps.documents.rst import read_rst
from graphrag_apps.documents.walk import File, Problem, walk_files
from graphrag_core.errors import DocumentError, FileError, MissingDependency
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.ingest.validation import validate
from graphrag_core.model import Document
from graphrag_core.text.content import Content
from graphrag_core.text.html import read_html

MAX_BYTES = 100_000_000
"""Default size limit of files that cannot be streamed."""

_READERS: dict[str, tuple[Callable[[Any], Content | Iterator[Content]], str]] = {
    "text": (read_text, ".txt .text"),
    "markdown": (read_markdown, ".md .markdown"),
    "rst": (read_rst, ".rst"),
    "html": (read_html, ".html .htm .xhtml"),
    "pdf": (read_pdf, ".pdf"),
    "docx": (read_docx, ".docx"),
    "pptx": (read_pptx, ".pptx"),
    "xlsx": (read_xlsx, ".xlsx .xlsm"),
    "eml": (read_eml, ".eml"),
    "epub": (read_epub, ".epub"),
    "notebook": (read_notebook, ".ipynb"),
    "json": (read_json, ".json"),
    "csv": (read_csv, ".csv .tsv"),
    "jsonl": (read_jsonl, ".jsonl .ndjson"),
}
_STREAMED = {"csv", "jsonl"}  # their readers take a path, the others bytes
FORMATS = {extension: kind for kind, (_, extensions) in _READERS.items() for extension in extensions.split()}
"""File extensions and the format each is read as."""

_MAX_BAD_ROWS = 20  # of a file that are reported one by one

_log = logging.getLogger(__name__)
_SEPARATORS = re.compile(r"[-_\s]+")


def load_documents(
    paths: str | Path | Iterable[str | Path],
    *,
    metadata: Mapping[str, Any] | None = None,
    max_bytes: int = MAX_BYTES,
    on_problem: Callable[[Problem], None] | None = None,
    follow_links: bool = False,
) -> Iterator[Document]:
    """Yield the documents of folders, files and glob patterns, one at a time.

    A document's id is its file's path relative to the given folder. Rows of tables and objects of JSON files append
    an id or a number: ``people.csv#17``. A paper or a project of research findings has the same id in every file:
    ``arxiv:2501.03236``.

    Parameters
    ----------
    paths
        One path or several. Folders are walked recursively; ``*``, ``?`` and ``**`` are wildcards.
    metadata
        Added to every document, beside ``source``, ``file_name``, ``folder``, ``format`` and the metadata in the file.
        A file cannot set these keys, except ``format``, nor parts of them (``acl.tenant`` beside ``acl``), nor the keys
        that this library reserves.
    max_bytes
        Skip larger files, except CSV and JSON Lines, which are streamed.
    on_problem
        Called for each file or row that is skipped. By default they are logged as warnings.
    follow_links
        Whether to follow symbolic links that lead out of the given folders.
    """
    report = on_problem or (lambda problem: _log.warning("%s", problem))
    for file in walk_files(paths, follow_links=follow_links, formats=FORMATS):
        if isinstance(file, Problem):
            report(file)
        elif file.suffix in FORMATS or file.explicit:
            for item in file_documents(file, metadata or {}, max_bytes):
                if isinstance(item, Document):
                    yield item
                else:
                    report(item)


def file_documents(file: File, metadata: Mapping[str, Any], max_bytes: int = MAX_BYTES) -> Iterator[Document | Problem]:
    """Yield the documents of one file, with ids that begin with its name, and a problem for each skipped part."""
    if file.suffix not in FORMATS:
        yield Problem(str(file.path), f"unknown format: use one of {', '.join(sorted(FORMATS))}")
        return
    documents = bad_rows = 0
    try:
        for item in _rows(file, metadata, max_bytes):
            documents += isinstance(item, Document)
            bad_rows += isinstance(item, Problem)
            if isinstance(item, Document) or bad_rows <= _MAX_BAD_ROWS:
                yield item
        if not documents and not bad_rows:
            yield Problem(str(file.path), "contains no text", empty=True)
    except (FileError, MissingDependency) as error:
        yield Problem(str(file.path), str(error), empty=file.size == 0)
    except OSError as error:
        yield Problem(str(file.path), f"cannot be read ({error.strerror or error})")
    except Exception as error:  # noqa: BLE001 - a parser may raise anything; one file must not end the run
        _log.debug("%s", file.path, exc_info=True)
        reason = " ".join(str(error).split())[:200]
        yield Problem(str(file.path), f"its reader failed ({type(error).__name__}: {reason}): the file may be damaged")
    if bad_rows > _MAX_BAD_ROWS:
        yield Problem(str(file.path), f"{bad_rows - _MAX_BAD_ROWS:,} more of its rows cannot be read")


def _rows(file: File, metadata: Mapping[str, Any], max_bytes: int) -> Iterator[Document | Problem]:
    keys: set[str] = set()
    for content in _read(file, max_bytes):
        where = f"{file.path}#{content.key}" if content.key else str(file.path)
        if content.problem:
            yield Problem(where, content.problem)
        elif content.key in keys:
            yield Problem(where, "duplicate id in this file: only the first was kept")
        else:
            keys.add(content.key)
            yield _to_document(content, file, metadata, where)


def _read(file: File, max_bytes: int) -> Iterable[Content]:
    if file.size == 0:
        raise FileError("empty file")
    kind = FORMATS[file.suffix]
    read = _READERS[kind][0]
    if kind in _STREAMED:
        return cast("Iterator[Content]", read(file.path))
    if file.size > max_bytes:
        raise FileError(
            f"too large ({file.size / 1e6:,.0f} MB): split it, or raise the limit of {max_bytes / 1e6:,.0f} MB"
        )
    with file.path.open("rb") as opened:
        data = opened.read(max_bytes + 1)  # it may have grown
    if len(data) > max_bytes:
        raise FileError("grew while it was read: try again")
    content = read(data)
    return [content] if isinstance(content, Content) else content


def _to_document(content: Content, file: File, metadata: Mapping[str, Any], where: str) -> Document | Problem:
    if not content.text.strip():
        return Problem(where, "contains no text", empty=not content.key)
    given = {"folder": file.name.rpartition("/")[0], "source": file.name, "file_name": file.path.name, **metadata}
    stated = {key: value for key, value in content.metadata.items() if not _is_reserved(str(key), given)}
    stem = _SEPARATORS.sub(" ", file.path.stem).strip()
    title = content.title or (f"{stem} {content.key}" if content.key else stem)
    document_id = content.key if content.is_id else f"{file.name}#{content.key}" if content.key else file.name
    fields = {"format": FORMATS[file.suffix], **stated, **given}
    document = Document(document_id, content.text, " ".join(title.split())[:200], fields)
    try:
        validate([document])
    except DocumentError as error:
        return Problem(where, str(error).partition(": ")[2])
    return document


def _is_reserved(key: str, given: Mapping[str, Any]) -> bool:
    """Return whether a key in a file would replace, or look to a filter like, a key that the application gives."""
    if key == FACT_KEY or key.startswith(("__", f"{FACT_KEY}.")):
        return True
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in given)
