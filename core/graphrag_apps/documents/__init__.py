r"""Load documents from files, and keep an index in sync with them.

Reads text, Markdown, reStructuredText, HTML, PDF, Word, PowerPoint, Excel, EPUB, e-mail, Jupyter notebooks,
CSV, JSON and JSON Lines from folders, files and glob patterns. Import the names below from here.

Every reader returns a text in Markdown, or plain text, and marks: the pages, anchors, links and terms that
the text itself does not show. A :class:`~graphrag_core.text.writer.Writer` builds both together.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from graphrag_apps.documents import load_documents
>>> with TemporaryDirectory() as folder:
...     _ = Path(folder, "auth.md").write_text("# Auth Service\n\nIssues tokens.")
...     [(document.id, document.title) for document in load_documents([folder])]
[('auth.md', 'Auth Service')]
"""

from typing import TYPE_CHECKING

from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_apps.documents.load import FORMATS, load_documents
    from graphrag_apps.documents.sync import FileSource, Progress, SyncReport, sync_files
    from graphrag_apps.documents.walk import Problem, walk_files

__getattr__ = lazy_names(
    __name__,
    {
        "load": "FORMATS load_documents",
        "sync": "FileSource Progress SyncReport sync_files",
        "walk": "Problem walk_files",
    },
)
