"""Which reader reads which file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from graphrag_core.errors import FileError
from graphrag_core.loading.content import Content, Fault
from graphrag_core.loading.objects import read_json, read_lines
from graphrag_core.loading.pdf import read_pdf
from graphrag_core.loading.plain import read_markdown, read_rst, read_text
from graphrag_core.loading.tables import read_table
from graphrag_core.loading.walk import File
from graphrag_core.loading.web import read_html
from graphrag_core.loading.word import read_docx

LARGEST = 100_000_000
"""Bytes above which a file that must be read whole is left out."""

_WHOLE: dict[str, Callable[[bytes], Content]] = {
    "text": read_text,
    "markdown": read_markdown,
    "rst": read_rst,
    "html": read_html,
    "pdf": read_pdf,
    "docx": read_docx,
}
_STREAMED: dict[str, Callable[[Path], Iterator[Content | Fault]]] = {"csv": read_table, "jsonl": read_lines}

FORMATS = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""From the end of a file's name to the format it is read as."""


def read(file: File, largest: int = LARGEST) -> Iterator[Content | Fault]:
    """Yield what is in a file; raise :class:`FileError` or ``MissingDependency`` if it cannot be read."""
    kind = FORMATS[file.suffix]
    if file.size == 0:
        raise FileError("is empty")
    if kind in _STREAMED:
        yield from _STREAMED[kind](file.path)
        return
    if file.size > largest:
        raise FileError(f"has {file.size / 1e6:,.0f} MB: split it, or allow more than {largest / 1e6:,.0f} MB")
    data = file.path.read_bytes()
    if kind == "json":
        yield from read_json(data)
    else:
        yield _WHOLE[kind](data)
