"""Readers for Word, PowerPoint and Excel files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import date, datetime, time
from itertools import chain
from typing import TYPE_CHECKING, Any

from graphrag_apps.documents.rows import table_rows
from graphrag_core.errors import FileError, optional_import
from graphrag_core.text.content import Content, stated_title
from graphrag_core.text.writer import Writer

if TYPE_CHECKING:
    from docx.text.paragraph import Paragraph

_MAX_UNPACKED = 500_000_000  # bytes; protects against zip bombs
_MAX_GROWTH = 60_000_000  # bytes by which what is read as a whole may be larger than the file
_SHEETS = "xl/worksheets/"  # are read row by row
_MAX_TAGS = 6_000_000  # of the XML that is parsed as a whole; an element takes about 100 bytes
_MAX_ROWS = 1_048_576  # of a sheet, as in Excel; empty ones before a row that says so are included
_MAX_CELLS = 20_000_000  # of a sheet, empty ones included
_MAX_TEXT = 100_000_000  # characters of a sheet
_MAX_SHEETS = 1_000
_MAX_TAGS_WITHOUT_ROW = 1_000_000  # of a sheet, which is read row by row; a row has at most 16,384 cells
_DEEPEST_ITEM = 8
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


# -- Word


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs, lists and tables of a Word file, in order."""
    with optional_import("python-docx", "files", "Reading Word files"):
        import docx
        from docx.table import Table

    with _package(data, "Word") as file:
        document = docx.Document(file)
        writer = Writer()
        titles: list[tuple[int, str]] = []
        code: list[str] = []
        styles: dict[str | None, str] = {}
        for block in document.iter_inner_content():
            style = "" if isinstance(block, Table) else _style_name(block, styles)
            if not isinstance(block, Table) and _CODE_STYLE.search(style):
                code.append(block.text)
                continue
            writer.code("\n".join(code))
            code.clear()
            if isinstance(block, Table):
                _write_rows(_table_cells(block), writer)
            elif block.text.strip() and not style.lower().startswith("toc "):
                if level := _heading_level(style):
                    titles.append((level if style != "Title" else 0, " ".join(block.text.split())))
                _write_paragraph(block, style, level, writer)
        writer.code("\n".join(code))
        return writer.finish(_office_title(document.core_properties.title, titles))


def _style_name(paragraph: Paragraph, known: dict[str | None, str]) -> str:
    """Return the name of a paragraph's style. ``known`` caches the names: a lookup takes milliseconds."""
    key = paragraph._p.style  # noqa: SLF001 - python-docx looks through all styles for it each time
    if key not in known:
        known[key] = (paragraph.style.name if paragraph.style else "") or ""
    return known[key]


def _write_paragraph(paragraph: Paragraph, style: str, level: int, writer: Writer) -> None:
    for bookmark in paragraph._p.xpath(".//w:bookmarkStart/@w:name"):  # noqa: SLF001 - python-docx has no bookmarks
        if not str(bookmark).startswith("_"):
            writer.anchor(str(bookmark))
    marker = _list_marker(paragraph, style)
    with writer.heading(level) if level else writer.item(marker) if marker else writer.paragraph():
        for part in paragraph.iter_inner_content():
            fragment = getattr(part, "fragment", "")
            target = getattr(part, "url", "") or (f"#{fragment}" if fragment else "")
            with writer.span("link", target) if target else nullcontext():
                writer.write(part.text)


def _heading_level(style: str) -> int:
    if style == "Title":
        return 1
    level = style.lower().removeprefix("heading ")
    return min(int(level), 6) if level != style.lower() and level.isdigit() else 0


def _list_marker(paragraph: Paragraph, style: str) -> str:
    """Return the marker of a list item, indented by its depth; empty for other paragraphs."""
    properties = paragraph._p.pPr  # noqa: SLF001 - python-docx has no numbering
    numbering: Any = properties.numPr if properties is not None else None
    if not style.startswith(("List Number", "List Bullet")) and numbering is None:
        return ""
    depth = int(numbering.ilvl.val) if numbering is not None and numbering.ilvl is not None else 0
    indent = "  " * min(max(depth, 0), _DEEPEST_ITEM)
    return f"{indent}1. " if style.startswith("List Number") else f"{indent}- "


