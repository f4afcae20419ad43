"""Read PDF files with pdfium: lines with their place and size become headings, paragraphs and code."""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, pairwise, takewhile
from statistics import median, median_high
from typing import Any, NamedTuple

from graphrag_core.errors import FileError, optional_import
from graphrag_core.text import has_cjk, markdown
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
_MONOSPACED = re.compile(r"mono(?!type)|courier|consol|typewriter|cmtt|menlo|-tt|fixed|NimbusMon", re.IGNORECASE)
_HYPHENS = (0x02, 0xFFFE, 0xAD)  # a hyphen at the end of a line, as pdfium returns it
_HEADING_RATIO = 1.12  # how much larger than body text a heading is
_WORD_GAP = 0.13  # of the font size: the gap between words is wider, the gap that kerning leaves is not
_NO_GAP = 0.05
_SUPERSCRIPT = 0.85  # of the size of its line, at most
_PAGES_PER_ENTRY = 4  # of an outline that has all headings, at most
_TITLE_LINES = 3  # of a heading, at most
_LONGEST_HEADING = 200  # characters
_SHORTEST_KEY = 3  # letters of a title, by which it is recognised
_MAX_PAGES = 20_000
_MAX_CHARACTERS = 50_000_000
_LONGEST_EDGE = 300  # characters of a page number, or of a line of a table of contents
_MOST_INDENTATION = 100  # spaces
_LOCK = threading.Lock()  # pdfium must not be called from two threads


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a page, or the part of it in one column. Coordinates are points, from the bottom left."""

    text: str
    left: float
    right: float
    base: float
    size: float
    page: int
    row: int
    is_code: bool = False
    hyphenated: bool = False
    level: int = 0


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
                pages, characters = [], 0
                for number in range(len(file)):
                    pages.append(_page_lines(file[number], number + 1))
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
    return Content("\n\n".join(_markdown(lines)), _title(title, lines), {"pages": len(pages)})


# -- reading lines


def _page_lines(page: Any, number: int) -> list[_Line]:
    """Return the parts of lines of a page, in the order of the file; a wide gap separates two parts."""
    import pypdfium2.raw as pdfium

    text_page = page.get_textpage()
    raw, box = text_page.raw, pdfium.FS_RECTF()
    part = _Part(raw, number)
    for index in range(text_page.count_chars()):
        code = pdfium.FPDFText_GetUnicode(raw, index)
        if code in (10, 13) or code in _HYPHENS:
            part.end(hyphenated=code in _HYPHENS)
            part.row += code != 13
        elif code and not 0xD800 <= code < 0xE000:
            pdfium.FPDFText_GetLooseCharBox(raw, index, box)  # up to where the next character is expected
            part.add(index, chr(code), box)
    part.end()
    text_page.close()
    return part.lines


class _Part:
    """The part of a line that is being read from a page, and the lines before it."""

    def __init__(self, raw: Any, page: int) -> None:
        self.lines: list[_Line] = []
        self.row = 0
        self._raw, self._page = raw, page
        self._ink = [ctypes.c_double() for _ in range(4)]  # left, right, bottom and top of what is drawn
        self._characters: list[str] = []
        self._boxes: list[tuple[float, float]] = []  # left and right of each character
        self._places: list[int] = []  # of the characters other than spaces
        self._begin = self._end = self._base = self._start = self._size = 0.0

    def add(self, index: int, character: str, box: Any) -> None:
        """Add a character, which may begin another part or another line."""
        left, right, bottom = box.left, box.right, box.bottom
        if character.isspace():
            self._characters.append(" ")
            self._boxes.append((left, right))
            return
        if self._places and left - self._end > 1.8 * self._size:  # a column or a cell of a table
            self.end()
        elif self._places and abs(bottom - self._start) > 1.5 * self._size and left < self._end:  # a line break
            self.end()
            self.row += 1
        if not self._places:
            self._draw(index)
            self._begin, self._base, self._start = self._ink[0].value, self._ink[2].value, bottom
            self._size = _font_size(self._raw, index)
        elif character.isdigit() and self._characters[-1][-1:].isalpha():
            is_raised = _font_size(self._raw, index) < _SUPERSCRIPT * self._size
            character = f"^{character}" if is_raised else character  # the number of a footnote, or a power
        self._places.append(index)
        self._characters.append(character)
        self._boxes.append((left, right))
        self._end = right

    def end(self, *, hyphenated: bool = False) -> None:
        """End the part."""
        if text := _words(self._characters, self._boxes, self._size):
            places = self._places
            is_code = all(_is_monospaced(self._raw, places[at]) for at in (0, len(places) // 2, -1))
            self._draw(places[-1])
            self.lines.append(
                _Line(
                    text, self._begin, self._ink[1].value, self._base, self._size, self._page, self.row, is_code,
                    hyphenated,
                )
            )  # fmt: skip
        self._characters, self._boxes, self._places = [], [], []

    def _draw(self, index: int) -> None:
        """Read where a character is drawn."""
        import pypdfium2.raw as pdfium

        pdfium.FPDFText_GetCharBox(self._raw, index, *self._ink)


def _words(characters: list[str], boxes: Sequence[tuple[float, float]], size: float) -> str:
    """Return the text of a line with a space where the page has a gap between words, whether or not the file has one.

    Character spacing can stand for a space. A gap that is not wider than most of the gaps beside it separates letters.
    """
    gaps: list[tuple[int, float]] = []  # before which character, and how wide
    last = -1
    for place, box in enumerate(boxes):
        if characters[place] == " ":
            continue
        gap = box[0] - boxes[last][1]
        if 0 <= last == place - 1:
            gaps.append((place, gap))
        elif last == place - 2 >= 0 and abs(gap) < _NO_GAP * size:
            left, right = boxes[place - 1]
            if left < right and box[0] - left < _NO_GAP * size:  # drawn over a space of the file
                characters[place - 1] = ""
        last = place
    for number, (place, gap) in enumerate(gaps):
        if gap > _WORD_GAP * size and not has_cjk(characters[place - 1] + characters[place]):
            beside = [other for _, other in (*gaps[max(number - 3, 0) : number], *gaps[number + 1 : number + 4])]
            if gap > 1.5 * median_high(beside or [0.0]):
                characters[place] = f" {characters[place]}"
    return " ".join("".join(characters).split())


def _font_size(raw: Any, index: int) -> float:
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(raw, index, matrix)
    scale = (matrix.c**2 + matrix.d**2) ** 0.5 or 1.0
    return round(float(pdfium.FPDFText_GetFontSize(raw, index)) * scale * 2) / 2 or 1.0


def _is_monospaced(raw: Any, index: int) -> bool:
    import pypdfium2.raw as pdfium

    name = ctypes.create_string_buffer(100)
    pdfium.FPDFText_GetFontInfo(raw, index, name, len(name), ctypes.c_int())
    return _MONOSPACED.search(name.value.decode("utf-8", "replace")) is not None


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


def _reading_order(lines: list[_Line], body: float) -> list[_Line]:
    """Order the lines of a page column by column; parts of a line in the same column are joined again."""
    gutter = _gutter(lines, body)
    if gutter is None:
        return _join_rows(lines)
    ordered: list[_Line] = []
    band: list[_Line] = []

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


def _gutter(lines: Sequence[_Line], body: float) -> float | None:
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


def _fills(lines: Sequence[_Line], width: float, body: float) -> bool:
    """Whether lines fill a column. The cells of a table are short."""
    if len(lines) < 8 or width < 8 * body:
        return False
    return median(line.right - line.left for line in lines) >= 0.55 * width


def _join_rows(lines: Sequence[_Line]) -> list[_Line]:
    joined: list[_Line] = []
    parts: list[list[str]] = []  # of each line
    for line in lines:
        last = joined[-1] if joined else None
        if last and last.row == line.row and not last.hyphenated and abs(last.base - line.base) < line.size:
            joined[-1] = replace(last, right=line.right, hyphenated=line.hyphenated)
            parts[-1].append(line.text)
        else:
            joined.append(line)
            parts.append([line.text])
    return [replace(line, text=" ".join(texts)) for line, texts in zip(joined, parts, strict=True)]


# -- what is repeated, and what is a heading


def _without_running_lines(pages: list[list[_Line]]) -> list[_Line]:
    """Remove headers, footers, page numbers and tables of contents."""
    margins = []
    for page in pages:
        by_height = sorted(page, key=lambda line: line.base)
        margins.append(_margin(by_height) + _margin(by_height[::-1]))
    running = _running_lines(margins)
    lines = (line for page in pages for line in page if id(line) not in running)
    return [line for line in lines if not _is_short_match(_CONTENTS_LINE, line.text)]


def _running_lines(margins: list[list[_Line]]) -> set[int]:
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


def _margin(lines: Sequence[_Line]) -> list[_Line]:
    """Return the first lines up to a gap: a header or footer of at most three rows, or the first row."""
    rows: list[list[_Line]] = []
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


def _page_offsets(line: _Line) -> list[int]:
    """Return the differences between numbers at the ends of a line and its page: the same for all page numbers."""
    numbers = re.match(r"(\d{1,4})\b|.*?\b(\d{1,4})$", line.text)
    return [int(number) - line.page for number in numbers.groups() if number] if numbers else []


def _place(line: _Line) -> tuple[str, int]:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", line.text.casefold()), round(line.base / 4)


def _with_headings(lines: list[_Line], body: float, outline: Sequence[_Entry]) -> list[_Line]:
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


def _levels_by_outline(lines: Sequence[_Line], body: float, outline: Sequence[_Entry]) -> dict[int, int]:
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


def _title_at(lines: Sequence[_Line], start: int, wanted: set[str]) -> int:
    """Return how many lines from one on are a title; 0 if they are none."""
    title = ""
    for span, line in enumerate(lines[start : start + _TITLE_LINES], 1):
        title = f"{title} {line.text}".strip()
        if len(title) > _LONGEST_EDGE:
            break
        if not wanted.isdisjoint(_keys(title)):
            return span
    return 0


def _is_larger(line: _Line, body: float) -> bool:
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


def _title(title: str, lines: Sequence[_Line]) -> str:
    """Return the title in the file's properties if it is one, or else the largest text of the first page."""
    if title := stated_title(title):
        return title
    first = [line for line in lines if line.page == lines[0].page]
    largest = max(line.size for line in first)
    from_heading = dropwhile(lambda line: line.size != largest or not line.level, first)
    return " ".join(line.text for line in takewhile(lambda line: line.size == largest, from_heading))[:200]


