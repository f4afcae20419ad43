"""The one scanner of structure: blocks, links, terms, anchors and pages of Markdown and plain text.

markdown-it-py finds the blocks, with a rule of ours for MyST directives. Text without any markup does not need it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

BLOCKS = frozenset({"heading", "paragraph", "item", "definition", "table", "code"})
"""The kinds of marks that are blocks."""

# -- structure

_LONGEST_HEADING = 120
_LONGEST_TERM = 60
_LONGEST_LINK = 2_000  # characters between <a href=...> and its end

_INDENTED = re.compile(r"\n(?: {4}|\t)")
_FENCE_LINE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_NEWLINE = re.compile(r"\r\n?|\n")
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?:[^\r\n]*\r?\n){0,200}?---[ \t]*(?:\r?\n|\Z)")
_SETEXT_TEXT = re.compile(r"(?!.*[.,;|]$)(?!.* {2,}|.*\||.*\t)\S.*")
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
_MANUAL_HEADING = re.compile(r"(?:\A|(?<=\n))([A-Z][A-Z0-9 ,/&'()-]{2,60})[ \t\r]*\n\s{0,4}?(?=[ \t]{3}|\t)")
_NOT_SLUG = re.compile(r"[^\w\- ]")
_LINK_ROLES = frozenset({"ref", "doc", "numref", "any", "download", "std:ref", "std:doc"})
# A short phrase at the start of a paragraph or item that the rest explains: "**Term**: ...", "`name` - ...".
_LEADING_TERM = re.compile(
    r"(?:\*\*(?P<bold>[^*\r\n]{1,60}?)\*\*|\*(?P<emphasis>[^*\r\n]{1,60}?)\*"
    r"|__(?P<underlined>[^_\r\n]{1,60}?)__|`(?P<code>[^`\r\n]{1,60}?)`)"
    r"(?:(?<=:\*\*)|(?<=:__)|[ \t]*(?::|[-–—]{1,2}(?=\s)|：))"
)
_BARE_URL = re.compile(r"(?<![\w/<(\[\"'`])https?://[^\s<>()\[\]\"'`|]*[^\s<>()\[\]\"'`|.,;:!?*]")
_DIRECTIVE = re.compile(
    r"(?P<fence>:{3,}|`{3,}|~{3,})[ \t]*(?![ \t])(?:\{(?P<name>[^{}\s]+)\}.*|(?P<word>[\w-]*)[ \t]*$)"
)
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
    ``<!-- page 3 -->`` starts a page, ``<a id="x"></a>`` is an anchor, ``<dfn>`` has a term.

    >>> text = "# Auth\n\nSee [tokens](tokens.md)."
    >>> [(mark.kind, text[mark.start : mark.end], mark.value) for mark in scan(text)]
    [('heading', 'Auth', '1'), ('anchor', '', 'auth'), ('paragraph', 'See [tokens](tokens.md).', ''),
     ('link', 'tokens', 'tokens.md')]
    """
    if has_markup(text) or (markdown and _INDENTED.search(text)):
        markdown = _FENCE_LINE.search(text) is not None if markdown is None else markdown
        found = _marks_of_markdown(text, markdown)
    else:
        markdown = False
        found = [Mark("paragraph", start, end) for start, end in _paragraphs(text)]
        found += _bare_urls(text, []) if "://" in text else []
    if not markdown and ("\n   " in text or "\n\t" in text):
        found = _with_manual_headings(text, found)
    return tuple(
        sorted(dict.fromkeys(found), key=attrgetter("start"))
    )  # stable: a block stays before what it starts with


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading.

    >>> slug("What's new in 5.0?")
    'whats-new-in-50'
    """
    return _NOT_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


# -- blocks


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of what blank lines separate."""
    start = len(text) - len(text.lstrip())
    for gap in _BLANK_LINES.finditer(text, start) if "\n" in text else ():
        end = start + len(text[start : gap.start()].rstrip())
        if start < end:
            yield start, end
        start = gap.end()
    end = len(text.rstrip())
    if start < end:
        yield start, end


