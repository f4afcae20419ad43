"""Read PDF files with pdfium: lines with their place and size become headings, paragraphs and code."""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, dropwhile, pairwise, takewhile
from statistics import median
from typing import Any, NamedTuple

from graphrag_apps.documents.pdf_lines import Line, Link, page_lines, page_links
from graphrag_core.errors import FileError, optional_import
from graphrag_core.text import markdown
from graphrag_core.text.content import Content, stated_title
from graphrag_core.text.words import HYPHENATED_WORD

_NUMBER = re.compile(
    r"(?:(?:chapter|part|appendix|section)\s+)?(?:[A-Z]?\d+(?:\.\d+)*|[A-Z]|[IVXLC]+)[.:]?\s+", re.IGNORECASE
)
_CONTENTS_TITLE = re.compile(r"(?:table of )?contents:?|index", re.IGNORECASE)
_PAGE_NUMBER = re.compile(
    r"\W*(?:page|seite|p\.)?\s*(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:of|/|von)\s*\d{1,4})?\W*", re.IGNORECASE
)
_CONTENTS_LINE = re.compile(r".*(?:\.\s?){4,}\s*(?:\d+|[ivxlc]+)(?:(?:,\s?|[-–])(?:\d+|[ivxlc]+))*,?\s*")
_ENDS_IN_NUMBER = re.compile(r"\s(?:\d{1,4}|[ivxlc]{1,7})$")
_LIST_ITEM = re.compile(r"([•‣◦▪●○■–∙·*-]|\(?(?:\d{1,2}|[a-z])[.)])\s+(?=\S)")
_NUMBERED = re.compile(r"\(?(\d{1,2})[.)]$")
_SENTENCE_END = (".", "!", "?", ":", ";", "。", "！", "？", "”", '"')
_HEADING_RATIO = 1.12  # how much larger than body text a heading is
_PAGES_PER_ENTRY = 4  # of an outline that has all headings, at most
_TITLE_LINES = 3  # of a heading, at most
_SAME_ROW = 0.5  # of the font size: by how much the parts of a row may be above each other
_LEAST_ROWS, _MOST_COLUMNS = 3, 50  # of a table
_LONGEST_HEADING = 200  # characters
_SHORTEST_KEY = 3  # letters of a title, by which it is recognised
_MAX_PAGES = 20_000
_MAX_CHARACTERS = 50_000_000
_LONGEST_EDGE = 300  # characters of a page number, or of a line of a table of contents
_MOST_SEARCHED = 100_000_000  # characters, once for each link of their page
_MOST_LINKED = 50  # links in a line
_MOST_LINES, _LONGEST_LINKED = 500, 1_000  # lines of a page, and characters of a line, in which links are looked for
_MOST_INDENTATION = 100  # spaces
_LOCK = threading.Lock()  # pdfium must not be called from two threads


class _Entry(NamedTuple):
    """A title of the outline, its level, and the page that it leads to; both from 1."""

    title: str
    level: int
    page: int


