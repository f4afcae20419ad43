"""PDF."""

from __future__ import annotations

import io
import logging
import re

from graphrag_core.errors import FileError, MissingDependency
from graphrag_core.loading.content import Content

_HYPHEN = re.compile(r"([a-zß-ÿ])-\n([a-zß-ÿ])")
_NO_TITLE = re.compile(r"microsoft word\b|untitled|.*\.(?:docx?|odt|tex|dvi|indd|pdf|rtf|qxd)$", re.IGNORECASE)


def read_pdf(data: bytes) -> Content:
    """Read the text layer of a PDF."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingDependency("pypdf", "files", "Reading PDF") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it mends by itself is no news
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = "" if locked else str((reader.metadata and reader.metadata.title) or "").strip()
    except Exception as error:
        if "cryptography" in str(error):
            raise FileError("is encrypted with AES: pip install cryptography, or save a copy without it") from error
        raise FileError(f"is a broken PDF ({_first_line(error)})") from error
    if locked:
        raise FileError("is encrypted: save a copy without a password")
    text = _HYPHEN.sub(r"\1\2", "\n\n".join(page.strip() for page in pages)).strip()
    if not text and pages:
        raise FileError("has no text, only pictures: run OCR over it first")
    return Content(text.replace("\x00", ""), "" if _NO_TITLE.match(title) else title, {"pages": len(pages)})


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