def _table_cells(table: Any) -> Iterator[list[Any]]:
    """Yield the cells of each row. A cell that spans columns is yielded once, one that spans rows in each of them.

    ``row.cells`` has a cell for each column, and a few bytes can say that a cell spans a billion of them.
    """
    from docx.table import _Cell

    above: dict[int, Any] = {}  # by the column in which it starts
    for row in table.rows:
        column = int(getattr(row._tr, "grid_before", 0))  # noqa: SLF001 - python-docx has no other way
        cells: list[Any] = []
        origins: dict[int, Any] = {}
        for element in row._tr.tc_lst:  # noqa: SLF001
            origin = above.get(column, element) if element.vMerge == "continue" else element
            origins[column] = origin
            column += max(int(element.grid_span), 1)
            if not cells or cells[-1]._tc is not origin:  # noqa: SLF001
                cells.append(_Cell(origin, table))
        above = origins
        yield cells


# -- PowerPoint


def read_pptx(data: bytes) -> Content:
    """Read the slides of a presentation: titles, text, tables and notes. Each slide is a page."""
    with optional_import("python-pptx", "files", "Reading PowerPoint files"):
        import pptx

    with _package(data, "PowerPoint") as file:
        presentation = pptx.Presentation(file)
        writer = Writer()
        titles: list[tuple[int, str]] = []
        for number, slide in enumerate(presentation.slides, 1):
            writer.page(number)
            title = slide.shapes.title
            if title is not None and title.has_text_frame and title.text_frame.text.strip():
                titles.append((number, " ".join(title.text_frame.text.split())))
                with writer.heading(2):
                    writer.write(titles[-1][1])
            for shape in _shapes(slide.shapes):
                if title is None or shape.shape_id != title.shape_id:
                    _write_shape(shape, writer)
            if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
                writer.block()
                writer.write(f"Notes: {notes.text}")
        title = _office_title(presentation.core_properties.title, titles)
        return writer.finish(title, {"pages": len(presentation.slides)})


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _write_shape(shape: Any, writer: Writer) -> None:
    if getattr(shape, "has_table", False):
        _write_rows((row.cells for row in shape.table.rows), writer)
    elif shape.has_text_frame:
        paragraphs = [part for part in shape.text_frame.paragraphs if part.text.strip()]
        if len(paragraphs) == 1 and not paragraphs[0].level:
            writer.block()
            writer.write(paragraphs[0].text)
            return
        with writer.items():
            for paragraph in paragraphs:
                with writer.item("  " * min(paragraph.level, _DEEPEST_ITEM) + "- "):
                    writer.write(paragraph.text)


# -- Excel