# -- writing


def _markdown(lines: Sequence[_Line]) -> Iterator[str]:
    """Yield blocks: page breaks, headings, code, lists and paragraphs."""
    words = {word.lower() for line in lines for word in HYPHENATED_WORD.findall(line.text)}
    page = 0
    items: list[str] = []
    for block in _blocks(lines):
        if block[0].page != page or block[0].level or block[0].is_code or not _LIST_ITEM.match(block[0].text):
            if items:
                yield "\n".join(items)
            items = []
        if block[0].page != page:
            page = block[0].page
            yield markdown.page_break(page)
        if block[0].is_code:
            yield "\n".join(markdown.fenced("\n".join(_indented(block))))
        elif block[0].level:
            yield "#" * block[0].level + " " + markdown.escape(" ".join(line.text for line in block))
        else:
            text = _paragraph(block, words)
            if _LIST_ITEM.match(block[0].text):
                items.append(text)
            else:
                yield text
        page = block[-1].page
    if items:
        yield "\n".join(items)


def _paragraph(block: Sequence[_Line], words: set[str]) -> str:
    """Return the lines of a paragraph or an item as one, with the breaks between pages."""
    item = _LIST_ITEM.match(block[0].text)
    marker = _marker(item[1]) if item else ""
    pieces, page = [], block[0].page
    for line in _dehyphenated(block, words):
        if line.page != page:
            page = line.page
            pieces.append(markdown.page_break(page))
        pieces.append(markdown.escape(line.text[item.end() :] if item and marker and not pieces else line.text))
    text = " ".join(pieces)
    return marker + text if marker else markdown.line(text)


