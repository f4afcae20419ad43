"""The one scanner of structure: blocks, links, terms, anchors and pages of Markdown and plain text.

One pass over the lines finds the blocks. Regular expressions find what is inside them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter

from graphrag_core.model import Mark, MarkKind
from graphrag_core.text.markup import CODE_DIRECTIVES, INLINE, SKIPPED_DIRECTIVES, plain, role_target, visible
from graphrag_core.text.words import WORD

BLOCKS = frozenset({"heading", "paragraph", "item", "definition", "table", "code"})
"""The kinds of marks that are blocks."""

_MAX_HEADING, _MAX_TERM = 120, 60  # characters
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?:[^\r\n]*\r?\n){0,200}?---[ \t]*(?:\r?\n|\Z)")
_ITEM = re.compile(r"(?:[-*+]|(?P<number>\d{1,9})[.)])(?:[ \t]+|$)")
_PLACE = re.compile(r"<a id=\"(?P<anchor>[^\"<>\n]*)\"></a>[ \t]*|<!-- page (?P<page>\d{1,9}) -->[ \t]*")
_START = re.compile(  # what lines start with that are not prose
    r"(?P<fence>:{3,}|~{3,}|`{3,}(?![^`]*`))[ \t]*(?:\{(?P<name>[^{}\s]+)\})?(?P<info>.*)"
    r"|(?P<hashes>\#{1,6})(?=\s|$)|(?P<rule>={3,}$|-{3,}$|[-*_](?:[ \t]*[-*_]){2,}$)|(?P<table>\||\+[-=+]{2,})"
    r"|\((?P<label>[^()\s]+)\)=$|\[(?P<reference>[^\[\]\n]{1,200})\]:[ \t]*<?(?P<target>[^\s<>]+)>?(?:[ \t]+[\"'(].*)?$"
    r"|<(?P<raw>!--|(?:pre|script|style)\b)|(?P<delimiters>:?-+:?(?:[ \t]*\|[ \t]*:?-+:?)+$)"
)
_HINT = frozenset("`~:#=-*_|+([<")  # the first characters of _START
_RULE = re.compile(r"[-*_](?:[ \t]*[-*_]){2,}$")
_FENCE_END = re.compile(r"[ \t>]*(?:`+|~+|:+)")
_OPTION_LINE = re.compile(r":[\w-]+:(?:[ \t]|$)")
_COMMENTS = re.compile(r"^(#{1,6})[ \t][^\r\n]*(?:\r?\n\1(?:[ \t][^\r\n]*)?(?=[\r\n]|\Z)){2,}", re.MULTILINE)
_SETEXT_TEXT = re.compile(r"(?!.*[.,;|]$)(?!.* {2,}|.*\||.*\t)\S.*")
_HEADING_ID = re.compile(r"(?:(?<![ \t])[ \t]+)?\{#([^\s{}]+)(?![^\s{}])[^{}]*\}[ \t]*$")
_CLOSING_HASHES = re.compile(r"(?<![ \t#])[ \t]+#+$")
_DEFINITION = re.compile(r":[ \t]+(?=\S)")
_OPTION = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(?=$|[\s=,<\[])|([A-Za-z_][\w.:]*)\s*\(.*\)$")
_ANCHOR = re.compile(r"<a\s[^<>]*?\b(id|name|href)\s*=\s*[\"']?([^\"'\s<>]+)", re.IGNORECASE)
_CODE_SPAN = re.compile(r"`([^`]+)`")
_IDENTIFIER = re.compile(
    r"-{0,2}[^\W\d_][\w.:/-]*[_.:/-][\w.:/-]*\w(?:\(\))?|_+[^\W_]\w*|\w+\(\)|-{1,2}\w+|[a-z]+[A-Z]\w*"
    r"|[A-Z]+[a-z]+[A-Z]\w*"
)
_LINK_ROLES = frozenset({"ref", "doc", "numref", "any", "download", "std:ref", "std:doc"})
# A short phrase at the start of a paragraph or item that the rest explains: "**Term**: ...", "`name` - ...".
_LEADING_TERM = re.compile(
    r"(?:\*\*(?P<bold>[^*\r\n]{1,60}?)\*\*|\*(?P<emphasis>[^*\r\n]{1,60}?)\*"
    r"|__(?P<underlined>[^_\r\n]{1,60}?)__|`(?P<code>[^`\r\n]{1,60}?)`)"
    r"(?:(?<=:\*\*)|(?<=:__)|[ \t]*(?::|[-–—]{1,2}(?=\s)|：))"
)


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
    has_fences = text.startswith(("```", "~~~")) or "\n```" in text or "\n~~~" in text
    scanner = _Scanner(text, bool(markdown), has_fences if markdown is None else markdown)
    front = _FRONT_MATTER.match(text)
    begin = at = front.end() if front else 0
    for row in _LINE.findall(text, begin):
        scanner.line(at, row)
        at += len(row)
    scanner.end()
    if scanner.closing:
        scanner.code(at)
    slugs: Counter[str] = Counter()
    marks = list(scanner.marks)
    for block in scanner.marks:
        if block.kind in BLOCKS and block.kind != "code":
            marks += _named(text, block, slugs)
            marks += _inline(text, block.start, block.end, scanner.references)
    # stable: a block stays before what it starts with
    return tuple(sorted(dict.fromkeys(marks), key=attrgetter("start")))


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading.

    >>> slug("What's new in 5.0?")
    'whats-new-in-50'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class _Scanner:
    """Finds the blocks of a text, line by line."""

    def __init__(self, text: str, markdown: bool, indented_code: bool) -> None:
        self.text, self.markdown, self.indented_code = text, markdown, indented_code
        self.marks: list[Mark] = []
        self.references: dict[str, str] = {}
        self.rows: list[tuple[int, int]] = []  # of the open block: where its words start and end
        self.kind: MarkKind = "paragraph"  # of the open block
        self.nested = False  # whether the open block is in a list or a quotation
        self.margins: list[int] = []  # where the words of the open list items start, from the left
        self.directives: list[str] = []  # the fences of the open directives
        self.in_options = False
        self.closing = ""  # what ends the open code or comment
        self.code_start = -1  # of the open code; -1 for what is skipped
        self.comments_end = 0

    def line(self, at: int, row: str) -> None:
        """Read a line that starts at an offset."""
        body = row.rstrip()
        if self.closing:
            if self.closing in body and (self.closing[0] in "-<" or _FENCE_END.fullmatch(body)):
                self.code(at + len(body) if self.closing[0] == "<" else at)
            return
        start = len(body) - len(body.lstrip(" \t>"))
        if start == len(body) or (self.in_options and _OPTION_LINE.match(body, start)):
            self.end()
            return
        self.in_options = False
        column, quoted = len(body[:start].expandtabs(4)) if start else 0, ">" in body[:start]
        if not self.rows:
            self.margins = [margin for margin in self.margins if margin <= column]
            if self.indented_code and not quoted and column >= 4 + max(self.margins, default=0):
                self.indented(at, at + start, at + len(body))
                return
        start = self.markers(at, body, start, column)
        nested = quoted or bool(self.margins) or column > 3
        special = _START.match(body, start) if body[start : start + 1] in _HINT else None
        if start < len(body) and (special is None or not self.special(special, at, row, nested)):
            self.nested = nested
            self.rows.append((at + start, at + len(body)))

    def markers(self, at: int, body: str, start: int, column: int) -> int:
        """Return where the words of a line start: behind the marks of items, anchors and page breaks."""
        while (item := _ITEM.match(body, start)) and not _RULE.match(body, start):
            is_sibling = self.kind == "item" or column < max(self.margins, default=0)
            if self.rows and not is_sibling and item["number"] not in (None, "1"):
                break  # a number at the start of a wrapped line
            self.end()
            self.kind = "item"
            self.margins = [margin for margin in self.margins if margin <= column]
            column += len(item.group())
            self.margins.append(column)
            start = item.end()
        while place := _PLACE.match(body, start):
            self.place(place, at)
            start = place.end()
        return start

    def place(self, place: re.Match[str], at: int) -> None:
        """Add an anchor or a page break."""
        start, end = at + place.start(), at + place.end()
        if place["page"]:
            self.marks.append(Mark("page", start, end, place["page"]))
        else:
            self.marks.append(Mark("anchor", start, start, place["anchor"]))

    def special(self, match: re.Match[str], at: int, row: str, nested: bool) -> bool:
        """Read a line that may be more than prose; say whether it is."""
        kind, start = match.lastgroup, at + match.start()
        if match["fence"]:
            self.end()
            self.fence(match, at + len(row))
        elif match["hashes"]:
            return self.hashes(match, at, row, nested)
        elif match["rule"]:
            self.rule(match["rule"])
        elif kind == "table" and self.kind != "table":
            self.end()
            self.kind = "table"
            return False
        elif kind == "delimiters" and len(self.rows) == 1 and "|" in self.text[slice(*self.rows[0])]:
            self.kind = "table"
            return False
        elif match["raw"]:
            return self.raw(match["raw"], start, at + len(row.rstrip()))
        elif match["label"] and not self.rows:
            self.marks.append(Mark("anchor", start, start, match["label"]))
        elif match["target"] and not self.rows:
            self.references[" ".join(match["reference"].lower().split())] = match["target"]
        else:
            return False
        return True

    def raw(self, name: str, start: int, end: int) -> bool:
        """Read the first line of a comment, or of preformatted text in HTML; words may follow a comment."""
        closing = "-->" if name == "!--" else f"</{name}>"
        closed = self.text.find(closing, start, end)
        if name == "!--" and 0 <= closed < end - len(closing):
            return False
        self.end()
        self.closing, self.code_start = closing, start if name == "pre" else -1
        if closed >= 0:
            self.code(end)
        return True

    def rule(self, rule: str) -> None:
        """Read the line under a heading, or a line between paragraphs."""
        if len(self.rows) == 1 and not self.nested and self.kind == "paragraph":
            start, end = self.rows[0]
            is_heading = end - start <= _MAX_HEADING and _SETEXT_TEXT.fullmatch(self.text, start, end)
            if is_heading and rule.strip("=-") == "" and WORD.search(self.text, start, end):
                self.rows = []
                self.heading(start, end, "1" if rule[0] == "=" else "2")
        self.end()

    def hashes(self, match: re.Match[str], at: int, row: str, nested: bool) -> bool:
        """Read a line that starts with hashes; say whether it is a heading, or has no words."""
        self.end()
        if at >= self.comments_end and (comments := _COMMENTS.match(self.text, at)):
            self.comments_end = comments.end()
        start = match.end() + len(row[match.end() :]) - len(row[match.end() :].lstrip())
        while place := _PLACE.match(row, start):
            self.place(place, at)
            start = place.end()
        words = _CLOSING_HASHES.sub("", row[start:].rstrip())
        is_heading = not nested and (self.markdown or not match.start()) and len(words) <= 2 * _MAX_HEADING
        if not is_heading or at < self.comments_end or not WORD.search(words):
            return not words
        self.heading(at + start, at + start + len(words), str(len(match["hashes"])))
        return True

    def heading(self, start: int, end: int, level: str) -> None:
        if named := _HEADING_ID.search(self.text, start, end):
            self.marks.append(Mark("anchor", start, start, named[1]))
            end = named.start()
        if start < end:
            self.marks.append(Mark("heading", start, end, level))

    def fence(self, match: re.Match[str], following: int) -> None:
        """Read the line that opens or closes code or a directive of MyST, whose content is Markdown."""
        fence, info = match["fence"], match["info"].strip()
        name = (match["name"] or "").rpartition(":")[2].lower()
        if name in SKIPPED_DIRECTIVES or name in CODE_DIRECTIVES:
            self.closing, self.code_start = fence, -1 if name in SKIPPED_DIRECTIVES else following
        elif name or (fence[0] == ":" and info.isidentifier()):
            self.directives.append(fence)
            self.in_options = True
        elif not info and self.directives and fence.startswith(self.directives[-1]):
            self.directives.pop()
        elif fence[0] != ":":
            self.closing, self.code_start = fence, following

    def code(self, end: int) -> None:
        """End the open code or comment."""
        if self.code_start >= 0:
            end = self.code_start + len(self.text[self.code_start : end].rstrip())
            if self.code_start < end:
                self.marks.append(Mark("code", self.code_start, end))
        self.closing, self.code_start = "", -1

    def indented(self, at: int, start: int, end: int) -> None:
        """Read an indented line after a blank one: it is code, or a paragraph of a definition."""
        last = self.marks[-1] if self.marks else None
        if last and last.kind in {"definition", "term"}:
            self.nested = True
            self.rows.append((start, end))
        elif last and last.kind == "code" and not self.text[last.end : at].strip():
            self.marks[-1] = Mark("code", last.start, end)
        else:
            self.marks.append(Mark("code", at, end))

    def end(self) -> None:
        """End the open block of prose: it is a paragraph, an item, a table, or terms and their definition."""
        rows, self.rows = self.rows, []
        kind, self.kind = self.kind if self.kind != "table" or len(rows) > 1 else "paragraph", "paragraph"
        if not rows:
            return
        text = self.text
        start, end = rows[0][0], rows[-1][1]
        defined = next((i for i, (a, _) in enumerate(rows) if text[a] == ":" and _DEFINITION.match(text, a)), None)
        if defined is None or kind == "table" or not all(_is_term_line(text[a:b]) for a, b in rows[:defined]):
            if not text.startswith("<", start) or plain(text[start:end]).strip():
                self.marks.append(Mark(kind, start, end))
            return
        self.marks.append(Mark("definition", start, end))
        for a, b in rows[:defined]:
            self.marks += _terms(text, a, b)


def _is_term_line(line: str) -> bool:
    """Return whether a line is short, and no sentence."""
    words = visible(line).strip()
    return 0 < len(words) < 2 * _MAX_TERM and words[-1] not in ".,;:!?"


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
    elif name := _words(line)[: 2 * _MAX_TERM]:
        anchors = _ANCHOR.finditer(text, text.rfind("\n", 0, start) + 1, start)
        dotted = (one[2] for one in anchors if "." in one[2] and one[2].rpartition(".")[2].lower() in name.lower())
        defined = _OPTION.match(name)
        yield Mark("term", start, end, next(dotted, "") or (defined[1] or defined[2] if defined else name))


def _words(text: str) -> str:
    return " ".join(plain(text).split())


# -- inside blocks


def _named(text: str, block: Mark, slugs: Counter[str]) -> Iterator[Mark]:
    """Yield the anchor of a heading, and the term that a block explains."""
    if block.kind == "heading":
        name = _words(text[block.start : block.end])
        if anchor := slug(name):
            yield Mark("anchor", block.start, block.start, anchor + (f"-{slugs[anchor]}" if slugs[anchor] else ""))
            slugs[anchor] += 1
        is_short = len(name) <= _MAX_TERM and "://" not in name
        if is_short and (_CODE_SPAN.fullmatch(text, block.start, block.end) or _IDENTIFIER.fullmatch(name)):
            yield Mark("term", block.start, block.end, name)
    elif block.kind in {"paragraph", "item"} and (term := _LEADING_TERM.match(text, block.start, block.end)):
        group = term.lastgroup or ""
        if name := _words(term[group]).strip(" :"):
            yield Mark("term", *term.span(group), name)


def _inline(text: str, start: int, end: int, references: Mapping[str, str]) -> Iterator[Mark]:
    """Yield links, anchors, pages and inline code."""
    for match in INLINE.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "code":
            yield Mark("literal", *match.span("code"))
        elif match["label"] is not None:
            a, b = match.span("label")
            known = references.get(" ".join((match["ref"] or match["label"]).lower().split()), "") if references else ""
            if target := known if match["target"] is None else match["target"].strip("<>"):
                yield Mark("link", *((a, b) if b > a else match.span()), target)
            yield from (mark for mark in _inline(text, a, b, {}) if mark.kind == "literal")
        elif kind in ("tag", "comment", "of_role"):
            yield from _tag_or_role(text, match, end)
        elif kind in ("url", "page_label", "page"):
            yield Mark("link", *match.span(kind), (match["page"] or match["url"]).strip())
        elif kind is None:
            url = match.group().rstrip(".,;:!?*")
            yield Mark("link", match.start(), match.start() + len(url), url)


def _tag_or_role(text: str, match: re.Match[str], end: int) -> Iterator[Mark]:
    if content := match["of_role"]:
        (words, target), start = role_target(content), match.start("of_role")
        if match["role"] in _LINK_ROLES:
            yield Mark("link", start, start + len(words), target.strip())
        else:
            yield Mark("literal", start + words.startswith(("~", "!")), start + len(words))
    elif page := _PLACE.match(text, *match.span()) if match["comment"] else None:
        yield Mark("page", *page.span(), page["page"])
    elif anchor := _ANCHOR.match(text, *match.span()):
        closing = text.find("</", match.end(), end)
        if anchor[1].lower() != "href":
            yield Mark("anchor", match.start(), match.start(), anchor[2])
        elif closing >= 0:
            yield Mark("link", match.end(), closing, anchor[2])
