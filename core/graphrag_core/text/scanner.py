"""The one scanner of structure: blocks, links, terms, anchors and pages of Markdown and plain text.

markdown-it-py finds the blocks. Text without any markup does not need it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from graphrag_core.model import Mark, MarkKind
from graphrag_core.text.markup import (
    CODE_DIRECTIVES,
    INLINE,
    SKIPPED_DIRECTIVES,
    has_markup,
    plain,
    role_target,
    visible,
)
from graphrag_core.text.words import WORD

if TYPE_CHECKING:  # markdown-it has 60 modules: they are imported with the first text that has markup
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BLOCKS = frozenset({"heading", "paragraph", "item", "definition", "table", "code"})
"""The kinds of marks that are blocks."""

_LONGEST_HEADING = 120
_LONGEST_TERM = 60
_LONGEST_LINK = 2_000  # characters between <a href=...> and its end

_INDENTED = re.compile(r"\n(?: {4}|\t)")
_FENCE_LINE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?![ \t\r]*(?:\n|\Z))[^\n]*)*")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?:[^\r\n]*\r?\n){0,200}?---[ \t]*(?:\r?\n|\Z)")
_SETEXT_TEXT = re.compile(r"(?!.*[.,;|]$)(?!.* {2,}|.*\||.*\t)\S.*")
_COMMENTS = re.compile(r"^(#{1,6})[ \t][^\r\n]*(?:\r?\n\1(?:[ \t][^\r\n]*)?(?=[\r\n]|\Z)){2,}", re.MULTILINE)
_TABLE_LINE = re.compile(r"[ \t]*[|+]")
_DEFINITION = re.compile(r"[ \t]*:[ \t]+(?=\S)")
_OPTION = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(?=$|[\s=,<\[])")
_CALL = re.compile(r"([A-Za-z_][\w.:]*)\s*\(.*\)")
_LABEL_LINE = re.compile(r"[ \t]*\(([^()\s]+)\)=[ \t]*$")
_HEADING_ID = re.compile(r"(?:(?<![ \t])[ \t]+)?\{#([^\s{}]+)(?![^\s{}])[^{}]*\}[ \t]*$")
_HTML_ANCHOR = re.compile(r"<a\s[^<>]*?\b(id|name|href)\s*=\s*[\"']?([^\"'\s<>]+)", re.IGNORECASE)
_PAGE_BREAK = re.compile(r"<!-- page (\d{1,9}) -->")
_LEADING_ANCHORS = re.compile(r"(?:<a id=\"[^\"<>\n]*\"></a>[ \t]*|<!-- page \d{1,9} -->\s*)+")
_CODE_SPAN = re.compile(r"`([^`]+)`")
_IDENTIFIER = re.compile(
    r"-{0,2}[^\W\d_][\w.:/-]*[_.:/-][\w.:/-]*\w(?:\(\))?|_+[^\W_]\w*|\w+\(\)|-{1,2}\w+"
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*"
)
_NOT_SLUG = re.compile(r"[^\w\- ]")
_LINK_ROLES = frozenset({"ref", "doc", "numref", "any", "download", "std:ref", "std:doc"})
# A short phrase at the start of a paragraph or item that the rest explains: "**Term**: ...", "`name` - ...".
_LEADING_TERM = re.compile(
    r"(?:\*\*(?P<bold>[^*\r\n]{1,60}?)\*\*|\*(?P<emphasis>[^*\r\n]{1,60}?)\*"
    r"|__(?P<underlined>[^_\r\n]{1,60}?)__|`(?P<code>[^`\r\n]{1,60}?)`)"
    r"(?:(?<=:\*\*)|(?<=:__)|[ \t]*(?::|[-–—]{1,2}(?=\s)|：))"
)
_BARE_URL = re.compile(r"(?<![\w/<(\[\"'`])https?://[^\s<>()\[\]\"'`|]*[^\s<>()\[\]\"'`|.,;:!?*]")
_DIRECTIVE = re.compile(r"[ \t>]*(?P<fence>:{3,}|`{3,}|~{3,})[ \t]*(?:\{(?P<name>[^{}\s]+)\})?(?P<rest>.*)")
_OPTION_LINE = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?$")


def scan(text: str, markdown: bool | None = None) -> tuple[Mark, ...]:
    r"""Return the blocks, links, inline code, terms, anchors and pages of a text, by their start.

    Parameters
    ----------
    text
        Markdown, or plain text.
    markdown
        Whether the text is known to be Markdown. Only then is indented text code; None takes it for
        code if the text has fenced code.

    Notes
    -----
    Blocks do not overlap. Their spans are the words of the block: a heading without hashes and underline,
    an item without its bullet, code without its fences. A definition starts with its term. A nested
    item is a separate block. Headings inside lists and quotes are paragraphs. A block starts behind its anchors.
    ``<!-- page 3 -->`` starts a page, ``<a id="x"></a>`` is an anchor.

    >>> text = "# Auth\n\nSee [tokens](tokens.md)."
    >>> [(mark.kind, text[mark.start : mark.end], mark.value) for mark in scan(text)]
    [('heading', 'Auth', '1'), ('anchor', '', 'auth'), ('paragraph', 'See [tokens](tokens.md).', ''),
     ('link', 'tokens', 'tokens.md')]
    """
    if has_markup(text) or (markdown and _INDENTED.search(text)):
        marks = _Scanner(text, _FENCE_LINE.search(text) is not None if markdown is None else markdown).marks()
    else:
        spans = ((match.start(), match.start() + len(match.group().rstrip())) for match in _PARAGRAPH.finditer(text))
        marks = [Mark("paragraph", start, end) for start, end in spans] + _bare_urls(text, [])
    # stable: a block stays before what it starts with
    return tuple(sorted(dict.fromkeys(marks), key=attrgetter("start")))


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading.

    >>> slug("What's new in 5.0?")
    'whats-new-in-50'
    """
    return _NOT_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


