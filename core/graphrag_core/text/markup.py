"""The prose of Markdown: what is embedded, searched and shown of a text, without its markup.

Inline markup is found with a regular expression, with the offsets of everything. Text without any
markup is returned as it is.
"""

import html
import re

# -- hints: text without any of these has no markup

# Markup inside lines. The pattern starts with a character class, so that the engine skips ahead to it.
_INLINE_HINT = re.compile(
    r"[`<*_\[](?:(?<=`)|(?<=<)[/!A-Za-z]|(?<=\*)\*?[^\s*]|(?<=(?<!\w)_)_?[^\s_]"
    r"|(?<=\[)(?:\[|[^\[\]\n]{0,400}(?:\[[^\[\]\n]{0,400}\][^\[\]\n]{0,400})?\][(\[:]))"
)
_LINE_START = r"[ \t]*(?:#{1,6}[ \t]|[-*+>][ \t]|[|+]|\d{1,9}[.)][ \t]|===|---|~~~|:::|:[ \t]|\([^()\s]+\)=)"
_FIRST_LINE_HINT, _LINE_HINT = re.compile(_LINE_START), re.compile(rf"\n{_LINE_START}")
# -- inline markup

_HTML_TAGS = (
    "a abbr address article aside audio b blockquote body br button caption center cite code col colgroup dd del "
    "details dfn div dl dt em embed figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe "
    "img input ins kbd label legend li link main map mark math menu meta nav object ol option p param picture pre q "
    "s samp script section select small source span strike strong style sub summary sup svg table tbody td textarea "
    "tfoot th thead time title tr track tt u ul var video wbr"
)
_TIGHT_TAGS = frozenset(
    "a abbr b cite code del dfn em font i ins kbd mark q s small span strong sub sup tt u var wbr".split()
)
_HTML_TAG = rf"/?(?P<tag>{'|'.join(_HTML_TAGS.split())})(?:\s[^<>]{{0,1000}})?/?>"
_LABEL = r"(?:[^\[\]\\]|\\.|\[[^\[\]]{0,200}\]){0,400}"
# A target has a word in it: "[Ca](i)" and "[GHS-R](-/-)" are not links.
_TARGET = (
    r"\((?=\)|[^()\s]*[^\W_]{{2}}|\s*[#<])\s*(?!\s)(?P<{0}><[^<>\r\n]*>|(?:[^\s()\\]|\\.|\([^\s()]*\)){{0,1000}})"
    r"(?:\s+(?:\"[^\"]{{0,400}}\"|'[^']{{0,400}}'))?\s*\)"
)
# An escaped character, a MyST role, code, HTML, an image, a wiki link, a link or a URL.
INLINE = re.compile(
    r"[\\`{<!\[h](?:"
    r"(?<=\\)(?P<escaped>[*_`\[\]<>#|\\~])"
    r"|(?<=\{)(?P<role>[\w:+-]+)\}`(?P<of_role>[^`]{1,400})`"
    r"|(?<=(?<!`)`)(?P<ticks>`{0,30})(?P<code>(?:(?!'').){1,600}?)(?<!`)`(?P=ticks)(?!`)"  # ``quoted'' is no code
    rf"|(?<=<)(?:(?P<comment>!--).{{0,4000}}?-->|(?P<url>(?:https?://|mailto:)[^\s<>]+)>|{_HTML_TAG})"
    rf"|(?<=!)\[(?P<alt>{_LABEL})\](?:{_TARGET.format('image')}|\[[^\[\]]{{0,200}}\])"
    r"|(?<=\[)\[(?P<page>[^\[\]|\r\n]{1,200})(?:\|(?P<page_label>[^\[\]\r\n]{1,200}))?\]\]"
    rf"|(?<=\[)(?P<label>{_LABEL})\](?:{_TARGET.format('target')}|\[(?P<ref>[^\[\]]{{0,200}})\])?"
    r"|(?<=(?<![\w/])h)ttps?://[^\s<>()\[\]\"'`]+"  # nothing inside a URL is markup
    r")",
    re.DOTALL,
)
_STRESSED = re.compile(
    r"(?<![A-Za-z0-9*\\])(\*{1,3})(?![\s*])([^*]{1,400}?)(?<![\s*\\])\1(?![A-Za-z0-9*])"
    r"|(?<![\w\\])_(?![\s_{])([^_]{1,400}?)(?<![\s_])_(?!\w)"
    r"|(?<![\w\\])__(?![\s_])([^_]{0,200}?\s[^_]{0,200}?)(?<![\s_])__(?!\w)"  # __init__ is a name
)
_ROLE_TARGET = re.compile(r"(.+?)\s*<([^<>]+)>$", re.DOTALL)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# -- markup of lines

