"""Readers for PDF and Word (docx)."""

import io
import logging
import re
import zipfile

from graphrag_core.documents.content import Content
from graphrag_core.errors import FileError, MissingDependency

_HYPHENATION = re.compile(r"([a-zß-ÿ])-\n([a-zß-ÿ])")
_PLACEHOLDER_TITLE = re.compile(r"microsoft word\b|untitled|.*\.(?:docx?|odt|tex|dvi|indd|pdf|rtf|qxd)$", re.IGNORECASE)
_MAX_UNPACKED = 500_000_000  # bytes; protects against zip bombs


def read_pdf(data: bytes) -> Content:
    """Read the text layer of a PDF."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingDependency("pypdf", "files", "Reading PDF") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it logs every defect that it repairs
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = "" if locked else str((reader.metadata and reader.metadata.title) or "").strip()
    except Exception as error:
        if "cryptography" in str(error):
            raise FileError("encrypted with AES: pip install cryptography, or save an unencrypted copy") from error
        first_line = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise FileError(f"damaged PDF ({first_line})") from error
    if locked:
        raise FileError("encrypted: save a copy without a password")
    text = _HYPHENATION.sub(r"\1\2", "\n\n".join(page.strip() for page in pages)).strip()
    if not text and pages:
        raise FileError("no text, only images: run OCR first")
    return Content(text.replace("\x00", ""), "" if _PLACEHOLDER_TITLE.match(title) else title, {"pages": len(pages)})


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs and tables of a Word file, in order."""
    try:
        import docx
        from docx.table import Table
    except ImportError as error:
        raise MissingDependency("python-docx", "files", "Reading Word files") from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            unpacked = sum(member.file_size for member in package.infolist())
    except zipfile.BadZipFile as error:
        raise FileError("not a Word file, or damaged") from error
    if unpacked > _MAX_UNPACKED:
        raise FileError(f"unpacks to {unpacked:,} bytes: save it without images")
    try:
        document = docx.Document(io.BytesIO(data))
        lines: list[str] = []
        for block in document.iter_inner_content():
            if isinstance(block, Table):
                lines.extend(" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows)
            else:
                lines.append(_heading_prefix(block.style.name if block.style else "") + block.text)
        title = (document.core_properties.title or "").strip()
    except Exception as error:
        raise FileError(f"damaged Word file ({type(error).__name__})") from error
    heading = next((line.lstrip("# ") for line in lines if line.startswith("# ")), "")
    return Content("\n\n".join(line for line in lines if line.strip()), heading or title)


def _heading_prefix(style: str | None) -> str:
    if style == "Title":
        return "# "
    level = (style or "").removeprefix("Heading ")
    return f"{'#' * int(level)} " if level != style and level.isdigit() else ""