# -- blocks


@cache
def _parser(indented_code: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - see above

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable(["inline", "text_join"])
    if not indented_code:
        parser.block.ruler.disable("code")
    return parser


def _without_directives(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines with spaces for those that open and close directives of MyST, and for tables of contents.

    The content of other directives is Markdown, and that of code is code.
    """
    opened: list[str] = []
    until, in_options = "", False  # the fence that ends what is not Markdown
    is_skipped = False
    for line in lines:
        match = _DIRECTIVE.match(line)
        fence, name, rest = (match["fence"], match["name"], match["rest"].strip()) if match else ("", None, "")
        kind = (name or "").rpartition(":")[2].lower()
        in_options = in_options and _OPTION_LINE.match(line.rstrip("\r\n")) is not None
        hides, is_fence = in_options, False
        is_end = bool(fence) and not (name or rest)
        if until:
            hides, is_fence = is_skipped, is_end and fence.startswith(until)
            until = "" if is_fence else until
        elif kind in SKIPPED_DIRECTIVES or kind in CODE_DIRECTIVES:
            until, is_fence = fence, True
            hides = is_skipped = kind in SKIPPED_DIRECTIVES
        elif name or (fence[:1] == ":" and rest.isidentifier()):
            opened.append(fence)
            hides = in_options = True
        elif is_end and opened and fence.startswith(opened[-1]):
            opened.pop()
            hides = True
        elif fence and fence[0] != ":":
            until, is_skipped = fence, False
        hides |= is_end and fence[0] == ":" and not (is_fence or until)
        yield re.sub(r"[^\r\n]", " ", line) if hides else line.replace(":", "`", len(fence)) if is_fence else line


class _Scanner:
    """Finds the marks of a text with markup, from the tokens of its lines."""

    def __init__(self, text: str, markdown: bool) -> None:
        self.text, self.markdown = text, markdown
        rows = _LINE.findall(text)
        self.starts = [0, *accumulate(map(len, rows))]  # of lines; the last entry is the end of the text
        env: dict[str, Any] = {}
        has_directives = ":::" in text or "```{" in text or "~~~{" in text
        self.tokens = _parser(markdown).parse("".join(_without_directives(rows)) if has_directives else text, env)
        self.references: Mapping[str, Any] = env.get("references", {})
        self.blocks: list[Mark] = []
        self.comments_end = 0

    def start(self, line: int) -> int:
        return self.starts[min(line, len(self.starts) - 1)]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the start and end of lines ``first`` to ``last - 1``, without white space around them."""
        lines = self.text[self.start(first) : self.start(last)]
        start = self.start(first) + len(lines) - len(lines.lstrip())
        return start, max(start, self.start(first) + len(lines.rstrip()))

    def marks(self) -> list[Mark]:
        text = self.text
        front = _FRONT_MATTER.match(text)
        begin = front.end() if front else 0
        is_item = False  # the next paragraph is the text of a list item
        for token, following in zip_longest(self.tokens, self.tokens[1:]):
            if token.map is not None and self.start(token.map[0]) >= begin:
                first, last = token.map
                content = following.content if following is not None else ""
                if token.type == "heading_open" and self.is_heading(token, content):
                    self.heading(first, last, content, token.tag[1])
                elif token.type in {"heading_open", "paragraph_open"}:
                    self.prose(first, last, content, "item" if is_item else "paragraph")
                elif token.type in {"fence", "code_block", "html_block", "table_open"}:
                    self.other(first, last, token)
            is_item = token.type == "list_item_open" or (is_item and token.type == "inline")
        marks = [*self.blocks, *_inside(text, self.blocks, self.references)]
        code = [(mark.start, mark.end) for mark in self.blocks if mark.kind == "code"]
        marks += _outside(code, (Mark("page", *page.span(), page[1]) for page in _PAGE_BREAK.finditer(text)))
        taken = [(mark.start, mark.end) for mark in marks if mark.kind in {"code", "link", "literal"}]
        return marks + _bare_urls(text, taken + [self.span(*one["map"]) for one in self.references.values()])

    def add(self, kind: MarkKind, start: int, end: int, value: str = "") -> None:
        if start < end:
            self.blocks.append(Mark(kind, start, end, value))

    def other(self, first: int, last: int, token: Token) -> None:
        """Add code, a table, or the text in HTML."""
        text, (start, end) = self.text, self.span(first, last)
        if token.type == "table_open":
            self.add("table", start, end)
        elif token.type == "fence":
            closing = text[self.start(last - 1) : self.start(last)].strip().lstrip("> ")
            last -= last > first + 1 and closing.startswith(token.markup)
            self.add("code", self.start(first + 1), max(self.start(first + 1), self.span(first + 1, last)[1]))
        elif token.type == "code_block":
            is_defined = bool(self.blocks) and self.blocks[-1].kind in {"definition", "term"}  # it goes on
            self.add("paragraph" if is_defined else "code", start if is_defined else self.start(first), end)
        elif text.startswith("<pre", start):
            self.add("code", start, end)
        elif not text.startswith(("<!", "<script", "<style"), start) and plain(text[start:end]).strip():
            self.add("paragraph", start, end)

    def is_heading(self, token: Token, content: str) -> bool:
        """Return whether a heading of CommonMark is one: not nested, not indented, not a comment or a sentence."""
        first, _ = token.map or (0, 0)
        start = self.start(first)
        if start >= self.comments_end and (comments := _COMMENTS.match(self.text, start)):
            self.comments_end = comments.end()
        if token.level or len(content) > 2 * _LONGEST_HEADING or start < self.comments_end or not WORD.search(content):
            return False
        row = self.text[start : self.start(first + 1)]
        if token.markup.startswith("#"):
            return row[:1] == "#" or (self.markdown and row.lstrip(" ")[:1] == "#")
        rule = self.text[self.start(first + 1) : self.start(first + 2)].strip()
        is_short = "\n" not in content and len(content) <= _LONGEST_HEADING
        return is_short and len(rule) >= 3 and _SETEXT_TEXT.fullmatch(content) is not None

    def heading(self, first: int, last: int, content: str, level: str) -> None:
        start = self.text.find(content, self.start(first), self.start(last))
        start, end = (start, start + len(content)) if start >= 0 else self.span(first, last)
        named = _HEADING_ID.search(self.text, start, end)
        self.add("heading", self.behind_anchors(start, end), named.start() if named else end, level)
        if named:
            self.blocks.append(Mark("anchor", start, start, named[1]))

    def behind_anchors(self, start: int, end: int) -> int:
        """Return where a block starts behind its anchors and page breaks; add the anchors."""
        leading = _LEADING_ANCHORS.match(self.text, start, end)
        if leading:
            found = _HTML_ANCHOR.finditer(self.text, *leading.span())
            self.blocks += (Mark("anchor", anchor.start(), anchor.start(), anchor[2]) for anchor in found)
        return leading.end() if leading else start

    def prose(self, first: int, last: int, content: str, kind: MarkKind) -> None:
        """Add the blocks that CommonMark takes for a paragraph: also tables, definitions and labels."""
        text = self.text
        rows = [text[self.start(line) : self.start(line + 1)] for line in range(first, last)]
        while rows and (named := _LABEL_LINE.match(rows[0].rstrip())):
            self.blocks.append(Mark("anchor", self.start(first), self.start(first), named[1]))
            first, content = first + 1, ""
            del rows[0]
        start, end = self.span(first, last)
        if content:  # skip the bullet, the number or the mark of a quotation
            start = max(start, text.find(content.split("\n", 1)[0], self.start(first), end))
        definition = next((at for at, row in enumerate(rows) if _DEFINITION.match(row)), None)
        if len(rows) > 1 and all(map(_TABLE_LINE.match, rows)):
            self.add("table", start, end)
        elif definition is None or not self.definition(start, end, first, definition):
            start = self.behind_anchors(start, end)
            if text[start:end].strip("# \t\r\n"):
                self.add(kind, start, end)

    def definition(self, start: int, end: int, first: int, at: int) -> bool:
        """Add a definition ``at`` lines below the first, with the terms above it; say whether these are terms."""
        text = self.text
        if at == 0:  # another definition of the term before
            self.add("definition", start, end)
            return True
        spans = [self.span(line, line + 1) for line in range(first, first + at)]
        spans[0] = max(start, spans[0][0]), spans[0][1]
        if not all(_is_term_line(text[a:b]) for a, b in spans):
            return False
        terms: list[Mark] = []
        begins = []
        for a, b in spans:
            begins.append(self.behind_anchors(a, b))
            terms += _terms(text, begins[-1], b)
        self.add("definition", begins[0], end)
        self.blocks += terms
        return True


def _is_term_line(line: str) -> bool:
    """Return whether a line is short, and no sentence."""
    words = visible(line).strip()
    return "\n" not in words and 0 < len(words) < 2 * _LONGEST_TERM and words[-1] not in ".,;:!?"


def _terms(text: str, start: int, end: int) -> Iterator[Mark]:
    """Yield the terms in a line before a definition: several if each is inline code.

    A term is called as its anchor, if that ends in a word of it: "celery.Task.retry" for "retry(max)". Else the values
    of an option and the arguments of a function are left out.
    """
    line = text[start:end]
    spans = [code.span(1) for code in _CODE_SPAN.finditer(line)]
    if len(spans) > 1 and not _CODE_SPAN.sub("", line).strip(" ,/|\t"):
        for a, b in spans:
            yield Mark("term", start + a, start + b, line[a:b].strip())
    elif name := _words(line)[: 2 * _LONGEST_TERM]:
        anchors = _HTML_ANCHOR.finditer(text, text.rfind("\n", 0, start) + 1, start)
        dotted = (one[2] for one in anchors if "." in one[2] and one[2].rpartition(".")[2].lower() in name.lower())
        defined = _OPTION.match(name) or _CALL.fullmatch(name)
        yield Mark("term", start, end, next(dotted, "") or (defined[1] if defined else name))


def _words(text: str) -> str:
    return " ".join(plain(text).split())


# -- inside blocks


def _inside(text: str, blocks: Iterable[Mark], references: Mapping[str, Any]) -> Iterator[Mark]:
    """Yield the links, code and terms inside of blocks, and the anchors of headings."""
    slugs: Counter[str] = Counter()
    for block in blocks:
        if block.kind not in BLOCKS or block.kind == "code":
            continue
        if block.kind == "heading":
            name = _words(text[block.start : block.end])
            anchor = slug(name)
            if anchor:
                yield Mark("anchor", block.start, block.start, anchor + (f"-{slugs[anchor]}" if slugs[anchor] else ""))
                slugs[anchor] += 1
            is_short = len(name) <= _LONGEST_TERM and "://" not in name
            if is_short and (_CODE_SPAN.fullmatch(text, block.start, block.end) or _IDENTIFIER.fullmatch(name)):
                yield Mark("term", block.start, block.end, name)
        elif block.kind in {"paragraph", "item"} and (term := _LEADING_TERM.match(text, block.start, block.end)):
            group = term.lastgroup or ""
            if name := _words(term[group]).strip(" :"):
                yield Mark("term", *term.span(group), name)
        yield from _inline(text, block.start, block.end, references)


def _inline(text: str, start: int, end: int, references: Mapping[str, Any]) -> Iterator[Mark]:
    """Yield links and inline code."""
    for match in INLINE.finditer(text, start, end):
        if match["code"] is not None:
            yield Mark("literal", *match.span("code"))
        elif content := match["of_role"]:
            yield _role(match["role"], content, match.start("of_role"))
        elif match["label"] is not None:
            a, b = match.span("label")
            if target := _target(match, references):
                yield Mark("link", *((a, b) if b > a else match.span()), target)
            yield from (mark for mark in _inline(text, a, b, {}) if mark.kind == "literal")
        elif match["tag"]:
            yield from _html_tag(text, match, end)
        elif target := match["url"] or match["page"]:
            group = next(group for group in ("url", "page_label", "page") if match[group])
            yield Mark("link", *match.span(group), target.strip())


def _html_tag(text: str, tag: re.Match[str], end: int) -> Iterator[Mark]:
    """Yield the link or the anchor of an HTML tag."""
    if anchor := _HTML_ANCHOR.match(text, *tag.span()):
        closing = text.find("</", tag.end(), min(end, tag.end() + _LONGEST_LINK))
        if anchor[1].lower() != "href":
            yield Mark("anchor", tag.start(), tag.start(), anchor[2])
        elif closing >= 0:
            yield Mark("link", tag.end(), closing, anchor[2])


def _role(name: str, content: str, start: int) -> Mark:
    words, target = role_target(content)
    if name in _LINK_ROLES:
        return Mark("link", start, start + len(words), target.strip())
    return Mark("literal", start + words.startswith(("~", "!")), start + len(words))


def _target(match: re.Match[str], references: Mapping[str, Any]) -> str:
    """Return where a link leads; empty for brackets that are not a link."""
    if match["target"] is not None or not references:
        return (match["target"] or "").strip("<>")
    from markdown_it.common.utils import normalizeReference  # noqa: PLC0415 - see above

    known = references.get(normalizeReference(match["ref"] or match["label"]))
    return str(known["href"]) if known else ""


def _bare_urls(text: str, taken: list[tuple[int, int]]) -> list[Mark]:
    """Return the URLs that are written without markup, outside of what is taken."""
    if "://" not in text:
        return []
    return _outside(taken, (Mark("link", *url.span(), url.group()) for url in _BARE_URL.finditer(text)))


def _outside(taken: list[tuple[int, int]], marks: Iterable[Mark]) -> list[Mark]:
    """Return the marks that overlap none of some spans."""
    taken.sort()
    at, found = 0, []
    for mark in marks:
        while at < len(taken) and taken[at][1] <= mark.start:
            at += 1
        if at == len(taken) or taken[at][0] >= mark.end:
            found.append(mark)
    return found