def read_xlsx(data: bytes) -> Iterator[Content]:
    """Read the sheets of a workbook: the rows of a table as in CSV files, any other sheet as one text."""
    with optional_import("openpyxl", "files", "Reading Excel files"):
        import openpyxl
    with _package(data, "Excel") as file:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        sheets = {sheet._worksheet_path: sheet for sheet in reversed(book.worksheets)}  # noqa: SLF001 - each is read once
        several = len(sheets) > 1
        if len(book.worksheets) > _MAX_SHEETS:
            raise FileError(f"has more than {_MAX_SHEETS:,} sheets: split it")
        for sheet in reversed(sheets.values()):
            prefix = f"{sheet.title}!" if several else ""
            sheet.reset_dimensions()  # what a file says of them may be anything
            try:
                for content in _sheet(_filled_rows(sheet), sheet.title):
                    yield replace(
                        content, key=f"{prefix}{content.key}", metadata={**content.metadata, "sheet": sheet.title}
                    )
            except FileError:
                raise
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
        if number > _MAX_ROWS or cells > _MAX_CELLS or characters > _MAX_TEXT:
            raise FileError(
                f"has a sheet of more than {_MAX_ROWS:,} rows, {_MAX_CELLS:,} cells or {_MAX_TEXT:,} characters: "
                "split it"
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
        return
    writer = Writer()
    with writer.heading(2):
        writer.write(name)
    _write_table([row for row in (first, second, *rows) if row], writer)
    yield writer.finish(name, key="text")


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


# -- all


@contextmanager
def _package(data: bytes, kind: str) -> Iterator[io.BytesIO]:
    """Open a zipped office file; say in one line what is wrong with one that cannot be read."""
    if data.startswith(_OLE_SIGNATURE):
        raise FileError(f"encrypted, or in the {kind} format before 2007: save it again without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            unpacked = sum(member.file_size for member in package.infolist())
            whole = [one for one in package.infolist() if kind != "Excel" or not one.filename.startswith(_SHEETS)]
            growth = sum(member.file_size for member in whole) - len(data)
            is_bomb = unpacked > _MAX_UNPACKED or growth > _MAX_GROWTH
            tags = 0 if is_bomb else _count_tags(package, whole)
            sheets = [one for one in package.infolist() if kind == "Excel" and one.filename.startswith(_SHEETS)]
            is_dense = not is_bomb and any(_is_too_dense(package, sheet) for sheet in sheets)
    except Exception as error:  # zipfile raises many kinds
        raise FileError(f"not {'an' if kind.startswith('E') else 'a'} {kind} file, or damaged") from error
    if is_bomb:
        raise FileError(f"unpacks to {unpacked:,} bytes: save it without images")
    if tags > _MAX_TAGS:
        raise FileError(f"has more than {_MAX_TAGS:,} XML tags: split it")
    if is_dense:
        raise FileError(
            f"has a sheet of more than {_MAX_CELLS:,} cells, or of {_MAX_TAGS_WITHOUT_ROW:,} XML tags without rows: "
            "split it"
        )
    try:
        yield io.BytesIO(data)
    except FileError:
        raise
    except Exception as error:  # the libraries raise many kinds
        raise FileError(f"damaged {kind} file ({type(error).__name__})") from error


def _count_tags(package: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo]) -> int:
    """Return the number of XML tags in some members of a package."""
    count = 0
    for member in members:
        with package.open(member) as file:
            block = file.read(1 << 20)
            is_xml = b"<" in block[:100]
            while is_xml and block and count <= _MAX_TAGS:
                count += block.count(b"<")
                block = file.read(1 << 20)
    return count


def _is_too_dense(package: zipfile.ZipFile, sheet: zipfile.ZipInfo) -> bool:
    """Return whether a sheet has too many cells, or too many tags in one row or outside of rows."""
    cells = tags = 0
    with package.open(sheet) as file:
        while block := file.read(1 << 20):
            cells += block.count(b"<c ") + block.count(b"<c>") + block.count(b"<c/>")
            tags = block.count(b"<") + (0 if b"row" in block else tags)
            if cells > _MAX_CELLS or tags > _MAX_TAGS_WITHOUT_ROW:
                return True
    return False


def _write_rows(rows: Iterable[Iterable[Any]], writer: Writer) -> None:
    """Write the cells of a table, each in one line."""
    _write_table([[" ".join(cell.text.split()) for cell in cells] for cells in rows], writer)


def _write_table(rows: list[list[str]], writer: Writer) -> None:
    """Write a table. If it has several rows, the first is its header."""
    with writer.paragraph():
        for number, cells in enumerate(rows):
            if any(cells):
                writer.row(cells, writer.write)
                if number == 0 and len(rows) > 1:
                    writer.rule(len(cells))


def _office_title(title: str | None, headings: list[tuple[int, str]]) -> str:
    """Return the title paragraph or the first heading of the highest level, or else the title in the properties."""
    if headings:
        return min(headings, key=lambda heading: heading[0])[1]
    return stated_title(title)
