"""Read Word, PowerPoint and Excel files as Markdown: text becomes simple HTML, which the reader of web pages reads."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, time
from html import escape
from itertools import chain, groupby
from typing import Any

from graphrag_apps.documents.rows import table_rows
from graphrag_core.errors import FileError, MissingDependency, optional_import
from graphrag_core.text import markdown
from graphrag_core.text.content import Content, stated_title
from graphrag_core.text.html import html_to_markdown

_MAX_UNPACKED = 500_000_000  # bytes; protects against zip bombs
_MAX_GROWTH = 60_000_000  # bytes by which what is read as a whole may be larger than the file
_SHEETS = "xl/worksheets/"  # are read row by row
_MAX_TAGS = 6_000_000  # of the XML that is parsed as a whole; an element takes about 100 bytes
_MAX_CELLS, _MAX_SHEETS = 20_000_000, 1_000  # empty rows and cells count, too: a cell far away makes them
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_HEADING_STYLE = re.compile(r"heading (\d)|title", re.IGNORECASE)
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

Block = tuple[str, str]
"""An HTML element and its text; of a table its rows. "ul" and "ol" are one item of a list, "pre" is a line of code."""


def read_docx(data: bytes) -> Content:
    """Read the headings, paragraphs, lists and tables of a Word file, in order."""
    with optional_import("python-docx", "files", "Reading Word files"):
        import docx
        from docx.table import Table, _Cell
    with _package(data, "a Word") as file:
        document = docx.Document(file)
        blocks: list[Block] = []
        styles: dict[Any, str] = {}  # python-docx looks through all styles for a paragraph's, each time
        for block in document.iter_inner_content():
            if isinstance(block, Table):  # row.cells has a cell for each column, of which a few bytes can say a billion
                blocks.append(_table([_Cell(cell, block).text for cell in row._tr.tc_lst] for row in block.rows))  # noqa: SLF001
                continue
            key, properties = block._p.style, block._p.pPr  # noqa: SLF001 - python-docx has no numbering
            style = styles[key] = styles.get(key) or (block.style.name if block.style else "") or "Normal"
            if not style.lower().startswith("toc "):
                is_item = properties is not None and properties.numPr is not None
                blocks.append((_element(style, is_item=is_item), block.text))
        return Content(_written(blocks), _title(document.core_properties.title, blocks))


def _element(style: str, *, is_item: bool) -> str:
    if heading := _HEADING_STYLE.fullmatch(style):
        return f"h{min(max(int(heading[1] or 1), 1), 6)}"
    if style.startswith("List ") or is_item:
        return "ol" if style.startswith("List Number") else "ul"
    return "pre" if _CODE_STYLE.search(style) else "p"


def read_pptx(data: bytes) -> Content:
    """Read the slides of a presentation: titles, text, tables and notes. Each slide is a page."""
    with optional_import("python-pptx", "files", "Reading PowerPoint files"):
        import pptx
    with _package(data, "a PowerPoint") as file:
        presentation = pptx.Presentation(file)
        slides = [list(_slide(slide)) for slide in presentation.slides]
        texts = [_written(blocks) for blocks in slides]
        pages = (f"{markdown.page_break(number)}\n\n{text}" for number, text in enumerate(texts, 1))
        title = _title(presentation.core_properties.title, chain.from_iterable(slides))
        return Content("\n\n".join(pages) if any(texts) else "", title, {"pages": len(slides)})


def _slide(slide: Any) -> Iterator[Block]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        yield "h2", title.text_frame.text
    shapes = list(slide.shapes)[::-1]
    while shapes:
        shape = shapes.pop()
        if hasattr(shape, "shapes"):  # a group
            shapes += list(shape.shapes)[::-1]
        elif getattr(shape, "has_table", False):
            yield _table([cell.text for cell in row.cells] for row in shape.table.rows)
        elif shape.has_text_frame and shape != title:
            texts = [part.text for part in shape.text_frame.paragraphs if part.text.strip()]
            yield from (("ul" if len(texts) > 1 else "p", text) for text in texts)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
        yield "p", f"Notes: {notes.text}"


def read_xlsx(data: bytes) -> Iterator[Content]:
    """Read the sheets of a workbook: the rows of a table as in CSV files, any other sheet as one text."""
    with optional_import("openpyxl", "files", "Reading Excel files"):
        import openpyxl
    with _package(data, "an Excel") as file:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheets = {sheet._worksheet_path: sheet for sheet in reversed(book.worksheets)}  # noqa: SLF001 - each is read once
        if len(book.worksheets) > _MAX_SHEETS:
            raise FileError(f"has more than {_MAX_SHEETS:,} sheets: split it")
        for sheet in reversed(sheets.values()):
            prefix = f"{sheet.title}!" if len(sheets) > 1 else ""
            sheet.reset_dimensions()  # what a file says of them may be anything
            for content in _sheet(_filled_rows(sheet), sheet.title):
                yield replace(
                    content, key=f"{prefix}{content.key}", metadata={**content.metadata, "sheet": sheet.title}
                )


def _filled_rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the rows of a sheet that are not empty, up to their last cell with a value."""
    cells = characters = 0
    for values in sheet.iter_rows(values_only=True):
        row = [_cell_text(value) for value in values]
        cells += len(row) + 1
        characters += sum(map(len, row))
        if cells > _MAX_CELLS or characters > markdown.MAX_TEXT:
            raise FileError(
                f"has a sheet of more than {_MAX_CELLS:,} cells or {markdown.MAX_TEXT:,} characters: split it"
            )
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
        table = markdown.table((row for row in (first, second, *rows) if row), header=bool(second))
        yield Content("\n".join([f"## {name}", "", *table]), name, key="text")


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
        raise FileError("encrypted, or in the format before 2007: save it again without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            _check_size(package, len(data), is_excel=kind == "an Excel")
        yield io.BytesIO(data)
    except (FileError, MissingDependency):
        raise
    except Exception as error:  # the libraries raise many kinds
        raise FileError(f"not {kind} file, or damaged ({type(error).__name__})") from error


def _check_size(package: zipfile.ZipFile, size: int, *, is_excel: bool) -> None:
    """Refuse a package that would take too much memory, looking at it in pieces of a megabyte."""
    unpacked = sum(member.file_size for member in package.infolist())
    sheets = {one for one in package.infolist() if is_excel and one.filename.startswith(_SHEETS)}
    if unpacked > _MAX_UNPACKED or unpacked - sum(one.file_size for one in sheets) - size > _MAX_GROWTH:
        raise FileError(f"unpacks to {unpacked:,} bytes: save it without images")
    tags = 0
    for member in package.infolist():
        with package.open(member) as file:
            while block := file.read(1 << 20):
                tags += 0 if member in sheets and b"<row" in block else block.count(b"<")
                if tags > _MAX_TAGS:
                    raise FileError(f"has more than {_MAX_TAGS:,} XML tags, those of rows not counted: split it")


def _written(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown."""
    html = []
    for element, group in groupby(blocks, key=lambda block: block[0]):
        texts = [text if element == "table" else escape(text) for _, text in group]
        if element in ("ul", "ol"):
            texts = ["".join(f"<li>{text}</li>" for text in texts)]
        elif element == "pre":
            texts = ["\n".join(texts)]
        html += [f"<{element}>{text}</{element}>" for text in texts]
    return html_to_markdown("".join(html))


def _table(rows: Iterable[list[str]]) -> Block:
    """Return a table. If it has several rows, the first is its header."""
    filled = [cells for cells in rows if any(cell.strip() for cell in cells)]
    html = ""
    for number, cells in enumerate(filled):
        element = "th" if number == 0 and len(filled) > 1 else "td"
        html += f"<tr>{''.join(f'<{element}>{escape(cell)}</{element}>' for cell in cells)}</tr>"
    return "table", html


def _title(title: str | None, blocks: Iterable[Block]) -> str:
    """Return the first heading of the highest level, or else the title in the properties."""
    headings = [(element, " ".join(text.split())) for element, text in blocks if element[0] == "h" and text.strip()]
    return min(headings, key=lambda heading: heading[0])[1] if headings else stated_title(title)
