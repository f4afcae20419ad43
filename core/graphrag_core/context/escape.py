"""Neutralise text from documents before a model, a terminal or a browser reads it.

For a prompt :func:`body` and :func:`one_line` escape the structure of a context, remove invisible characters and break
up the control tokens of chat templates.
"""

import json
import re

_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
# Control characters, and those that show nothing: soft hyphens, zero-width spaces, bidirectional controls, fillers,
# variation selectors, tags. The letters among them (fillers) are blank. Joiners are kept between letters that join.
_SILENT = (
    f"{_DIRECTIONS}\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_JOINERS = r"(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])|[\u200c\u200d](?=[\u200c\u200d])"
_INVISIBLE = re.compile(rf"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff{_SILENT}]|{_JOINERS}")
_NOT_FOR_TERMINALS = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_SILENT}]")
_CHANGES_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_INVALID_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Where a control token of a chat template starts: "<|im_start|>", "<｜User｜>", "[INST]", "<<SYS>>", "<start_of_turn>",
# or a mark that prompts often have around passages: "</context>", "### Instruction".
_TOKEN = re.compile(
    r"<(?=[|｜])|<(?=<\s?/?SYS>>)|"
    r"<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|start_of_turn|end_of_turn|system|user|assistant|human|tool_call"
    r"|tool_response|function_calls|think|contexts?|documents?|passages?|instructions?)>)|"
    r"#(?=##\s*(?:instruction|response|input)\b)|"
    r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])",
    re.IGNORECASE,
)
# The start of a heading, a code fence, a rule, the line under a heading, or a line with a label that contexts use or
# with the name of a speaker.
_STRUCTURE = re.compile(
    r"^([^\S\n]*)(?=#|`{3}|~{3}|=+[^\S\n]*$|={3}|-{1,2}[^\S\n]*$|(?:[-*_][^\S\n]*){3}|\[score"
    r"|[\[［【〔][^\S\n]*\d+[^\S\n]*[\]］】〕]|query entities:"
    r"|related:|description:|knowledge graph:|(?:system|user|human|assistant|developer|tool)[^\S\n]*:)",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = "<‹«〈《⟨⟪❬❮❰˂ᐸ≺⋖＜"  # what reads as "<"
_DELIMITERS = re.compile(r"[,()\[\]:;>|]|^[-+*] ")


def _neutral(text: str) -> str:
    """Return a text without what cannot be seen and with control tokens broken up."""
    return _TOKEN.sub(r"\g<0> ", _INVISIBLE.sub("", text))


def without_tags(text: str, *names: str) -> str:
    """Return a text with a space after the bracket of everything that reads as a tag of these names.

    >>> without_tags("</passages>, < PASSAGES >, &lt;/passages>, <b>", "passages")
    '< /passages>, <  PASSAGES >, & lt;/passages>, <b>'
    """
    rest = rf"[\W_]{{0,8}}(?:{'|'.join(names)})\b"
    plain = _INVISIBLE.sub("", text)
    return re.sub(rf"[{_OPENING}](?={rest})|&(?=(?:lt|#0*60|#x0*3c);?{rest})", r"\g<0> ", plain, flags=re.IGNORECASE)


def one_line(text: str) -> str:
    r"""Return a text as one line, without code fences and with Markdown structure at its start escaped.

    >>> one_line("Auth\n### System prompt"), one_line("# Auth"), one_line("<|im_start|>system")
    ('Auth ### System prompt', '\\# Auth', '< |im_start|>system')
    """
    line = _SPACE.sub(" ", _neutral(text).replace("```", "'''")).strip()
    return _STRUCTURE.sub(r"\1\\", line)


def list_item(text: str) -> str:
    """Return a name for a comma-separated list, quoted if it contains delimiters.

    >>> list_item("Auth Service"), list_item("B (owns, weight: 10), Admin")
    ('Auth Service', '"B (owns, weight: 10), Admin"')
    """
    line = one_line(text)
    return f'"{line.replace(chr(34), chr(39))}"' if _DELIMITERS.search(line) else line


def body(text: str) -> str:
    r"""Return a passage with a backslash before each line that starts with Markdown structure.

    >>> print(body("Fine.\n## Not yours\n- - -\nNor this\n=="))
    Fine.
    \## Not yours
    \- - -
    Nor this
    \==
    """
    lines = _BREAKS.sub("\n", _neutral(text)).strip()
    return _STRUCTURE.sub(r"\1\\", lines)


def shortened(text: str, max_chars: int) -> str:
    """Return one line, cut to ``max_chars`` characters, between words if possible."""
    line = one_line(text)
    if len(line) <= max_chars:
        return line
    space = line.rfind(" ", max_chars // 2, max_chars)
    return f"{line[: space if space > 0 else max_chars]} ..."


def for_terminal(text: str) -> str:
    """Return a text without characters that control a terminal. Line breaks and tabs are kept."""
    return _NOT_FOR_TERMINALS.sub("", text)


def json_for_terminal(text: str) -> str:
    """Return a JSON text of the same value, with characters that control a terminal escaped."""
    return _NOT_FOR_TERMINALS.sub(lambda match: json.dumps(match.group())[1:-1], text)


def for_html(text: str) -> str:
    """Return a text without changes of direction, and with U+FFFD for what is invalid in HTML; templates escape."""
    return _INVALID_IN_HTML.sub("\ufffd", _CHANGES_DIRECTION.sub("", text))
