"""Read Word, PowerPoint and Excel files as Markdown."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, time
from itertools import chain
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
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs, lists and tables of a Word file, in order."""
    with optional_import("python-docx", "files", "Reading Word files"):
        import docx
        from docx.table import Table
    with _package(data, "Word") as file:
        document = docx.Document(file)
        blocks: list[tuple[str, str]] = []  # kind and text
        titles: list[tuple[int, str]] = []
        styles: dict[Any, str] = {}  # python-docx looks through all styles for a paragraph's, each time
        for block in document.iter_inner_content():
            if isinstance(block, Table):
                blocks.append(("table", _table(_word_cells(block))))
                continue
            key = block._p.style  # noqa: SLF001
            if key not in styles:
                styles[key] = (block.style.name if block.style else "") or ""
            if block.text.strip() or _CODE_STYLE.search(styles[key]):
                blocks.append(_word_block(block, styles[key], titles))
        return Content(_joined(blocks), _office_title(document.core_properties.title, titles))


def _word_block(paragraph: Any, style: str, titles: list[tuple[int, str]]) -> tuple[str, str]:
    """Return kind and text of a paragraph; add a heading to ``titles``."""
    if _CODE_STYLE.search(style):
        return "code", paragraph.text
    if style.lower().startswith("toc "):
        return "", ""
    heading = re.fullmatch(r"(?i)heading (\d)", style)
    level = 1 if style == "Title" else int(heading[1]) if heading else 0
    if level:
        titles.append((0 if style == "Title" else level, " ".join(paragraph.text.split())))
        return "", "#" * min(level, 6) + " " + _word_text(paragraph)
    marker = _list_marker(paragraph, style)
    return "item" if marker else "", marker + _word_text(paragraph)


def _word_text(paragraph: Any) -> str:
    """Return the words of a paragraph with its links, behind its bookmarks."""
    names = [str(name) for name in paragraph._p.xpath(".//w:bookmarkStart/@w:name")]  # noqa: SLF001 - python-docx has none
    pieces = [markdown.anchor(name) for name in names if not name.startswith("_")]
    for part in paragraph.iter_inner_content():
        fragment = getattr(part, "fragment", "")
        target = getattr(part, "url", "") or (f"#{fragment}" if fragment else "")
        pieces.append(markdown.link(markdown.escape(part.text), target))
    return markdown.line(" ".join("".join(pieces).split()))


def _list_marker(paragraph: Any, style: str) -> str:
    """Return the marker of a list item, indented by its depth; empty for other paragraphs."""
    properties = paragraph._p.pPr  # noqa: SLF001 - python-docx has no numbering
    numbering = properties.numPr if properties is not None else None
    if not style.startswith(("List Number", "List Bullet")) and numbering is None:
        return ""
    depth = int(numbering.ilvl.val) if numbering is not None and numbering.ilvl is not None else 0
    return "  " * min(max(depth, 0), 8) + ("1. " if style.startswith("List Number") else "- ")


def _word_cells(table: Any) -> Iterator[list[str]]:
    """Yield the cells of each row. A cell that spans columns is yielded once, one that spans rows in each of them.

    ``row.cells`` has a cell for each column, and a few bytes can say that a cell spans a billion of them.
    """
    from docx.table import _Cell

    above: dict[int, Any] = {}  # by the column in which it starts
    for row in table.rows:
        column = int(getattr(row._tr, "grid_before", 0))  # noqa: SLF001 - python-docx has no other way
        origins: dict[int, Any] = {}
        for element in row._tr.tc_lst:  # noqa: SLF001
            origins[column] = above.get(column, element) if element.vMerge == "continue" else element
            column += max(int(element.grid_span), 1)
        above = origins
        yield [_Cell(element, table).text for element in dict.fromkeys(origins.values())]


def read_pptx(data: bytes) -> Content:
    """Read the slides of a presentation: titles, text, tables and notes. Each slide is a page."""
    with optional_import("python-pptx", "files", "Reading PowerPoint files"):
        import pptx
    with _package(data, "PowerPoint") as file:
        presentation = pptx.Presentation(file)
        blocks: list[tuple[str, str]] = []
        titles: list[tuple[int, str]] = []
        for number, slide in enumerate(presentation.slides, 1):
            slide_blocks: list[tuple[str, str]] = []
            title = slide.shapes.title
            if title is not None and title.has_text_frame and title.text_frame.text.strip():
                titles.append((number, " ".join(title.text_frame.text.split())))
                slide_blocks.append(("", f"## {markdown.escape(titles[-1][1])}"))
            for shape in _shapes(slide.shapes):
                if title is None or shape.shape_id != title.shape_id:
                    slide_blocks += _shape(shape)
            if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
                slide_blocks.append(("", "Notes: " + markdown.escape(" ".join(notes.text.split()))))
            if slide_blocks:
                blocks += [("", markdown.page_break(number)), *slide_blocks]
        title = _office_title(presentation.core_properties.title, titles)
        return Content(_joined(blocks), title, {"pages": len(presentation.slides)})


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _shape(shape: Any) -> Iterator[tuple[str, str]]:
    if getattr(shape, "has_table", False):
        yield "table", _table([cell.text for cell in row.cells] for row in shape.table.rows)
    elif shape.has_text_frame:
        paragraphs = [part for part in shape.text_frame.paragraphs if part.text.strip()]
        is_list = len(paragraphs) > 1 or any(part.level for part in paragraphs)
        for part in paragraphs:
            text = markdown.escape(" ".join(part.text.split()))
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
            raise FileError(
                f"has a sheet of more than {_MAX_ROWS:,} rows, {_MAX_CELLS:,} cells or {markdown.MAX_TEXT:,} "
                "characters: split it"
            )
        while row and not row[-1]:
            row.pop()
        if row:
            yield row


def _sheet(rows: Iterator[list[str]], name: str) -> Iterator[Content]:
    first, second = next(rows, []), next(rows, [])
    if not first:
        return
    is_table = bool(second) and len(first) > 1 and all(first) and len(set(first)) == len(first) >= len(second)
    if is_table and not any(re.fullmatch(r"[\d.,% -]+", cell) for cell in first):
        yield from table_rows(chain([first, second], rows))
    else:
        text = f"## {name}\n\n{_table(row for row in (first, second, *rows) if row)}"
        yield Content(text, name, key="text")


def _cell_text(value: Any) -> str:
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()


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


def _joined(blocks: list[tuple[str, str]]) -> str:
    """Return blocks as one text: items stand below each other, and lines of code are one block."""
    pieces: list[str] = []
    code: list[str] = []
    last = ""
    for kind, text in [*blocks, ("", "")]:
        if kind == "code":
            code.append(text)
            continue
        if code:
            pieces.append("\n".join(markdown.fenced("\n".join(code))))
            code, last = [], "code"
        if kind == last == "item":
            pieces[-1] += f"\n{text}"
        else:
            pieces.append(text)
        last = kind
    return "\n\n".join(filter(None, pieces))


def _table(rows: Any) -> str:
    """Return a table. If it has several rows, the first is its header."""
    filled = [cells for cells in rows if any(cell.strip() for cell in cells)]
    return "\n".join(markdown.table(filled, header=len(filled) > 1))


def _office_title(title: str | None, headings: list[tuple[int, str]]) -> str:
    """Return the title paragraph or the first heading of the highest level, or else the title in the properties."""
    return min(headings, key=lambda heading: heading[0])[1] if headings else stated_title(title)
