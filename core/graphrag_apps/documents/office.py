"""Read Word, PowerPoint and Excel files as Markdown."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, time
from itertools import chain, groupby
from typing import Any

from graphrag_apps.documents.rows import table_rows
from graphrag_core.errors import FileError, optional_import
from graphrag_core.text import markdown
from graphrag_core.text.content import Content, stated_title

_MAX_UNPACKED = 500_000_000  # bytes; protects against zip bombs
_MAX_GROWTH = 60_000_000  # bytes by which what is read as a whole may be larger than the file
_SHEETS = "xl/worksheets/"  # are read row by row
_MAX_TAGS = 6_000_000  # of the XML that is parsed as a whole; an element takes about 100 bytes
_MAX_ROWS, _MAX_CELLS, _MAX_SHEETS = 1_048_576, 20_000_000, 1_000  # rows and cells of a sheet
_MAX_TAGS_WITHOUT_ROW = 1_000_000  # of a sheet, which is read row by row; a row has at most 16,384 cells
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

Block = tuple[str, str]
"""The kind of a block ("code" and "item" are joined with those beside them) and its text."""


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs, lists and tables of a Word file, in order."""
    with optional_import("python-docx", "files", "Reading Word files"):
        import docx
        from docx.table import Table, _Cell
    with _package(data, "Word") as file:
        document = docx.Document(file)
        blocks: list[Block] = []
        headings: list[tuple[int, str]] = []
        styles: dict[Any, str] = {}  # python-docx looks through all styles for a paragraph's, each time
        for block in document.iter_inner_content():
            if isinstance(block, Table):  # row.cells has a cell for each column, of which a few bytes can say a billion
                rows = ([_Cell(cell, block).text for cell in row._tr.tc_lst] for row in block.rows)  # noqa: SLF001
                blocks.append(("table", _table(rows)))
                continue
            properties = block._p.pPr  # noqa: SLF001 - python-docx has no numbering
            key = block._p.style  # noqa: SLF001
            style = styles[key] = styles.get(key) or (block.style.name if block.style else "") or "Normal"
            words = " ".join(block.text.split())
            heading = _HEADING_STYLE.fullmatch(style)
            is_list = style.startswith("List ") or (properties is not None and properties.numPr is not None)
            if _CODE_STYLE.search(style):
                blocks.append(("code", block.text))
            elif words and (heading or style == "Title"):
                headings.append((int(heading[1]) if heading else 0, words))
                blocks.append(("", f"{'#' * min(max(headings[-1][0], 1), 6)} {markdown.escape(words)}"))
            elif words and not style.lower().startswith("toc "):
                marker = "1. " if style.startswith("List Number") else "- "
                text = markdown.escape(words)
                blocks.append(("item", marker + text) if is_list else ("", markdown.line(text)))
        return Content(_joined(blocks), _title(document.core_properties.title, headings))


def read_pptx(data: bytes) -> Content:
    """Read the slides of a presentation: titles, text, tables and notes. Each slide is a page."""
    with optional_import("python-pptx", "files", "Reading PowerPoint files"):
        import pptx
    with _package(data, "PowerPoint") as file:
        presentation = pptx.Presentation(file)
        blocks: list[Block] = []
        titles: list[tuple[int, str]] = []
        for number, slide in enumerate(presentation.slides, 1):
            blocks.append(("", markdown.page_break(number)))
            title = slide.shapes.title
            if title is not None and title.has_text_frame and title.text_frame.text.strip():
                titles.append((number, " ".join(title.text_frame.text.split())))
                blocks.append(("", f"## {markdown.escape(titles[-1][1])}"))
            for shape in _shapes(slide.shapes):
                if title is None or shape.shape_id != title.shape_id:
                    blocks += _shape(shape)
            if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
                blocks.append(("", "Notes: " + markdown.escape(" ".join(notes.text.split()))))
        text = _joined(blocks) if len(blocks) > len(presentation.slides) else ""
        return Content(text, _title(presentation.core_properties.title, titles), {"pages": len(presentation.slides)})


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        yield from _shapes(shape.shapes) if hasattr(shape, "shapes") else (shape,)  # a group


def _shape(shape: Any) -> Iterator[Block]:
    if getattr(shape, "has_table", False):
        yield "table", _table([cell.text for cell in row.cells] for row in shape.table.rows)
    elif shape.has_text_frame:
        paragraphs = [part for part in shape.text_frame.paragraphs if part.text.strip()]
        for part in paragraphs:
            text = markdown.escape(" ".join(part.text.split()))
            is_list = len(paragraphs) > 1 or part.level
            yield ("item", f"{'  ' * min(part.level, 8)}- {text}") if is_list else ("", markdown.line(text))


def read_xlsx(data: bytes) -> Iterator[Content]:
    """Read the sheets of a workbook: the rows of a table as in CSV files, any other sheet as one text."""
    with optional_import("openpyxl", "files", "Reading Excel files"):
        import openpyxl
    with _package(data, "Excel") as file:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        sheets = {sheet._worksheet_path: sheet for sheet in reversed(book.worksheets)}  # noqa: SLF001 - each is read once
        if len(book.worksheets) > _MAX_SHEETS:
            raise FileError(f"has more than {_MAX_SHEETS:,} sheets: split it")
        for sheet in reversed(sheets.values()):
            prefix = f"{sheet.title}!" if len(sheets) > 1 else ""
            sheet.reset_dimensions()  # what a file says of them may be anything
            try:
                for content in _sheet(_filled_rows(sheet), sheet.title):
                    fields = {**content.metadata, "sheet": sheet.title}
                    yield replace(content, key=f"{prefix}{content.key}", metadata=fields)
            except (ValueError, KeyError, zipfile.BadZipFile) as error:
                raise FileError(f"damaged Excel file ({type(error).__name__} in sheet {sheet.title!r})") from error
    finally:
        book.close()


