r"""Files to documents: folders, files and patterns of text, Markdown, HTML, PDF, Word, CSV and JSON.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     _ = Path(folder, "auth.md").write_text("# Auth Service\n\nIssues tokens.")
...     [(document.id, document.title) for document in load_documents([folder])]
[('auth.md', 'Auth Service')]
"""

from graphrag_core.loading.catalogue import Catalogue
from graphrag_core.loading.load import load_documents
from graphrag_core.loading.read import FORMATS
from graphrag_core.loading.synchronise import Source, Synchronised, changed_documents, synchronise
from graphrag_core.loading.walk import File, Problem, walk

__all__ = [
    "FORMATS",
    "Catalogue",
    "File",
    "Problem",
    "Source",
    "Synchronised",
    "changed_documents",
    "load_documents",
    "synchronise",
    "walk",
]
