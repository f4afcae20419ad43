"""The chunker: splits documents into passages by their sections; finds titles, headings and pages."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple, TypeVar

from graphrag_core.errors import InputError
from graphrag_core.ingest.titles import heading_text, headings_of, is_markdown, page_number, page_of, title_of
from graphrag_core.model import Chunk, Document, Mark
from graphrag_core.text import Tokenizer, estimate_tokens, normalise, sentences, token_counter, unwrap
from graphrag_core.text.markup import plain, visible
from graphrag_core.text.scanner import BLOCKS, scan

_VERSION = 7  # changes when the same settings give other passages
_Marked = TypeVar("_Marked", Mark, "_Entry")
_TINY_SECTION = 40  # tokens; sections below are joined with those beside them
_SCRAP, _LONGEST_SCRAP = 80, 400  # characters of a section that is no passage of its own, without and with markup
_FEWEST_ENTRIES = 3  # of a list of definitions that is divided
_FULL_ENTRY = 128  # tokens; shorter entries share a passage with the next ones
_LONGEST_LABELS = 400  # characters of labels before a heading
_WORD_AND_SPACES = re.compile(r"\S*\s*")
_WORD = re.compile(r"\S")
_LINE = re.compile(r"[^\n]+\n?|\n")
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,}|:{3,})")
_LABEL_LINES = re.compile(  # of MyST, anchors and page breaks, up to the end
    r"^(?:[ \t]*(?:\([^()\s]+\)=|(?:<a id=[^<>\n]+></a>|<!-- page \d+ -->)+)[ \t]*\n(?:[ \t]*\n)*)+\Z", re.MULTILINE
)
_DEFINITION = re.compile(r"\n[ \t]*:[ \t]")


class _Section(NamedTuple):
    """A part of a document, and the path of headings above it."""

    start: int
    end: int
    path: tuple[str, ...]
    tokens: int


class _Entry(NamedTuple):
    """An entry of a list of definitions, up to the next one. The text after a list is one without a name."""

    start: int
    indent: int
    name: str


class _Piece(NamedTuple):
    """What is never split: a sentence, a code block, a line of a long one. Only prose is repeated in an overlap.

    ``block`` is the size of the whole block for the first piece of a block that should stay whole, else ``tokens``.
    """

    start: int
    end: int
    tokens: int
    block: int
    is_prose: bool = True


@dataclass(frozen=True, kw_only=True)
class Chunker:
    """Splits documents into passages at headings, and long sections at blocks and sentences.

    A passage never crosses a heading. A section of up to ``whole_until`` tokens is one passage. A longer one is split
    at the entries of its lists of definitions, such as a glossary or the options of a command: an entry has its term
    as a heading, and entries of less than 128 tokens share a passage. What is still longer is split into passages of
    at most ``max_tokens``, each of which starts with the last sentences of the previous one, up to ``overlap`` tokens.
    Code and tables are whole up to ``whole_until`` tokens, and in no overlap. Sections of less than 40 tokens are
    joined with their neighbours under the same heading. Without the overlaps, the passages are exactly the document.

    With ``long_only``, a document of up to ``whole_until`` tokens is one passage whatever its headings, as for texts
    that another splitter has cut. ``tokenizer`` counts tokens (:meth:`graphrag_core.Result.context`).

    >>> document = Document("a", "One two three four. Five six seven eight.")
    >>> parts = Chunker(max_tokens=8, overlap=0, whole_until=8).split(document)
    >>> [part.id for part in parts], parts[1].text
    (['a#0', 'a#1'], 'Five six seven eight.')
    """

    max_tokens: int = 256
    overlap: int = 32
    whole_until: int = 512
    tokenizer: Tokenizer | None = None
    long_only: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not 0 <= self.overlap < self.max_tokens:
            raise InputError(
                f"max_tokens={self.max_tokens} and overlap={self.overlap} do not fit: "
                "max_tokens must be at least 1 and overlap smaller than max_tokens"
            )

    @property
    def identity(self) -> str:
        """The settings that determine the passages."""
        counter = estimate_tokens if self.tokenizer is None else self.tokenizer
        name = counter if isinstance(counter, str) else getattr(counter, "__qualname__", type(counter).__qualname__)
        return f"chunks {_VERSION} {self.max_tokens}/{self.overlap}/{self.whole_until} {name}"

    def _count(self, text: str) -> int:
        """Return the tokens of what a reader sees of a text."""
        return (estimate_tokens if self.tokenizer is None else token_counter(self.tokenizer))(visible(text))

    def keeps_whole(self, document: Document) -> bool:
        """Return whether a document is not split at all, because it is short and only long ones are."""
        return self.long_only and self._is_whole(document.text)

    def split(self, document: Document) -> list[Chunk]:
        """Return the passages of a document, in order."""
        whole = whole_document(document)
        headings = [mark for mark in whole.marks if mark.kind == "heading"]
        is_short = len(headings) < 2 and not self.long_only and self._is_whole(whole.text)
        if is_short or self.keeps_whole(document):
            return [whole]
        parts = list(self._parts(whole, headings))
        if len(parts) == 1:
            return [replace(whole, headings=parts[0].path)]
        pages = [mark for mark in whole.marks if mark.kind == "page"]
        marks = _marks_of(whole.marks, [(part.start, part.end) for part in parts])
        return [
            replace(
                whole,
                id=f"{document.id}#{i}",
                text=whole.text[part.start : part.end],
                ordinal=i,
                start=part.start,
                headings=part.path,
                page=_page_at(pages, part.start, whole.text) or whole.page,
                marks=part_marks,
            )
            for i, (part, part_marks) in enumerate(zip(parts, marks, strict=True))
        ]

    def _is_whole(self, text: str) -> bool:
        """Return whether a text has at most ``whole_until`` tokens."""
        return len(text) <= self.whole_until or self._count(text) <= self.whole_until  # a token has a character

    # -- sections

    def _parts(self, whole: Chunk, headings: Sequence[Mark]) -> Iterator[_Section]:
        """Yield the parts of a document that become passages."""
        text = whole.text
        blocks = [mark for mark in whole.marks if mark.kind in BLOCKS]
        entries = _entries(text, blocks, [mark for mark in whole.marks if mark.kind == "term"])
        paths = _heading_paths(text, headings, whole.title, headings_of(whole.metadata, whole.title))
        sections = self._without_scraps(text, self._joined(self._sections(text, headings, paths)))
        for section in chain.from_iterable(self._divided(text, section, entries) for section in sections):
            if section.tokens <= self.whole_until:
                yield section
                continue
            inside = _starting_in(blocks, section)
            spans = list(self._pack(self._pieces(text, section, inside)))
            if len(spans) > 1 and (headings or any(block.kind != "paragraph" for block in inside)):
                (start, middle), (_, end) = spans[-2:]  # a last passage of a few words joins the one before
                fits = self._count(text[start:end]) <= max(self.whole_until, self.max_tokens)
                if fits and self._count(text[middle:end]) < _TINY_SECTION:
                    spans[-2:] = [(start, end)]
            yield from (section._replace(start=start, end=end) for start, end in spans)

    def _sections(self, text: str, headings: Sequence[Mark], paths: Iterable[tuple[str, ...]]) -> Iterator[_Section]:
        """Yield the text before the first heading, then each heading with its text; one without text joins the next."""
        current: _Section | None = None
        begin, path = 0, tuple[str, ...]()
        bounds = [0, *(_heading_start(text, heading.start) for heading in headings), len(text)]
        for heading, path, (start, end) in zip((None, *headings), paths, pairwise(bounds), strict=True):
            body = start if heading is None else text.find("\n", heading.end, end) + 1 or end
            if text[body:end].strip("=-~^ \t\r\n"):
                if current:
                    yield current
                current = _Section(begin, end, path, self._count(text[begin:end]))
                begin = end
        if begin < len(text) or current is None:
            start, path = (current.start, current.path) if current else (begin, path)
            current = _Section(start, len(text), path, self._count(text[start:]))
        yield current

    def _divided(self, text: str, section: _Section, entries: Sequence[_Entry]) -> Iterator[_Section]:
        """Yield the entries of the lists of definitions in a long section, and the text between them.

        Entries that follow each other share a passage until it has ``_FULL_ENTRY`` tokens; its terms are marks.
        """
        inside = _starting_in(entries, section)
        if section.tokens <= self.whole_until or not inside:
            yield section
            return
        current, *rest = self._entry_sections(text, section, list(inside))
        parent = current.path[:-1] if current.path != section.path else None  # of the entries in the current passage
        for part in rest:
            tokens = current.tokens + part.tokens
            if part.path[:-1] == parent and current.tokens < _FULL_ENTRY and tokens <= self.max_tokens:
                current = _Section(current.start, part.end, parent, tokens)
                continue
            yield current
            current, parent = part, part.path[:-1] if part.path != section.path else None
        yield current

    def _entry_sections(self, text: str, section: _Section, entries: list[_Entry]) -> Iterator[_Section]:
        """Yield each entry under its term; what is before the first one, if it is more than a heading."""
        if self._count(text[section.start : entries[0].start]) < _TINY_SECTION:
            entries[0] = entries[0]._replace(start=section.start)
        above: list[_Entry] = []
        path = section.path
        bounds = [section.start, *(entry.start for entry in entries), section.end]
        for entry, (start, end) in zip((None, *entries), pairwise(bounds), strict=True):
            if entry:
                above = [other for other in above if other.indent < entry.indent]
                above += [entry] if entry.name else []
                path = section.path + tuple(other.name for other in above)
            if start < end:
                yield _Section(start, end, path, self._count(text[start:end]))

    def _joined(self, sections: Iterable[_Section]) -> Iterator[_Section]:
        """Join tiny sections under the same heading. The joined section has their common path of headings."""
        current: _Section | None = None
        can_join, depth = False, 0
        for section in sections:
            is_tiny = section.tokens < _TINY_SECTION
            if current and can_join and is_tiny and current.tokens + section.tokens <= self.max_tokens:
                both = zip(current.path, section.path, strict=False)
                common = tuple(name for name, _ in takewhile(lambda pair: pair[0] == pair[1], both))
                if len(common) >= min(depth, len(section.path)) - 1:
                    depth = min(depth, len(section.path))
                    current = _Section(current.start, section.end, common, current.tokens + section.tokens)
                    continue
            if current:
                yield current
            current, can_join, depth = section, is_tiny, len(section.path)
        if current:
            yield current

    def _without_scraps(self, text: str, sections: Iterable[_Section]) -> Iterator[_Section]:
        """Join sections of a few words, such as a figure's caption, with the one before, or else with the next.

        The joined section has the headings of the longer one.
        """
        current: _Section | None = None
        for section in sections:
            if current and (self._is_scrap(text, section) or self._is_scrap(text, current)):
                longer, tokens = max(current, section, key=attrgetter("tokens")), current.tokens + section.tokens
                if tokens <= self.whole_until or longer.tokens > self.whole_until:
                    current = _Section(current.start, section.end, longer.path, tokens)
                    continue
            if current:
                yield current
            current = section
        if current:
            yield current

    @staticmethod
    def _is_scrap(text: str, section: _Section) -> bool:
        """Return whether a section with its heading has only a few characters."""
        own = text[section.start : section.end].strip()
        return len(own) < _LONGEST_SCRAP and len(plain(own).strip("# ")) < _SCRAP

    # -- passages of a long section

    def _pack(self, pieces: Iterator[_Piece]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each passage."""
        current: list[_Piece] = []
        tokens = 0
        for piece in pieces:
            is_short = 4 * tokens < self.max_tokens
            need = piece.tokens if is_short else piece.block
            limit = self.whole_until if is_short and not piece.is_prose else self.max_tokens
            if current and tokens + need > max(limit, self.max_tokens):
                yield current[0].start, current[-1].end
                # Carry the last pieces over: up to the overlap, and only if the new piece still fits.
                room = min(self.overlap, self.max_tokens - need) if piece.is_prose else -1
                kept = len(current)
                while kept > 1 and current[kept - 1].is_prose and current[kept - 1].tokens <= room:
                    kept -= 1
                    room -= current[kept].tokens
                current = current[kept:]
                tokens = sum(kept_piece.tokens for kept_piece in current)
            current.append(piece)
            tokens += piece.tokens
        if current:
            yield current[0].start, current[-1].end

    def _pieces(self, text: str, section: _Section, blocks: Sequence[Mark]) -> Iterator[_Piece]:
        """Yield the pieces of a section. Together they cover all of it."""
        if all(block.kind == "paragraph" for block in blocks):
            yield from self._sentences(text, section.start, section.end)
            return
        starts = [_block_start(text, block) for block in blocks[1:]]
        for block, (start, end) in zip(blocks, pairwise([section.start, *starts, section.end]), strict=True):
            if block.kind in {"code", "table"}:
                yield from self._lines(text, start, end)
                continue
            pieces = list(self._sentences(text, start, end))
            size = sum(piece.tokens for piece in pieces)
            if size <= self.max_tokens and pieces:
                pieces[0] = pieces[0]._replace(block=size, is_prose=block.kind != "heading")
            yield from pieces

    def _lines(self, text: str, start: int, end: int) -> Iterator[_Piece]:
        """Yield a table or code: whole, or its lines if it is too long."""
        size = self._count(text[start:end])
        if size <= max(self.whole_until, self.max_tokens):
            yield _Piece(start, end, size, size, is_prose=False)
            return
        for line in _LINE.finditer(text, start, end):
            for piece in self._words(text, *line.span()):
                yield piece._replace(is_prose=False)

    def _sentences(self, text: str, start: int, end: int) -> Iterator[_Piece]:
        """Yield sentences, or the words of a sentence that is too long."""
        bounds = [start, *(start + first for first, _ in sentences(unwrap(text[start:end]))[1:]), end]
        for first, last in pairwise(bounds):
            yield from self._words(text, first, last)

    def _words(self, text: str, start: int, end: int) -> Iterator[_Piece]:
        """Yield a text whole if it fits into a passage, else its words."""
        size = self._count(text[start:end])
        if size <= self.max_tokens:
            yield _Piece(start, end, size, size)
            return
        for word in _WORD_AND_SPACES.finditer(text, start, end):
            for a in range(word.start(), word.end(), self.max_tokens):
                b = min(a + self.max_tokens, word.end())
                size = min(self._count(text[a:b]), self.max_tokens)
                yield _Piece(a, b, size, size)