def _filled_rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the rows of a sheet that are not empty, up to their last cell with a value.

    Refuse a sheet with too many cells or characters: a cell far away makes empty ones before it.
    """
    cells = characters = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
        row = [_cell_text(value) for value in values]
        cells += len(row)
        characters += sum(map(len, row))
        if number > _MAX_ROWS or cells > _MAX_CELLS or characters > markdown.MAX_TEXT:
            limits = f"{_MAX_ROWS:,} rows, {_MAX_CELLS:,} cells or {markdown.MAX_TEXT:,} characters"
            raise FileError(f"has a sheet of more than {limits}: split it")
        while row and not row[-1]:
            row.pop()
        if row:
            yield row


def _sheet(rows: Iterator[list[str]], name: str) -> Iterator[Content]:
    first, second = next(rows, []), next(rows, [])
    is_table = bool(second) and len(first) > 1 and all(first) and len(set(first)) == len(first) >= len(second)
    if is_table and not any(re.fullmatch(r"[\d.,% -]+", cell) for cell in first):
        yield from table_rows(chain([first, second], rows))
    elif first:
        yield Content(f"## {name}\n\n{_table(row for row in (first, second, *rows) if row)}", name, key="text")


def _cell_text(value: Any) -> str:
    if isinstance(value, (date, time)):
        is_day = isinstance(value, datetime) and value.time() == time()
        return value.isoformat().removesuffix("T00:00:00") if is_day else value.isoformat()
    is_whole = isinstance(value, float) and value.is_integer()
    return "" if value is None else str(int(value)) if is_whole else str(value).strip()


@contextmanager
def _package(data: bytes, kind: str) -> Iterator[io.BytesIO]:
    """Open a zipped office file; say in one line what is wrong with one that cannot be read."""
    if data.startswith(_OLE_SIGNATURE):
        raise FileError(f"encrypted, or in the {kind} format before 2007: save it again without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            reason = _too_large(package, len(data), is_excel=kind == "Excel")
    except Exception as error:  # zipfile raises many kinds
        raise FileError(f"not {'an' if kind.startswith('E') else 'a'} {kind} file, or damaged") from error
    if reason:
        raise FileError(reason)
    try:
        yield io.BytesIO(data)
    except FileError:
        raise
    except Exception as error:  # the libraries raise many kinds
        raise FileError(f"damaged {kind} file ({type(error).__name__})") from error


def _too_large(package: zipfile.ZipFile, size: int, *, is_excel: bool) -> str:
    """Return why a package would take too much memory, looking at it in pieces; empty if it does not."""
    unpacked = sum(member.file_size for member in package.infolist())
    sheets = [one for one in package.infolist() if is_excel and one.filename.startswith(_SHEETS)]
    if unpacked > _MAX_UNPACKED or unpacked - sum(one.file_size for one in sheets) - size > _MAX_GROWTH:
        return f"unpacks to {unpacked:,} bytes: save it without images"
    tags = 0  # of what is parsed as a whole
    for member in package.infolist():
        cells = tags_without_row = 0
        for block in _pieces(package, member):
            if member not in sheets:
                tags += block.count(b"<")
            else:
                cells += block.count(b"<c ") + block.count(b"<c>") + block.count(b"<c/>")
                tags_without_row = block.count(b"<") + (0 if b"row" in block else tags_without_row)
            if tags > _MAX_TAGS:
                return f"has more than {_MAX_TAGS:,} XML tags: split it"
            if cells > _MAX_CELLS or tags_without_row > _MAX_TAGS_WITHOUT_ROW:
                too_many = f"{_MAX_CELLS:,} cells, or of {_MAX_TAGS_WITHOUT_ROW:,} XML tags without rows"
                return f"has a sheet of more than {too_many}: split it"
    return ""


def _pieces(package: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield an XML file in pieces of a megabyte; nothing of other files."""
    with package.open(member) as file:
        block = file.read(1 << 20)
        while block and (b"<" in block[:100] or file.tell() > 1 << 20):
            yield block
            block = file.read(1 << 20)


def _joined(blocks: Iterable[Block]) -> str:
    """Return blocks as one text: items stand below each other, and lines of code are one block."""
    pieces: list[str] = []
    for kind, group in groupby(blocks, key=lambda block: block[0]):
        texts = [text for _, text in group]
        if kind == "code":
            pieces.append("\n".join(markdown.fenced("\n".join(texts))))
        else:
            pieces += ["\n".join(texts)] if kind == "item" else texts
    return "\n\n".join(filter(None, pieces))


def _table(rows: Iterable[list[str]]) -> str:
    """Return a table. If it has several rows, the first is its header."""
    filled = [cells for cells in rows if any(cell.strip() for cell in cells)]
    return "\n".join(markdown.table(filled, header=len(filled) > 1))


def _title(title: str | None, headings: list[tuple[int, str]]) -> str:
    """Return the title paragraph or the first heading of the highest level, or else the title in the properties."""
    return min(headings, key=lambda heading: heading[0])[1] if headings else stated_title(title)