def read_pdf(data: bytes) -> Content:
    """Read the text layer of a PDF. A comment is before the text of each page."""
    with optional_import("pypdfium2", "files", "Reading PDF"):
        import pypdfium2
    with _LOCK:
        try:
            file = pypdfium2.PdfDocument(data)
            try:
                if len(file) > _MAX_PAGES:
                    raise FileError(f"has more than {_MAX_PAGES:,} pages: split it")
                pages, links, characters, left = [], list[Link](), 0, _MOST_SEARCHED
                for number in range(len(file)):
                    page = file[number]
                    text_page = page.get_textpage()
                    pages.append(page_lines(text_page, number + 1))
                    length = text_page.count_chars() + 1  # pdfium compares each character with the place of a link
                    found, read = page_links(file, page, text_page, number + 1, left // length)
                    links += found
                    left -= read * length
                    text_page.close()
                    characters += sum(len(line.text) for line in pages[-1])
                    if characters > _MAX_CHARACTERS:
                        raise FileError(f"has more than {_MAX_CHARACTERS:,} characters: split it")
                outline = _outline(file)
                title = str(file.get_metadata_dict().get("Title", "")).strip()
            finally:
                file.close()
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower() or "security" in str(error).lower():
                raise FileError("encrypted: save a copy without a password") from error
            raise FileError(f"damaged PDF ({str(error).splitlines()[0][:120]})") from error
    if not any(pages):
        raise FileError("no text, only images: run OCR first")
    sizes: Counter[float] = Counter()
    for line in chain.from_iterable(pages):
        sizes[line.size] += len(line.text)
    body = sizes.most_common(1)[0][0]
    lines = _without_running_lines([_reading_order(page, body) for page in pages])
    lines = _with_headings(lines, body, outline)
    if not lines:
        raise FileError("no text besides page numbers")
    return Content(
        "\n\n".join(_markdown(_with_tables(_with_links(lines, links)))), _title(title, lines), {"pages": len(pages)}
    )


def _outline(file: Any) -> list[_Entry]:
    """Return the entries of the outline that lead to a page."""
    entries = []
    for entry in file.get_toc(max_depth=6):
        target = entry.get_dest()
        page = None if target is None else target.get_index()
        title = " ".join((entry.get_title() or "").split())
        if page is not None and _key(title):
            entries.append(_Entry(title, entry.level + 1, page + 1))
    return entries


# -- order


def _reading_order(lines: list[Line], body: float) -> list[Line]:
    """Order the lines of a page column by column; parts of a line in the same column are joined again."""
    gutter = _gutter(lines, body)
    if gutter is None:
        return _join_rows(lines)
    ordered: list[Line] = []
    band: list[Line] = []

    def flush() -> None:
        ordered.extend(_reading_order([line for line in band if line.right <= gutter], body))
        ordered.extend(_reading_order([line for line in band if line.right > gutter], body))
        band.clear()

    for line in sorted(lines, key=lambda line: -line.base):
        if line.left < gutter < line.right:  # over the whole width, such as a title
            flush()
            ordered.append(line)
        else:
            band.append(line)
    flush()
    return ordered


def _gutter(lines: Sequence[Line], body: float) -> float | None:
    """Return the position of the gap between two columns of text, if there is one."""
    if len(lines) < 16:
        return None
    low, high = min(line.left for line in lines), max(line.right for line in lines)
    places = (low + (high - low) * step / 100 for step in range(25, 76))
    crossing, x = min((sum(line.left < place < line.right for line in lines), place) for place in places)
    if crossing > len(lines) * 0.15:
        return None
    left, right = [line for line in lines if line.right <= x], [line for line in lines if line.left >= x]
    return x if _fills(left, x - low, body) and _fills(right, high - x, body) else None


def _fills(lines: Sequence[Line], width: float, body: float) -> bool:
    """Whether lines fill a column. The cells of a table are short."""
    if len(lines) < 8 or width < 8 * body:
        return False
    return median(line.right - line.left for line in lines) >= 0.55 * width


def _join_rows(lines: Sequence[Line]) -> list[Line]:
    joined: list[list[Line]] = []
    for line in lines:
        last = joined[-1][-1] if joined else None
        is_beside = last and last.left < line.left and abs(joined[-1][0].base - line.base) < _SAME_ROW * line.size
        if last and is_beside and not last.hyphenated:
            joined[-1].append(line)
        else:
            joined.append([line])
    return [
        replace(
            parts[0],
            text=" ".join(part.text for part in parts),
            right=parts[-1].right,
            hyphenated=parts[-1].hyphenated,
            cells=tuple(parts) if len(parts) > 1 else (),
        )
        for parts in joined
    ]


# -- what is repeated, and what is a heading


def _without_running_lines(pages: list[list[Line]]) -> list[Line]:
    """Remove headers, footers, page numbers and tables of contents."""
    margins = []
    for page in pages:
        by_height = sorted(page, key=lambda line: line.base)
        margins.append(_margin(by_height) + _margin(by_height[::-1]))
    running = _running_lines(margins)
    lines = (line for page in pages for line in page if id(line) not in running)
    return [line for line in lines if not _is_short_match(_CONTENTS_LINE, line.text)]


def _running_lines(margins: list[list[Line]]) -> set[int]:
    """Return the ids of lines in the margins that are page numbers, or at the same place of several pages."""
    pages = len(margins)
    lines = [line for margin in margins for line in margin]
    repeated = Counter(place for margin in margins for place in set(map(_place, margin)))
    least = max(3, pages // 10) if pages > 3 else 2
    offsets = Counter(offset for line in lines for offset in _page_offsets(line))
    common = {offset for offset, count in offsets.most_common(1) if count >= max(3, pages // 3)}
    return {
        id(line)
        for line in lines
        if repeated[_place(line)] >= least
        or (pages > 1 and _is_short_match(_PAGE_NUMBER, line.text))
        or not common.isdisjoint(_page_offsets(line))
    }


def _is_short_match(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _LONGEST_EDGE and pattern.fullmatch(text) is not None


def _margin(lines: Sequence[Line]) -> list[Line]:
    """Return the first lines up to a gap: a header or footer of at most three rows, or the first row."""
    rows: list[list[Line]] = []
    for line in lines:
        distance = abs(line.base - rows[-1][0].base) if rows else 0.0
        if rows and distance < 3:
            rows[-1].append(line)
        elif len(rows) == 3 or (rows and distance > 1.8 * line.size):
            break
        else:
            rows.append([line])
    else:
        return rows[0] if rows else []
    return rows[0] if len(rows) == 3 else [line for row in rows for line in row]


def _page_offsets(line: Line) -> list[int]:
    """Return the differences between numbers at the ends of a line and its page: the same for all page numbers."""
    numbers = re.match(r"(\d{1,4})\b|.*?\b(\d{1,4})$", line.text)
    return [int(number) - line.page for number in numbers.groups() if number] if numbers else []


def _place(line: Line) -> tuple[str, int]:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", line.text.casefold()), round(line.base / 4)


def _with_headings(lines: list[Line], body: float, outline: Sequence[_Entry]) -> list[Line]:
    """Set the level of lines that are headings: those of the outline, and lines that are larger than the text.

    An outline with many entries has all headings; else larger lines are headings below those of the outline. A title of
    the outline with a page number is a line of the table of contents, which is left out.
    """
    levels = _levels_by_outline(lines, body, outline)
    if lines and len(outline) * _PAGES_PER_ENTRY < lines[-1].page:
        deepest = max(levels.values(), default=0)
        larger = {at: line.size for at, line in enumerate(lines) if at not in levels and _is_larger(line, body)}
        rank = {size: rank for rank, size in enumerate(sorted({*larger.values()}, reverse=True), 1)}
        levels |= {at: min(deepest + rank[size], 6) for at, size in larger.items()}
    titles = {_key(entry.title) for entry in outline if not _ENDS_IN_NUMBER.search(entry.title)}
    result = []
    for at, line in enumerate(lines):
        if at in levels:
            result.append(replace(line, level=levels[at], is_code=False))
        elif not (_ENDS_IN_NUMBER.search(line.text) and _key(line.text) in titles):
            result.append(line)
    return result


def _levels_by_outline(lines: Sequence[Line], body: float, outline: Sequence[_Entry]) -> dict[int, int]:
    """Return the levels of lines that are titles of the outline, each on the page that the outline says."""
    levels: dict[int, int] = {}
    first: dict[int, int] = {}  # line of each page
    for at, line in enumerate(lines):
        first.setdefault(line.page, at)
    for entry in outline:
        wanted = _keys(entry.title)
        for start in range(first.get(entry.page, len(lines)), len(lines)):
            if lines[start].page != entry.page:
                break
            span = _title_at(lines, start, wanted) if start not in levels and lines[start].size >= body else 0
            if span:
                levels |= dict.fromkeys(range(start, start + span), entry.level)
                break
    return levels


def _title_at(lines: Sequence[Line], start: int, wanted: set[str]) -> int:
    """Return how many lines from one on are a title; 0 if they are none."""
    title = ""
    for span, line in enumerate(lines[start : start + _TITLE_LINES], 1):
        title = f"{title} {line.text}".strip()
        if len(title) > _LONGEST_EDGE:
            break
        if not wanted.isdisjoint(_keys(title)):
            return span
    return 0


def _is_larger(line: Line, body: float) -> bool:
    """Return whether a line is larger than the text, and can be a heading: no end of a sentence, and no contents."""
    text = line.text.strip()
    if line.size < body * _HEADING_RATIO or line.is_code or len(text) >= _LONGEST_HEADING:
        return False
    is_sentence = text.endswith((".", ",", ";")) or text[:1].islower()
    return re.search(r"[^\W\d_]", text) is not None and not is_sentence and not _CONTENTS_TITLE.fullmatch(text)


def _keys(title: str) -> set[str]:
    """Return what two forms of a title have in common: its letters, with and without its number."""
    keys = {_key(title), _key(_NUMBER.sub("", title, count=1))}
    return {key for key in keys if len(key) >= _SHORTEST_KEY} or {"".join(title.casefold().split())}


def _key(title: str) -> str:
    return "".join(re.findall(r"[^\W\d_]+", title.casefold()))


def _title(title: str, lines: Sequence[Line]) -> str:
    """Return the title in the file's properties if it is one, or else the largest text of the first page."""
    if title := stated_title(title):
        return title
    first = [line for line in lines if line.page == lines[0].page]
    largest = max(line.size for line in first)
    from_heading = dropwhile(lambda line: line.size != largest or not line.level, first)
    return " ".join(line.text for line in takewhile(lambda line: line.size == largest, from_heading))[:200]


# -- links


def _with_links(lines: list[Line], links: Sequence[Link]) -> list[Line]:
    """Return lines with their links, and with anchors at the first line that is not above the place of a link."""
    places: defaultdict[int, list[int]] = defaultdict(list)  # of the lines of each page
    for place, line in enumerate(lines):
        places[line.page].append(place)
    result = list(lines)
    for link in links:
        own = (at for at in places[link.page][:_MOST_LINES] if link.bottom - 1 <= lines[at].base <= link.top)
        texts = ((at, lines[at].text[:_LONGEST_LINKED]) for at in own if not lines[at].level)
        source = next((at for at, text in texts if link.words in text and len(result[at].links) < _MOST_LINKED), None)
        below = (at for at in places[link.target_page][:_MOST_LINES] if lines[at].base <= link.target_top)
        target = next(below, None)
        if source is None or target is None or (link.words.isdigit() and target == places[link.target_page][0]):
            continue  # a number that leads to the top of a page is an entry of an index
        anchor = f"page-{link.target_page}-{target - places[link.target_page][0] + 1}"
        result[target] = replace(result[target], anchor=anchor)
        result[source] = replace(result[source], links=(*result[source].links, (link.words, anchor)))
    return result


def _inline(line: Line, start: int = 0) -> str:
    """Return the text of a line from a character on, with its anchor and its links."""
    text = markdown.escape(line.text[start:])
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for words, anchor in line.links:
        targets[markdown.escape(words)].append(anchor)
    if targets:
        longest_first = sorted(targets, key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"

        def linked(words: re.Match[str]) -> str:
            left = targets[words[0]]
            return markdown.link(words[0], f"#{left.pop(0)}") if left else words[0]

        text = re.sub(pattern, linked, text)
    return markdown.anchor(line.anchor) + text


# -- tables


def _with_tables(lines: Sequence[Line]) -> list[Line]:
    """Return lines with one line for each table: at least three lines whose parts stand below each other."""
    result: list[Line] = []
    at = 0
    while at < len(lines):
        rows, end = _rows(lines, at)
        if len(rows) < _LEAST_ROWS:
            rows, end = [], at + 1
        anchor = next((line.anchor for line in lines[at:end] if line.anchor), "")
        result.append(replace(lines[at], rows=rows, anchor=anchor))
        at = end
    return result


def _rows(lines: Sequence[Line], start: int) -> tuple[list[list[list[Line]]], int]:
    """Return the rows of a table that may begin at a line, each with the lines of its cells, and where it ends."""
    columns = [(cell.left, cell.right) for cell in lines[start].cells[:_MOST_COLUMNS]]
    rows: list[list[list[Line]]] = []
    end = start
    while columns and end < len(lines) and lines[end].page == lines[start].page:
        cells = lines[end].cells or (lines[end],)
        places = _places(columns, cells)
        if not places or places == [0] or lines[end].level or lines[end].is_code:
            break  # no table, or a paragraph
        if len(cells) > 1:
            rows.append([[] for _ in columns])
        for place, cell in zip(places, cells, strict=True):
            rows[-1][place].append(cell)
            columns[place] = min(columns[place][0], cell.left), max(columns[place][1], cell.right)
        end += 1
    return rows, end


def _places(columns: Sequence[tuple[float, float]], cells: Sequence[Line]) -> list[int]:
    """Return the columns of cells, if each is in a column of its own."""
    if len(cells) > len(columns):
        return []
    places = [[at for at, (left, right) in enumerate(columns) if c.left < right and left < c.right] for c in cells]
    first = [place[0] for place in places if len(place) == 1]
    return first if len(set(first)) == len(cells) else []


# -- writing


def _markdown(lines: Sequence[Line]) -> Iterator[str]:
    """Yield blocks: page breaks, headings, code, lists and paragraphs."""
    words = {word.lower() for line in lines for word in HYPHENATED_WORD.findall(line.text)}
    page = 0
    items: list[str] = []
    for block in _blocks(lines):
        is_item = not (block[0].level or block[0].is_code or block[0].rows) and _LIST_ITEM.match(block[0].text)
        if block[0].page != page or not is_item:
            if items:
                yield "\n".join(items)
            items = []
        if block[0].page != page:
            page = block[0].page
            yield markdown.page_break(page)
        anchors = "".join(markdown.anchor(line.anchor) for line in block)
        if block[0].rows:
            rows = [[_cell(cell, words) for cell in row] for row in block[0].rows]
            yield from filter(None, (anchors, "\n".join(markdown.table(rows, header=False))))
        elif block[0].is_code:
            yield from filter(None, (anchors, "\n".join(markdown.fenced("\n".join(_indented(block))))))
        elif block[0].level:
            yield f"{'#' * block[0].level} {anchors}{_cell(block, words)}"
        else:
            text = _paragraph(block, words)
            if is_item:
                items.append(text)
            else:
                yield text
        page = block[-1].page
    if items:
        yield "\n".join(items)


def _cell(lines: Sequence[Line], words: set[str]) -> str:
    """Return the lines of a heading or a cell as one."""
    return markdown.escape(" ".join(line.text for line in _dehyphenated(lines, words)))


def _paragraph(block: Sequence[Line], words: set[str]) -> str:
    """Return the lines of a paragraph or an item as one, with the breaks between pages."""
    item = _LIST_ITEM.match(block[0].text)
    marker = _marker(item[1]) if item else ""
    pieces, page = [], block[0].page
    for line in _dehyphenated(block, words):
        if line.page != page:
            page = line.page
            pieces.append(markdown.page_break(page))
        pieces.append(_inline(line, item.end() if item and marker and not pieces else 0))
    text = " ".join(pieces)
    return marker + text if marker else markdown.line(text)


def _marker(bullet: str) -> str:
    """Return the Markdown marker of a list item, or nothing for "a)", which Markdown does not have."""
    number = _NUMBERED.match(bullet)
    return f"{number[1]}. " if number else "" if bullet[-1] in ".)" else "- "


def _dehyphenated(block: Sequence[Line], words: set[str]) -> list[Line]:
    """Move the second half of a hyphenated word to the line of the first."""
    lines: list[Line] = []
    for line in block:
        last = lines[-1] if lines else None
        first, _, rest = line.text.partition(" ")
        if last and (last.hyphenated or last.text.endswith("-")) and first[:1].islower():
            begin = last.text.removesuffix("-")
            before = (HYPHENATED_WORD.findall(begin[-_LONGEST_EDGE:]) or [""])[-1].lower()
            after = (HYPHENATED_WORD.findall(first[:_LONGEST_EDGE]) or [""])[0].lower()
            keeps = f"{before}{after}" not in words and f"{before}-{after}" in words
            lines[-1] = replace(
                last, text=f"{begin}{'-' if keeps else ''}{first}", hyphenated=line.hyphenated and not rest
            )
            if rest:
                lines.append(replace(line, text=rest))
        else:
            if last and last.hyphenated:
                lines[-1] = replace(last, text=f"{last.text}-", hyphenated=False)
            lines.append(line)
    return lines


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Group lines into headings, code blocks, items and paragraphs."""
    pitches = [a.base - b.base for a, b in pairwise(lines) if a.page == b.page and 0 < a.base - b.base < 3 * a.size]
    pitch = median(pitches) if pitches else 0.0
    block: list[Line] = []
    right = 0.0
    for line in lines:
        if block and _starts_block(block, line, pitch, right):
            yield block
            block = []
        right = max(right, line.right) if block and line.page == block[-1].page else line.right
        block.append(line)
    if block:
        yield block


def _starts_block(block: Sequence[Line], line: Line, pitch: float, right: float) -> bool:
    last = block[-1]
    down = last.base - line.base
    if line.level != last.level or line.is_code != last.is_code or line.rows or last.rows:
        return True
    if line.level:
        return line.size != last.size or not 0 < down < 2.2 * line.size
    if line.is_code:
        return line.page == last.page and down > 3.5 * pitch
    return _starts_paragraph(block, line, pitch, right)


def _starts_paragraph(block: Sequence[Line], line: Line, pitch: float, right: float) -> bool:
    last = block[-1]
    if _LIST_ITEM.match(line.text) and not last.hyphenated:
        return True
    down = last.base - line.base
    continues = last.hyphenated or (line.text[:1].islower() and not last.text.endswith(_SENTENCE_END))
    if line.page != last.page or down <= 0:  # the next page or column
        return not continues
    indented = line.left - last.left > 0.8 * line.size and len(block) > 1
    short = last.right < right - 0.25 * max(right - last.left, 1)
    ended = last.text.endswith(_SENTENCE_END) and (indented or (short and not line.text[:1].islower()))
    return ended or (down > 1.35 * pitch and down > 1.5 * line.size)


def _indented(block: Sequence[Line]) -> Iterator[str]:
    """Yield lines of code with the indentation that their places show."""
    left = min(line.left for line in block)
    widths = [(line.right - line.left) / len(line.text) for line in block if len(line.text) > 3]
    width = median(widths) if widths else block[0].size * 0.6
    for line in block:
        yield " " * round(min(max((line.left - left) / max(width, 0.1), 0), _MOST_INDENTATION)) + line.text