CODE_DIRECTIVES = frozenset(
    "code code-block code-cell sourcecode literalinclude parsed-literal highlight math mermaid eval-rst raw".split()
)
SKIPPED_DIRECTIVES = frozenset("toctree contents tableofcontents include index".split())
_FENCED = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*(?![ \t])(?:\{(?P<name>[^{}\s]+)\})?(?P<info>[^\n`]*)(?:\n|\Z)"
    r"(?P<code>.*?)(?:^[ \t>]*(?P=fence)[`~]*[ \t\r]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_LINE_MARKUP = re.compile(
    r"^[ \t]*(?:"
    r"(?P<row>\|.*)"
    r"|(?:([=\-~*_+])[ \t]*(?![ \t])(?:\2[ \t]*(?![ \t])){2,}|\+[-=+]+\+|:::+|\([^()\s]+\)="  # rules, labels
    r"|\[[^\[\]\n]{1,200}\]:[ \t]*\S+(?:[ \t]+[\"'(].*)?)[ \t\r]*$"  # the target of a link
    r"|:::+[ \t]*\{[^{}\n]*\}[ \t]*|(?:(?:[-*+]|\#{1,6}|(?<=\n):)[ \t]+|>[ \t]?)(?:(?:[-*+]|\#{1,6})[ \t]+|>[ \t]?)*"
    r")",
    re.MULTILINE,
)
_CLOSING_HASHES = re.compile(r"(?<![ \t])[ \t]+#+[ \t]*$", re.MULTILINE)
_CELL_BORDER = re.compile(r"(?:(?<![ \t])[ \t]+)?(?<!\\)\|[ \t]*")
_DELIMITER_ROW = re.compile(r"[|:\- \t\r]+$")
_GAPS = re.compile(r"\n(?:[ \t\r]*\n){2,}")
_PLACE = r"<a id=\"[^\"<>\n]*\"></a>|<!-- page \d{1,9} -->"
_PLACES = re.compile(_PLACE)
_UNSEEN = re.compile(
    rf"\[([^\[\]]{{0,400}})\](?:\((?:<[^<>\n]{{1,1000}}>|[^()\s<>]{{1,1000}})\)|\[[^\[\]\n]{{0,200}}\])|{_PLACE}"
)


# -- prose


def has_markup(text: str) -> bool:
    """Return whether a text may have markup. Cheap: most passages have none."""
    if _INLINE_HINT.search(text) is not None or _FIRST_LINE_HINT.match(text) is not None:
        return True
    return "\n" in text and _LINE_HINT.search(text) is not None


def plain(text: str) -> str:
    r"""Return the prose of a text without markup. Code stays; text without markup is returned as it is.

    >>> plain("## The `broker_url` setting\n\n- See **[brokers](b.md#x)** first.")
    'The broker_url setting\n\nSee brokers first.'
    """
    if not has_markup(text):
        return text
    parts, at = [], 0
    for fenced in _FENCED.finditer(text):
        parts.append(_plain_prose(text[at : fenced.start()]))
        if fenced["name"] is None or fenced["name"] in CODE_DIRECTIVES:
            parts.append(fenced["code"])
        elif fenced["name"] not in SKIPPED_DIRECTIVES:
            parts.append(_plain_prose(f"{fenced['info'].strip()}\n{fenced['code']}"))
        at = fenced.end()
    parts.append(_plain_prose(text[at:]))
    prose = "".join(parts)
    return text if prose == text else _GAPS.sub("\n\n", prose).strip()


def visible(text: str) -> str:
    """Return Markdown with the words of links alone, without anchors and page breaks."""
    return _UNSEEN.sub(lambda match: match[1] or "", text) if "](" in text or "][" in text or "<" in text else text


def without_places(text: str) -> str:
    """Return Markdown without the anchors and page breaks that readers of files write."""
    return _PLACES.sub("", text) if "<" in text else text


def role_target(content: str) -> tuple[str, str]:
    """Return the words and the target of a role's content: "words <target>", or one for both."""
    named = _ROLE_TARGET.match(content)
    return (named[1], named[2]) if named else (content, content)


def _plain_prose(text: str) -> str:
    if not has_markup(text):
        return text
    text = _LINE_MARKUP.sub(_plain_line, text)
    if "#" in text:
        text = _CLOSING_HASHES.sub("", text)
    text = _plain_inline(text)
    return _ENTITY.sub(lambda entity: html.unescape(entity.group()), text) if "&" in text else text


def _plain_line(match: re.Match[str]) -> str:
    row = match["row"]
    return "" if row is None or _DELIMITER_ROW.match(row) else _CELL_BORDER.sub("  ", row).strip()


def _plain_inline(text: str) -> str:
    text = INLINE.sub(_plain_span, text)
    return _STRESSED.sub(_plain_stressed, text) if "*" in text or "_" in text else text


def _plain_stressed(match: re.Match[str]) -> str:
    return _STRESSED.sub(_plain_stressed, match[2] or match[3] or match[4])


def _plain_span(match: re.Match[str]) -> str:
    """Return what a reader sees of a piece of inline markup."""
    kind = match.lastgroup
    if kind in (None, "escaped", "code", "url", "page_label", "page"):  # none is the address of a page
        return match[kind] if kind else match.group()
    if kind in ("tag", "comment"):
        return "" if kind == "tag" and match["tag"].lower() in _TIGHT_TAGS else " "
    if kind == "of_role":
        return role_target(match["of_role"])[0].lstrip("~!")
    label = str(match["alt"] if match["label"] is None else match["label"])
    if not label and match["target"]:  # MyST shows the title of what it leads to
        return str(match["target"]).lstrip("#")
    return f"[{_plain_inline(label)}]" if kind == "label" else _plain_inline(label)