@cache
def _parser(indented_code: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - see above

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable(["inline", "text_join"])
    interrupts = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "directive", _directive, {"alt": interrupts})
    if not indented_code:
        parser.block.ruler.disable("code")
    return parser


def _directive(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parse a line that opens or closes a MyST directive: a rule for markdown-it's block parser.

    Code and tables of contents are consumed whole. Of other directives only the lines that open and
    close them are, so that their content is parsed as Markdown.
    """
    start = state.bMarks[first] + state.tShift[first]
    if state.src[start : start + 1] not in {":", "`", "~"} or state.is_code_block(first):
        return False
    match = _DIRECTIVE.match(state.src, start, state.eMarks[first])
    if not match:
        return False
    fence, name = match["fence"], match["name"]
    opened: list[str] = state.env.setdefault("directives", [])
    closes = not (name or match["word"]) and bool(opened) and fence.startswith(opened[-1])
    if not name and not closes and fence[0] != ":":
        return False  # fenced code
    if silent:
        return True
    if name:
        _open_directive(state, first, last, fence, name.rsplit(":", 1)[-1].lower())
        return True
    if closes:
        opened.pop()
    state.line = first + 1
    return True


def _open_directive(state: StateBlock, first: int, last: int, fence: str, name: str) -> None:
    line = first + 1
    if name not in CODE_DIRECTIVES and name not in SKIPPED_DIRECTIVES:
        while line < last and _OPTION_LINE.match(_line_of(state, line)):
            line += 1
        state.env["directives"].append(fence)
        state.line = line
        return
    while line < last:
        closing = _line_of(state, line).strip()
        line += 1
        if closing.startswith(fence) and not closing.strip(fence[0]):
            break
    state.line = line
    if name in CODE_DIRECTIVES:
        token = state.push("fence", "code", 0)
        token.markup, token.map = fence, [first, line]


def _line_of(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] : state.eMarks[line]]


class _Lines(NamedTuple):
    """A text and where its lines start; the last entry is the end of the text."""

    text: str
    starts: Sequence[int]

    def start(self, line: int) -> int:
        return self.starts[min(line, len(self.starts) - 1)]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the start and end of lines ``first`` to ``last - 1``, without white space around them."""
        start, end = self.code(first, last)
        return end - len(self.text[start:end].lstrip()), end

    def code(self, first: int, last: int) -> tuple[int, int]:
        """Return the start and end of lines; the first keeps its indentation."""
        start = self.start(first)
        return start, start + len(self.text[start : self.start(last)].rstrip())


def _marks_of_markdown(text: str, markdown: bool) -> list[Mark]:
    env: dict[str, Any] = {}
    tokens = _parser(markdown).parse(text, env)
    lines = _Lines(text, [0, *(newline.end() for newline in _NEWLINE.finditer(text)), len(text)])
    references = env.get("references", {})
    blocks = _without_comment_lines(text, _blocks(tokens, lines, markdown), 3 if markdown else 2)
    marks = _with_inline(text, blocks, references)
    if "<!-- page " in text:
        code = [(mark.start, mark.end) for mark in blocks if mark.kind == "code"]
        marks += _outside(code, (Mark("page", *page.span(), page[1]) for page in _PAGE_BREAK.finditer(text)))
    if "://" in text:
        hidden = [lines.span(*reference["map"]) for reference in references.values()]
        marks += _bare_urls(text, [(m.start, m.end) for m in marks if m.kind in {"code", "link", "literal"}] + hidden)
    return marks


def _blocks(tokens: Sequence[Token], lines: _Lines, markdown: bool) -> list[Mark]:
    """Return the blocks, with the anchors and terms that belong to their syntax."""
    front = _FRONT_MATTER.match(lines.text)
    begin = front.end() if front else 0
    marks: list[Mark] = []
    is_item = False  # the next paragraph is the text of a list item
    for token, following in zip_longest(tokens, tokens[1:]):
        span = token.map
        if span is None or lines.start(span[0]) < begin:
            continue
        content = following.content if following is not None else ""
        if token.type == "heading_open" and _is_heading(token, content, lines, markdown):
            marks += _heading(lines, span, content, token.tag[1])
        elif token.type in {"heading_open", "paragraph_open"}:
            _add_prose(marks, lines, span, content, "item" if is_item else "paragraph")
        elif token.type in {"fence", "code_block", "html_block", "table_open"}:
            _add_other(marks, lines, span, token)
        is_item = token.type == "list_item_open" or (is_item and token.type == "inline")
    return marks


def _add_other(marks: list[Mark], lines: _Lines, span: Sequence[int], token: Token) -> None:
    """Add code, a table, or the text in HTML."""
    kind: MarkKind = "table" if token.type == "table_open" else "code"
    start, end = lines.span(*span)
    if token.type == "fence":
        first, last = span[0] + 1, span[1]
        closing = lines.text[lines.start(last - 1) : lines.start(last)].strip().lstrip("> ") if last > first else ""
        start, end = lines.code(first, last - (closing.startswith(token.markup) and last > first))
    elif token.type == "code_block":
        start, end = lines.code(*span)
        if marks and marks[-1].kind in {"definition", "term"}:  # the definition goes on
            kind, (start, end) = "paragraph", lines.span(*span)
    elif token.type == "html_block" and not lines.text.startswith("<pre", start):
        is_hidden = lines.text.startswith(("<!", "<script", "<style"), start)
        kind, end = "paragraph", start if is_hidden or not plain(lines.text[start:end]).strip() else end
    if start < end:
        marks.append(Mark(kind, start, end))


def _is_heading(token: Token, content: str, lines: _Lines, markdown: bool) -> bool:
    """Return whether a heading of CommonMark is one: not nested, not indented, not a sentence above a line."""
    line = token.map[0] if token.map else 0
    if token.level or len(content) > 2 * _LONGEST_HEADING or not WORD.search(content):
        return False
    if token.markup.startswith("#"):
        indent = lines.text[lines.start(line) : lines.start(line) + (4 if markdown else 1)]
        return bool(indent.strip(" ")) and "\t" not in indent[: len(indent) - len(indent.lstrip())]
    rule = lines.text[lines.start(line + 1) : lines.start(line + 2)].strip()
    is_short = "\n" not in content and len(content) <= _LONGEST_HEADING
    return is_short and len(rule) >= 3 and _SETEXT_TEXT.fullmatch(content) is not None


def _heading(lines: _Lines, span: Sequence[int], content: str, level: str) -> Iterator[Mark]:
    start = lines.text.find(content, lines.start(span[0]), lines.start(span[1]))
    start, end = (start, start + len(content)) if start >= 0 else lines.span(*span)
    named = _HEADING_ID.search(lines.text, start, end)
    begin = _behind_anchors(lines.text, start, end)
    yield from _html_anchors(lines.text, start, begin)
    yield Mark("heading", begin, named.start() if named else end, level)
    if named:
        yield Mark("anchor", start, start, named[1])


def _add_prose(marks: list[Mark], lines: _Lines, span: Sequence[int], content: str, kind: MarkKind) -> None:
    """Add the blocks that CommonMark takes for a paragraph: also tables, definitions and labels."""
    text, (first, last) = lines.text, span
    while first < last and (named := _LABEL_LINE.match(text[lines.starts[first] : lines.starts[first + 1]].rstrip())):
        marks.append(Mark("anchor", lines.starts[first], lines.starts[first], named[1]))
        first += 1
        content = ""
    start, end = lines.span(first, last)
    if content:  # skip the bullet, the number or the mark of a quotation
        words = text.find(content.split("\n", 1)[0], lines.starts[first], end)
        start = words if words >= 0 else start
    begin = _behind_anchors(text, start, end)
    marks += _html_anchors(text, start, begin)
    start = begin
    if not text[start:end].strip("# \t\r\n"):
        return
    rows = [text[lines.starts[line] : lines.starts[line + 1]] for line in range(first, last)]
    definition = next((first + i for i, row in enumerate(rows) if _DEFINITION.match(row)), None)
    if len(rows) > 1 and all(map(_TABLE_LINE.match, rows)):
        marks.append(Mark("table", start, end))
    elif definition is None:
        marks.append(Mark(kind, start, end))
    else:
        _add_definition(marks, lines, Mark(kind, start, end), (first, definition))


def _behind_anchors(text: str, start: int, end: int) -> int:
    """Return where a block starts behind its anchors and page breaks."""
    leading = _LEADING_ANCHORS.match(text, start, end)
    return leading.end() if leading else start


def _html_anchors(text: str, start: int, end: int) -> Iterator[Mark]:
    for anchor in _HTML_ANCHOR.finditer(text, start, end):
        yield Mark("anchor", anchor.start(), anchor.start(), anchor[2])


def _add_definition(marks: list[Mark], lines: _Lines, block: Mark, span: tuple[int, int]) -> None:
    """Add a block with its term, if that is a short line; ``span``: its first line and the line of the definition."""
    text, (first, definition) = lines.text, span
    if definition == first:
        term = marks[-1] if marks and marks[-1].kind == "paragraph" else None  # a blank line follows the term
        if term and _is_term_line(text[term.start : term.end]):
            marks[-1:] = Mark("definition", term.start, block.end), *_terms(text, term.start, term.end)
        else:  # another definition of the term before
            marks.append(Mark("definition", block.start, block.end))
        return
    rows = [max(block.start, lines.span(line, line + 1)[0]) for line in range(first, definition)]
    ends = [lines.span(line, line + 1)[1] for line in range(first, definition)]
    are_terms = [_is_term_line(text[start:end]) for start, end in zip(rows, ends, strict=True)]
    if not are_terms[-1]:
        marks.append(block)
        return
    if not all(are_terms):  # prose ends above the term
        marks.append(Mark(block.kind, block.start, ends[-2]))
        rows, ends = rows[-1:], ends[-1:]
    begins = [_behind_anchors(text, start, end) for start, end in zip(rows, ends, strict=True)]
    marks.append(Mark("definition", begins[0], block.end))
    for start, begin, end in zip(rows, begins, ends, strict=True):
        marks += _html_anchors(text, start, begin)
        marks += _terms(text, begin, end)


def _is_term_line(line: str) -> bool:
    """Return whether a line is short, and no sentence."""
    words = visible(line).strip()
    return "\n" not in words and 0 < len(words) < 2 * _LONGEST_TERM and words[-1] not in ".,;:!?"


def defined_name(term: str) -> str:
    """Return the name in what a definition defines: an option without its values, a function without its arguments.

    >>> defined_name("abs(X)"), defined_name("--log-level=<level> [default: info]"), defined_name("visibility timeout")
    ('abs', '--log-level', 'visibility timeout')
    """
    match = _OPTION.match(term) or _CALL.fullmatch(term)
    return match[1] if match else term


def _terms(text: str, start: int, end: int) -> Iterator[Mark]:
    """Yield the terms in a line before a definition: several if each is inline code.

    A term is called as its anchor, if that ends in a word of it: "celery.Task.retry" for "retry(max)".
    """
    line = text[start:end]
    spans = [code.span(1) for code in _CODE_SPAN.finditer(line)]
    if len(spans) > 1 and not _CODE_SPAN.sub("", line).strip(" ,/|\t"):
        for a, b in spans:
            yield Mark("term", start + a, start + b, line[a:b].strip())
    elif name := _words(line)[: 2 * _LONGEST_TERM]:
        above = text[text.rfind("\n", 0, start) + 1 : start]
        names = [anchor[2] for anchor in _HTML_ANCHOR.finditer(above)]
        known = (one for one in names if "." in one and one.rpartition(".")[2].lower() in name.lower())
        yield Mark("term", start, end, next(known, "") or defined_name(name))


def _words(text: str) -> str:
    return " ".join(plain(text).split())


def _without_comment_lines(text: str, marks: Sequence[Mark], fewest: int) -> list[Mark]:
    """Turn ``fewest`` and more headings of one level on adjacent lines into paragraphs: comments, or a list."""
    kept = list(marks)
    runs: list[list[int]] = []  # headings on adjacent lines; an empty run stands for any other block
    for at, mark in enumerate(marks):
        if mark.kind == "heading" and runs and runs[-1] and _is_next_line(text, marks[runs[-1][-1]], mark):
            runs[-1].append(at)
        elif mark.kind in BLOCKS:
            runs.append([at] if mark.kind == "heading" else [])
    for at in chain.from_iterable(run for run in runs if len(run) >= fewest):
        kept[at] = Mark("paragraph", marks[at].start, marks[at].end)
    return kept


def _is_next_line(text: str, last: Mark, heading: Mark) -> bool:
    """Return whether only a line break and hashes are between two headings of one level."""
    between = text[last.end : heading.start]
    return last.value == heading.value and not between.strip("# \t\r\n") and not _BLANK_LINES.search(between)


def _with_manual_headings(text: str, marks: list[Mark]) -> list[Mark]:
    """Return marks with the headings of a manual page: lines in capitals above indented text.

    They stand alone or open a paragraph. A text with less than three of them is not a manual page.
    """
    headings = {match.start(1): match.end(1) for match in _MANUAL_HEADING.finditer(text)}
    if len(headings) < 3:
        return marks
    divided: list[Mark] = []
    for mark in marks:
        end = headings.get(mark.start) if mark.kind == "paragraph" else None
        if end is None:
            divided.append(mark)
            continue
        divided.append(Mark("heading", mark.start, end, "2"))
        if rest := len(text[end : mark.end].lstrip()):
            divided.append(Mark("paragraph", mark.end - rest, mark.end))
    return divided


# -- inside blocks


def _with_inline(text: str, blocks: Iterable[Mark], references: Mapping[str, Any]) -> list[Mark]:
    """Return blocks, each followed by the links, code and terms inside it, and headings by their anchors."""
    marks: list[Mark] = []
    slugs: Counter[str] = Counter()
    for block in blocks:
        marks.append(block)
        if block.kind not in BLOCKS or block.kind == "code":
            continue
        if block.kind == "heading":
            name = _words(text[block.start : block.end])
            if anchor := slug(name):
                copy = f"-{slugs[anchor]}" if slugs[anchor] else ""
                slugs[anchor] += 1
                marks.append(Mark("anchor", block.start, block.start, anchor + copy))
            is_short = len(name) <= _LONGEST_TERM and "://" not in name
            if is_short and (_CODE_SPAN.fullmatch(text, block.start, block.end) or _IDENTIFIER.fullmatch(name)):
                marks.append(Mark("term", block.start, block.end, name))
        elif block.kind in {"paragraph", "item"} and (term := _LEADING_TERM.match(text, block.start, block.end)):
            group = term.lastgroup or ""
            if name := _words(term[group]).strip(" :"):
                marks.append(Mark("term", *term.span(group), name))
        marks.extend(_inline(text, block.start, block.end, references))
    return marks


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
    """Yield the link, the anchor or the term of an HTML tag."""
    if tag["tag"].lower() == "dfn" and tag.group()[1] != "/":
        closing = text.find("</", tag.end(), min(end, tag.end() + _LONGEST_TERM))
        if closing >= 0 and (name := _words(text[tag.end() : closing])):
            yield Mark("term", tag.end(), closing, name)
        return
    anchor = _HTML_ANCHOR.match(text, *tag.span())
    closing = text.find("</", tag.end(), min(end, tag.end() + _LONGEST_LINK)) if anchor else -1
    if anchor and anchor[1].lower() != "href":
        yield Mark("anchor", tag.start(), tag.start(), anchor[2])
    elif anchor and closing >= 0:
        yield Mark("link", tag.end(), closing, anchor[2])


def _role(name: str, content: str, start: int) -> Mark:
    words, target = role_target(content)
    if name in _LINK_ROLES:
        return Mark("link", start, start + len(words), target.strip())
    return Mark("literal", start + words.startswith(("~", "!")), start + len(words))


def _target(match: re.Match[str], references: Mapping[str, Any]) -> str:
    """Return where a link leads; empty for brackets that are not a link."""
    if match["target"] is not None:
        return match["target"].strip("<>")
    if not references:
        return ""
    from markdown_it.common.utils import normalizeReference  # noqa: PLC0415 - see above

    known = references.get(normalizeReference(match["ref"] or match["label"]))
    return str(known["href"]) if known else ""


def _bare_urls(text: str, taken: list[tuple[int, int]]) -> list[Mark]:
    """Return the URLs that are written without markup, outside of what is taken."""
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
