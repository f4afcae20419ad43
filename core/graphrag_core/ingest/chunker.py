"""The chunker: splits documents into passages by their sections; finds titles, headings and pages."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple, TypeVar

from graphrag_core.errors import InputError
from graphrag_core.ingest.titles import heading_text, headings_of, is_markdown, page_number, page_of, title_of
from graphrag_core.model import Chunk, Document, Mark
from graphrag_core.text import Tokenizer, estimate_tokens, normalise, sentences, token_counter, unwrap
from graphrag_core.text.markup import plain, visible
from graphrag_core.text.scanner import BLOCKS, scan

_VERSION = 8  # changes when the same settings give other passages
_Marked = TypeVar("_Marked", Mark, "_Entry")
_TINY_SECTION, _FULL_ENTRY = 40, 128  # tokens: sections, and entries of a list, below are joined with the next ones
_SCRAP, _MAX_SCRAP = 80, 400  # characters of a section that is no passage of its own, without and with markup
_FEWEST_ENTRIES = 3  # of a list of definitions that is divided
_WORD_AND_SPACES = re.compile(r"\S*\s*")
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,}|:{3,})")
_LABEL_LINES = re.compile(  # of MyST, anchors and page breaks, up to the end
    r"^(?:[ \t]*(?:\([^()\s]+\)=|(?:<a id=[^<>\n]+></a>|<!-- page \d+ -->)+)[ \t]*\n(?:[ \t]*\n)*)+\Z", re.MULTILINE
)


class _Section(NamedTuple):
    """A part of a document, and the path of headings above it.

    ``depth`` is the number of headings that neighbours must have in common to be joined with it; -1 for none.
    """

    start: int
    end: int
    path: tuple[str, ...]
    tokens: int
    depth: int = -1


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
        if (self.long_only or len(headings) < 2) and self._is_whole(whole.text):
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
        tiny = _folded(self._sections(whole, headings), self._join_tiny)
        for section in _folded(tiny, lambda first, second: self._join_scrap(text, first, second)):
            inside = list(_starting_in(entries, section))
            is_long = section.tokens > self.whole_until
            divided = self._entry_sections(text, section, inside) if is_long and inside else iter([section])
            for part in _folded(divided, self._join_entries):
                yield from self._passages(text, part, blocks) if part.tokens > self.whole_until else (part,)

    def _sections(self, whole: Chunk, headings: Sequence[Mark]) -> Iterator[_Section]:
        """Yield the text before the first heading, then each heading with its text; one without text joins the next."""
        text = whole.text
        path = above = headings_of(whole.metadata, whole.title)
        known = {normalise(name) for name in (whole.title, *above)}
        stack: list[tuple[str, str]] = []  # the open headings: level and words
        current: _Section | None = None
        begin = 0
        bounds = [0, *(_heading_start(text, heading.start) for heading in headings), len(text)]
        for heading, (start, end) in zip((None, *headings), pairwise(bounds), strict=True):
            body = start
            if heading:
                stack = [(level, name) for level, name in stack if level < heading.value]
                stack.append((heading.value, heading_text(text, heading)))
                path = above + tuple(name for _, name in stack if normalise(name) not in known)
                body = text.find("\n", heading.end, end) + 1 or end
            if text[body:end].strip("=-~^ \t\r\n"):
                if current:
                    yield current
                current, begin = self._section(text, begin, end, path), end
        if begin < len(text) or current is None:
            start, path = (current.start, current.path) if current else (begin, path)
            current = self._section(text, start, len(text), path)
        yield current

    def _section(self, text: str, start: int, end: int, path: tuple[str, ...]) -> _Section:
        tokens = self._count(text[start:end])
        return _Section(start, end, path, tokens, len(path) if tokens < _TINY_SECTION else -1)

    def _join_tiny(self, first: _Section, second: _Section) -> _Section | None:
        """Join tiny sections under the same heading. The joined section has their common path of headings."""
        tokens, depth = first.tokens + second.tokens, min(first.depth, second.depth)
        pairs = zip(first.path, second.path, strict=False)
        common = tuple(name for name, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if depth < 0 or tokens > self.max_tokens or len(common) < min(first.depth, len(second.path)) - 1:
            return None
        return _Section(first.start, second.end, common, tokens, depth)

    def _join_scrap(self, text: str, first: _Section, second: _Section) -> _Section | None:
        """Join a section of a few words, such as a figure's caption, with the one before, or else with the next.

        The joined section has the headings of the longer one.
        """
        longer, tokens = max(first, second, key=attrgetter("tokens")), first.tokens + second.tokens
        if tokens > self.whole_until >= longer.tokens:
            return None
        for part in (second, first):
            own = text[part.start : part.end].strip() if part.end - part.start < 2 * _MAX_SCRAP else ""
            if own and len(own) < _MAX_SCRAP and len(plain(own).strip("# ")) < _SCRAP:
                return _Section(first.start, second.end, longer.path, tokens)
        return None

    def _join_entries(self, first: _Section, second: _Section) -> _Section | None:
        """Join short entries of one list: they share a passage, whose terms are marks."""
        depth, tokens = first.depth, first.tokens + second.tokens
        is_list = 0 <= depth == second.depth and first.path[:depth] == second.path[:depth]
        if not is_list or first.tokens >= _FULL_ENTRY or tokens > self.max_tokens:
            return None
        return _Section(first.start, second.end, first.path[:depth], tokens, depth)

    def _entry_sections(self, text: str, section: _Section, entries: list[_Entry]) -> Iterator[_Section]:
        """Yield each entry of the lists of definitions in a long section under its term, and the text between them."""
        if self._count(text[section.start : entries[0].start]) < _TINY_SECTION:
            entries[0] = entries[0]._replace(start=section.start)
        above: list[_Entry] = []
        bounds = [section.start, *(entry.start for entry in entries), section.end]
        for entry, (start, end) in zip((None, *entries), pairwise(bounds), strict=True):
            if entry:
                above = [other for other in above if other.indent < entry.indent] + [entry] * bool(entry.name)
            path = section.path + tuple(other.name for other in above)
            if start < end:
                yield _Section(start, end, path, self._count(text[start:end]), len(path) - 1 if above else -1)

    # -- passages of a long section

    def _passages(self, text: str, section: _Section, blocks: Sequence[Mark]) -> Iterator[_Section]:
        """Yield the passages of a long section. A last one of a few words joins the one before."""
        inside = _starting_in(blocks, section)
        spans = list(self._pack(self._pieces(text, section, inside)))
        if len(spans) > 1 and (section.path or any(block.kind != "paragraph" for block in inside)):
            (start, middle), (_, end) = spans[-2:]
            fits = self._count(text[start:end]) <= max(self.whole_until, self.max_tokens)
            if fits and self._count(text[middle:end]) < _TINY_SECTION:
                spans[-2:] = [(start, end)]
        return (section._replace(start=start, end=end) for start, end in spans)

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
            yield from self._cut(text, section.start, section.end)
            return
        starts = [_block_start(text, block) for block in blocks[1:]]
        for block, (start, end) in zip(blocks, pairwise([section.start, *starts, section.end]), strict=True):
            is_prose = block.kind not in {"code", "table"}
            size = self._count(text[start:end])
            if not is_prose and size <= max(self.whole_until, self.max_tokens):
                yield _Piece(start, end, size, size, is_prose=False)
                continue
            pieces = list(self._cut(text, start, end, is_prose=is_prose))
            if is_prose and pieces and (size := sum(piece.tokens for piece in pieces)) <= self.max_tokens:
                pieces[0] = pieces[0]._replace(block=size, is_prose=block.kind != "heading")
            yield from pieces

    def _cut(self, text: str, start: int, end: int, *, is_prose: bool = True) -> Iterator[_Piece]:
        """Yield the sentences of prose or the lines of code, or the words of what is too long for a passage."""
        if is_prose:
            bounds = [start, *(start + first for first, _ in sentences(unwrap(text[start:end]))[1:]), end]
        else:
            bounds = [*(match.start() for match in re.finditer(r"[^\n]+\n?|\n", text[start:end])), end - start]
            bounds = [start + bound for bound in bounds]
        for first, last in pairwise(bounds):
            size = self._count(text[first:last])
            if size <= self.max_tokens:
                yield _Piece(first, last, size, size, is_prose)
                continue
            for word in _WORD_AND_SPACES.finditer(text, first, last):
                for a in range(word.start(), word.end(), self.max_tokens):
                    b = min(a + self.max_tokens, word.end())
                    size = min(self._count(text[a:b]), self.max_tokens)
                    yield _Piece(a, b, size, size, is_prose)


def _folded(sections: Iterator[_Section], join: Callable[[_Section, _Section], _Section | None]) -> Iterator[_Section]:
    """Yield sections, of which neighbours are joined where ``join`` returns both as one."""
    current = next(sections)
    for section in sections:
        if both := join(current, section):
            current = both
        else:
            yield current
            current = section
    yield current


def _starting_in(marks: Sequence[_Marked], section: _Section) -> Sequence[_Marked]:
    """Return the marks or entries, which are in order, that start in a section."""
    first, last = (bisect_left(marks, at, key=attrgetter("start")) for at in (section.start, section.end))
    return marks[first:last]


def _entries(text: str, blocks: Sequence[Mark], terms: Sequence[Mark]) -> list[_Entry]:
    """Return the entries of lists of at least three definitions, and where the text goes on after such a list."""
    found: list[tuple[_Entry, int]] = []  # with the number of their list
    sizes: Counter[int] = Counter()
    lists: list[tuple[int, int]] = []  # the open lists: indentation and number
    for block in blocks if len(terms) >= _FEWEST_ENTRIES else ():
        start = _block_start(text, block)
        head = text[start : block.start + 1]
        indent = len(head) - len(head.lstrip(" "))
        inside = _starting_in(terms, _Section(block.start, block.end, (), 0)) if block.kind == "definition" else ()
        while lists and (block.kind == "heading" or lists[-1][0] >= indent + bool(inside)):
            found.append((_Entry(start, indent, ""), lists.pop()[1]))
        if inside:
            if not lists or lists[-1][0] < indent:
                lists.append((indent, len(found)))
            sizes[lists[-1][1]] += 1
            found.append((_Entry(start, indent, inside[-1].value), lists[-1][1]))
    return [entry for entry, number in found if sizes[number] >= _FEWEST_ENTRIES]


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
    labels = _LABEL_LINES.search(text, max(0, start - 400), start)
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
    word = re.compile(r"\S").search(text, start) if pages else None
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
