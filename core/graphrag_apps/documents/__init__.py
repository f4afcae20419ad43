r"""Load documents from files, and keep an index in sync with them.

Reads text, Markdown, reStructuredText, HTML, PDF, Word, PowerPoint, Excel, EPUB, e-mail, Jupyter notebooks,
CSV, JSON and JSON Lines from folders, files and glob patterns. Import the names below from here.

Every reader returns Markdown: :func:`~graphrag_core.text.scanner.scan` finds its headings, links, anchors and pages.
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
