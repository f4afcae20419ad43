"""Read the lines and the links of a page of a PDF with pdfium, with their places."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Any, NamedTuple

from graphrag_core.text import has_cjk

_MONOSPACED = re.compile(r"mono(?!type)|courier|consol|typewriter|cmtt|menlo|-tt|fixed|NimbusMon", re.IGNORECASE)
_HYPHENS = (0x02, 0xFFFE, 0xAD)  # a hyphen at the end of a line, as pdfium returns it
_WORD_GAP = 0.13  # of the font size: the gap between words is wider, the gap that kerning leaves is not
_NO_GAP = 0.05
_SUPERSCRIPT = 0.85  # of the size of its line, at most
_LONGEST_LINK = 200  # characters


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page, or the part of it in one column. Coordinates are points, from the bottom left."""

    text: str
    left: float
    right: float
    base: float
    size: float
    page: int
    is_code: bool = False
    hyphenated: bool = False
    level: int = 0
    links: tuple[tuple[str, str], ...] = ()  # linked words, and the anchor to which they lead
    anchor: str = ""
    cells: tuple[Line, ...] = ()  # the parts of a line that has several
    rows: Sequence[Sequence[Sequence[Line]]] = ()  # of the table that stands in place of its lines


class Link(NamedTuple):
    """A link inside the file: its words and where they are, and the place that it leads to."""

    words: str
    page: int
    bottom: float
    top: float
    target_page: int
    target_top: float


def page_lines(text_page: Any, number: int) -> list[Line]:
    """Return the parts of lines of a page, in the order of the file; a wide gap separates two parts."""
    import pypdfium2.raw as pdfium

    raw, box = text_page.raw, pdfium.FS_RECTF()
    part = _Part(raw, number)
    for index in range(text_page.count_chars()):
        code = pdfium.FPDFText_GetUnicode(raw, index)
        if code in (10, 13) or code in _HYPHENS:
            part.end(hyphenated=code in _HYPHENS)
        elif code and not 0xD800 <= code < 0xE000:
            pdfium.FPDFText_GetLooseCharBox(raw, index, box)  # up to where the next character is expected
            part.add(index, chr(code), box)
    part.end()
    return part.lines


class _Part:
    """The part of a line that is being read from a page, and the lines before it."""

    def __init__(self, raw: Any, page: int) -> None:
        self.lines: list[Line] = []
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
        is_below = abs(bottom - self._start) > 1.5 * self._size and left < self._end  # a line break
        if self._places and (is_below or left - self._end > 1.8 * self._size):  # a column or a cell of a table
            self.end()
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
            where = self._begin, self._ink[1].value, self._base, self._size, self._page
            self.lines.append(Line(text, *where, is_code, hyphenated))
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


def page_links(file: Any, page: Any, text_page: Any, number: int, most: int) -> tuple[list[Link], int]:
    """Return the links of a page that lead to a page of the same file, and how many of at most ``most`` were read."""
    import pypdfium2.raw as pdfium

    links: list[Link] = []
    place, link, box = ctypes.c_int(), pdfium.FPDF_LINK(), pdfium.FS_RECTF()
    flags, (x, top, zoom) = [ctypes.c_int() for _ in range(3)], [ctypes.c_float() for _ in range(3)]
    read = 0
    while read < most and pdfium.FPDFLink_Enumerate(page.raw, place, link):
        read += 1
        target = pdfium.FPDFLink_GetDest(file.raw, link)
        target_page = pdfium.FPDFDest_GetDestPageIndex(file.raw, target) if target else -1
        if target_page < 0 or not pdfium.FPDFLink_GetAnnotRect(link, box):
            continue
        words = " ".join(text_page.get_text_bounded(box.left, box.bottom, box.right, box.top).split()).strip(" (),.;:")
        if words and len(words) <= _LONGEST_LINK:
            pdfium.FPDFDest_GetLocationInPage(target, *flags, x, top, zoom)
            target_top = top.value if flags[1].value else math.inf
            links.append(Link(words, number, box.bottom, box.top, target_page + 1, target_top))
    return links, read
