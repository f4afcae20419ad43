"""File content: what format readers return, and decoding bytes to text."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag_core.errors import FileError

SAMPLE_SIZE = 1 << 16
"""How many bytes at the start of a file are read to detect its encoding."""

_BOMS = {
    "utf-8-sig": (codecs.BOM_UTF8,),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # before UTF-16, whose BOM is a prefix of this one
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_PLACEHOLDER_TITLE = re.compile(
    r"microsoft (?:word|powerpoint|excel)\b|untitled|(?:word )?document\s*\d*$|presentation\s*\d*$|powerpoint"
    r"|(?:slide|page) ?\d*$|.*\.(?:docx?|odt|tex|dvi|indd|pdf|rtf|qxd|pptx?|xlsx?|ps|html?|md|txt)$|\S*_\S*$|[\W\d]*$",
    re.IGNORECASE,
)
_COMMON_ENCODINGS = ("cp1252", "gb18030")
_NO_ENCODINGS = frozenset("punycode idna unicode_escape raw-unicode-escape unicode-escape undefined utf-7".split())
"""Codecs that no file is written in. Some take quadratic time."""
_CONTROL_CHARACTER = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MAX_CONTROL_SHARE = 0.01  # of a text's characters; binary files have more


@dataclass(frozen=True, slots=True)
class Content:
    """A text with title and metadata. ``key`` identifies a row within its file; empty for a whole file.

    ``is_id`` says that the key is the id of the document, which other files may have too, as of a paper.
    ``problem`` says why a row cannot be read.
    """

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    is_id: bool = False
    problem: str = ""


def decode(data: bytes) -> str:
    """Decode a file, or raise :class:`FileError` if it is not text.

    >>> decode("naïve".encode("utf-16")), decode("naïve".encode("utf-8-sig"))
    ('naïve', 'naïve')
    """
    encoding = detect_encoding(data)
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise FileError(f"invalid {encoding} ({error}): save it as UTF-8") from error
    if "\x00" in text or len(_CONTROL_CHARACTER.findall(text)) > len(text) * _MAX_CONTROL_SHARE:
        raise FileError("binary file, not text")
    return text


def decode_lines(data: bytes) -> str:
    """Decode a file, with line feeds as the only line breaks."""
    return decode(data).replace("\r\n", "\n").replace("\r", "\n")


def stated_title(title: str | None) -> str:
    """Return the title in a file's properties; nothing if a program made it up.

    >>> stated_title("Harbour  report"), stated_title("Microsoft Word - report.doc"), stated_title("Slide 1")
    ('Harbour report', '', '')
    """
    title = " ".join((title or "").split())[:1_000]
    return "" if _PLACEHOLDER_TITLE.match(title) else title


def detect_encoding(sample: bytes) -> str:
    """Return the encoding of a file, given all of it or its first :data:`SAMPLE_SIZE` bytes.

    Tries, in this order: byte order mark, UTF-8, an HTML ``charset`` declaration, statistical detection.
    """
    for encoding, bom in _BOMS.items():
        if sample.startswith(bom):
            return encoding
    if _is_utf8(sample):
        return "utf-8"
    if b"\x00" in sample[:SAMPLE_SIZE]:
        raise FileError("binary file, not text")
    if declared := _META_CHARSET.search(sample[:4096]):
        name = declared[1].decode("ascii")
        if is_file_encoding(name):
            return codecs.lookup(name).name
    return _guess_encoding(sample[:SAMPLE_SIZE])


def is_file_encoding(name: str) -> bool:
    """Return whether files are written in an encoding, by its name in any spelling."""
    try:
        return codecs.lookup(name).name not in _NO_ENCODINGS
    except (LookupError, ValueError):
        return False


def _is_utf8(sample: bytes) -> bool:
    try:  # a sample may end inside a character
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(sample) < SAMPLE_SIZE)
    except UnicodeDecodeError:
        return False
    return b"\x00" not in sample[:SAMPLE_SIZE]


def _guess_encoding(sample: bytes) -> str:
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        raise FileError("not UTF-8: save it as UTF-8, or pip install 'hybrid-graphrag[files]'") from error
    matches = from_bytes(sample)
    best = matches.best()
    if best is None:
        raise FileError("unknown text encoding: save it as UTF-8")
    # Several encodings often fit a short text equally well; prefer the common ones.
    tied = {match.encoding for match in matches if (match.chaos, -match.coherence) <= (best.chaos, -best.coherence)}
    return next((common for common in _COMMON_ENCODINGS if common in tied), best.encoding)
