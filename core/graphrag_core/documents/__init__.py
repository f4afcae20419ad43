r"""Load documents from files, and keep an index in sync with them.

Reads text, Markdown, reStructuredText, HTML, PDF, Word, PowerPoint, Excel, EPUB, e-mail, Jupyter notebooks,
CSV, JSON and JSON Lines from folders, files and glob patterns. Import the names below from here.

Every reader returns a text in Markdown, or plain text, and marks: the pages, anchors, links and terms that
the text itself does not show. A :class:`~graphrag_core.documents.writer.Writer` builds both together.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     _ = Path(folder, "auth.md").write_text("# Auth Service\n\nIssues tokens.")
...     [(document.id, document.title) for document in load_documents([folder])]
[('auth.md', 'Auth Service')]
"""

from graphrag_core.documents.catalogue import (
    CATALOGUE,
    Catalogue,
    CatalogueEntry,
    has_catalogue,
    open_catalogue,
    read_setting,
)
from graphrag_core.documents.load import FORMATS, load_documents
from graphrag_core.documents.rows import parse_value
from graphrag_core.documents.sync import FileChange, FileSource, Progress, SyncReport, changed_documents, sync_files
from graphrag_core.documents.walk import File, Problem, is_pattern, split_pattern, walk_files

__all__ = [
    "CATALOGUE",
    "FORMATS",
    "Catalogue",
    "CatalogueEntry",
    "File",
    "FileChange",
    "FileSource",
    "Problem",
    "Progress",
    "SyncReport",
    "changed_documents",
    "has_catalogue",
    "is_pattern",
    "load_documents",
    "open_catalogue",
    "parse_value",
    "read_setting",
    "split_pattern",
    "sync_files",
    "walk_files",
]
