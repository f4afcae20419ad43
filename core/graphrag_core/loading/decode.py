"""Bytes to text: what the file says of itself, UTF-8, then the likeliest of the other encodings."""

from __future__ import annotations

import codecs
import re

from graphrag_core.errors import FileError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 1 << 16
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_COMMON = ("cp1252", "gb18030")
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROL = 0.01  # of a text's characters; more is no text


def decode(data: bytes) -> str:
    """Return a file's text, or raise :class:`FileError`.

    >>> decode("naïve".encode("utf-16")), decode("naïve".encode("utf-8-sig"))
    ('naïve', 'naïve')
    """
    encoding = detect(data)
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise FileError(f"is not the {encoding} it seems to be ({error}): save it as UTF-8") from error
    if "\x00" in text or len(_CONTROL.findall(text)) > len(text) * _MOST_CONTROL:
        raise FileError("is binary, not text")
    return text


def detect(sample: bytes) -> str:
    """Return the encoding of a file that begins with, or is, ``sample``."""
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if _is_utf8(sample):
        return "utf-8"
    if wide := _wide(sample[:_SAMPLE]):
        return wide
    if b"\x00" in sample[:_SAMPLE]:
        raise FileError("is binary, not text")
    if declared := _DECLARED.search(sample[:4096]):
        name = declared[1].decode("ascii")
        try:
            return codecs.lookup(name).name
        except LookupError:
            pass
    return _likeliest(sample[:_SAMPLE])


def _is_utf8(sample: bytes) -> bool:
    try:  # the end of a sample may lie inside a character
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(sample) < _SAMPLE)
    except UnicodeDecodeError:
        return False
    return b"\x00" not in sample[:_SAMPLE]


def _wide(sample: bytes) -> str:
    """Tell UTF-16 without a mark by the zeros of its spaces and Latin letters."""
    if len(sample) < 4:
        return ""
    half = len(sample) // 2
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if sample[offset::2].count(0) > half * 0.4 and sample[1 - offset :: 2].count(0) == 0:
            return encoding
    return ""


def _likeliest(sample: bytes) -> str:
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        raise FileError("is not UTF-8: save it as UTF-8, or pip install 'hybrid-graphrag[files]'") from error
    found = from_bytes(sample)
    best = found.best()
    if best is None:
        raise FileError("is in no encoding that can be told: save it as UTF-8")
    # Short texts read alike in many encodings; of those that read best, some are far more common.
    as_good = {match.encoding for match in found if (match.chaos, -match.coherence) <= (best.chaos, -best.coherence)}
    return next((common for common in _COMMON if common in as_good), best.encoding)