def _starting_in(marks: Sequence[_Marked], section: _Section) -> Sequence[_Marked]:
    """Return the marks or entries, which are in order, that start in a section."""
    first, last = (bisect_left(marks, at, key=attrgetter("start")) for at in (section.start, section.end))
    return marks[first:last]


def _heading_paths(
    text: str, headings: Sequence[Mark], title: str, above: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Yield the headings above a document, then for each heading its path below them, without the title."""
    known = {normalise(name) for name in (title, *above)}
    stack: list[tuple[int, str]] = []
    yield above
    for heading in headings:
        level = int(heading.value or 1)
        while stack and stack[-1][0] >= level:
            stack.pop()
        stack.append((level, heading_text(text, heading)))
        yield above + tuple(name for _, name in stack if normalise(name) not in known)


def _entries(text: str, blocks: Sequence[Mark], terms: Sequence[Mark]) -> list[_Entry]:
    """Return the entries of lists of at least three definitions, and where the text goes on after such a list."""
    found: list[tuple[_Entry, int]] = []  # with the number of their list
    sizes: Counter[int] = Counter()
    lists: list[tuple[int, int]] = []  # the open lists: indentation and number
    for entry, is_heading in _defined_blocks(text, blocks, terms) if len(terms) >= _FEWEST_ENTRIES else ():
        while lists and (is_heading or lists[-1][0] >= entry.indent + bool(entry.name)):
            found.append((entry._replace(name=""), lists.pop()[1]))
        if entry.name:
            if not lists or lists[-1][0] < entry.indent:
                lists.append((entry.indent, len(found)))
            sizes[lists[-1][1]] += 1
            found.append((entry, lists[-1][1]))
    return [entry for entry, number in found if sizes[number] >= _FEWEST_ENTRIES]


def _defined_blocks(text: str, blocks: Sequence[Mark], terms: Sequence[Mark]) -> Iterator[tuple[_Entry, bool]]:
    """Yield blocks as entries, with the term that they define or without a name, and whether each is a heading."""
    shared: _Entry | None = None  # the terms before, which share the definition that follows
    for block in blocks:
        start = _block_start(text, block)
        head = text[start : block.start + 1]
        indent = len(head) - len(head.lstrip(" "))
        name = _defined_term(text, block, terms)
        if name and block.kind == "paragraph":
            shared = _Entry(shared.start if shared else start, indent, name)
            continue
        name = name if block.kind == "definition" else ""
        if shared and not name and indent > shared.indent:  # a definition that starts with code
            indent, name = shared.indent, shared.name
        yield _Entry(shared.start if shared and name else start, indent, name), block.kind == "heading"
        shared = None


def _defined_term(text: str, block: Mark, terms: Sequence[Mark]) -> str:
    """Return the last of the terms of a definition, or of a paragraph that has nothing but terms."""
    definition = _DEFINITION.search(text, block.start, block.end) if block.kind == "definition" else None
    end = definition.start() if definition else block.end
    inside = _starting_in(terms, _Section(block.start, end, (), 0))
    if not inside or (block.kind == "paragraph" and len(inside) <= text.count("\n", block.start, end)):
        return ""
    return inside[-1].value if block.kind == "definition" or inside[-1].end + len("</dfn>") >= end else ""


def whole_document(document: Document) -> Chunk:
    """Return a document as one passage, under the headings that its metadata names and that it starts with."""
    text, metadata = document.text, document.metadata
    marks = scan(text, is_markdown(metadata))
    title = title_of(document, marks)
    path = list(headings_of(metadata, title))
    known = {normalise(name) for name in (title, *path)}
    for mark in marks:
        if mark.kind == "heading" and normalise(name := heading_text(text, mark)) not in known:
            path.append(name)
        elif mark.kind in BLOCKS and mark.kind != "heading":
            break
    page = _page_at([mark for mark in marks if mark.kind == "page"], 0, text) or page_of(metadata)
    return Chunk(document.id, document.id, text, title, 0, 0, metadata, tuple(path), page, marks)


def _line_start(text: str, at: int) -> int:
    carriage_return = text.rfind("\r", max(0, at - 1_000), at)
    return max(text.rfind("\n", max(0, carriage_return), at), carriage_return) + 1


def _heading_start(text: str, at: int) -> int:
    """Return the start of a heading's line, or of the labels and anchors in the lines before it."""
    start = _line_start(text, at)
    labels = _LABEL_LINES.search(text, max(0, start - _LONGEST_LABELS), start)
    return labels.start() if labels else start


def _block_start(text: str, block: Mark) -> int:
    """Return the start of a block's first line, or of the fence above code."""
    start = _line_start(text, block.start)
    if block.kind == "code" and start:
        above = _line_start(text, start - 1)
        if _FENCE.match(text, above, start):
            return above
    return start


def _page_at(pages: Sequence[Mark], start: int, text: str) -> int | None:
    """Return the page on which the first word after ``start`` is."""
    word = _WORD.search(text, start) if pages else None
    at = bisect_right(pages, word.start() if word else start, key=attrgetter("start"))
    return page_number(pages[at - 1].value) if at else None


def _marks_of(marks: Sequence[Mark], spans: Sequence[tuple[int, int]]) -> Iterator[tuple[Mark, ...]]:
    """Yield the marks of each passage, with offsets in it.

    Blocks, links and inline code are cut to the passage. An anchor, a term or a page is in the passage that
    has it first.
    """
    at = covered = 0
    near: list[Mark] = []
    for i, (start, end) in enumerate(spans):
        near = [mark for mark in near if mark.end > start or mark.start >= start]
        is_last = i == len(spans) - 1
        while at < len(marks) and (marks[at].start < end or is_last):
            near.append(marks[at])
            at += 1
        own = []
        for mark in near:
            if mark.kind in {"anchor", "term", "page"}:
                if mark.start >= covered:
                    own.append(Mark(mark.kind, mark.start - start, min(mark.end, end) - start, mark.value))
            elif (a := max(mark.start, start)) < (b := min(mark.end, end)):
                own.append(Mark(mark.kind, a - start, b - start, mark.value))
        yield tuple(own)
        covered = end