def _marker(bullet: str) -> str:
    """Return the Markdown marker of a list item, or nothing for "a)", which Markdown does not have."""
    number = _NUMBERED.match(bullet)
    return f"{number[1]}. " if number else "" if bullet[-1] in ".)" else "- "


def _dehyphenated(block: Sequence[_Line], words: set[str]) -> list[_Line]:
    """Move the second half of a hyphenated word to the line of the first."""
    lines: list[_Line] = []
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


def _blocks(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Group lines into headings, code blocks, items and paragraphs."""
    pitches = [a.base - b.base for a, b in pairwise(lines) if a.page == b.page and 0 < a.base - b.base < 3 * a.size]
    pitch = median(pitches) if pitches else 0.0
    block: list[_Line] = []
    right = 0.0
    for line in lines:
        if block and _starts_block(block, line, pitch, right):
            yield block
            block = []
        right = max(right, line.right) if block and line.page == block[-1].page else line.right
        block.append(line)
    if block:
        yield block


def _starts_block(block: Sequence[_Line], line: _Line, pitch: float, right: float) -> bool:
    last = block[-1]
    down = last.base - line.base
    if line.level != last.level or line.is_code != last.is_code:
        return True
    if line.level:
        return line.size != last.size or not 0 < down < 2.2 * line.size
    if line.is_code:
        return line.page == last.page and down > 3.5 * pitch
    return _starts_paragraph(block, line, pitch, right)


def _starts_paragraph(block: Sequence[_Line], line: _Line, pitch: float, right: float) -> bool:
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


def _indented(block: Sequence[_Line]) -> Iterator[str]:
    """Yield lines of code with the indentation that their places show."""
    left = min(line.left for line in block)
    widths = [(line.right - line.left) / len(line.text) for line in block if len(line.text) > 3]
    width = median(widths) if widths else block[0].size * 0.6
    for line in block:
        yield " " * round(min(max((line.left - left) / max(width, 0.1), 0), _MOST_INDENTATION)) + line.text
