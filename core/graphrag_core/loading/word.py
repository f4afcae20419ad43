"""Word (docx)."""

from __future__ import annotations

import io
import zipfile

from graphrag_core.errors import FileError, MissingDependency
from graphrag_core.loading.content import Content

_LARGEST = 500_000_000  # bytes unpacked; a small file can unpack to a large one


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs and tables of a Word file, in order."""
    try:
        import docx
        from docx.table import Table
    except ImportError as error:
        raise MissingDependency("python-docx", "files", "Reading Word files") from error
    if (unpacked := _unpacked(data)) > _LARGEST:
        raise FileError(f"unpacks to {unpacked:,} bytes: save it without its pictures")
    try:
        document = docx.Document(io.BytesIO(data))
        lines: list[str] = []
        for block in document.iter_inner_content():
            if isinstance(block, Table):
                lines.extend(" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows)
            else:
                lines.append(_marks(block.style.name if block.style else "") + block.text)
        title = (document.core_properties.title or "").strip()
    except Exception as error:
        raise FileError(f"is a broken Word file ({type(error).__name__})") from error
    first = next((line.lstrip("# ") for line in lines if line.startswith("# ")), "")
    return Content("\n\n".join(line for line in lines if line.strip()), first or title)


def _unpacked(data: bytes) -> int:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            return sum(entry.file_size for entry in package.infolist())
    except zipfile.BadZipFile as error:
        raise FileError("is no Word file, or a broken one") from error


def _marks(style: str | None) -> str:
    if style == "Title":
        return "# "
    level = (style or "").removeprefix("Heading ")
    return f"{'#' * int(level)} " if level != style and level.isdigit() else ""
