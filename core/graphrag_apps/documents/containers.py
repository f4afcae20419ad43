"""Readers for files whose parts are in other formats: e-mail, EPUB books and notebooks."""

import email
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from itertools import islice
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from graphrag_apps.documents.plain import markdown_title
from graphrag_apps.documents.rows import parse_json
from graphrag_core.errors import FileError
from graphrag_core.text.content import Content, decode, decode_lines, is_file_encoding
from graphrag_core.text.html import html_content
from graphrag_core.text.markdown import anchor, escape, fenced, line

_HEADERS = ("from", "to", "cc", "date")
_MAX_UNPACKED = 200_000_000  # bytes of one chapter or all; protects against zip bombs
_MAX_CHAPTERS = 10_000
_ENCRYPTION = "META-INF/encryption.xml"
_LONGEST_HEADER = 20_000  # characters; the parser takes quadratic time
_MAX_PARTS = 1_000  # of an e-mail
_MAX_STEPS = 20_000_000  # the parser compares each line with the boundaries of all parts around it
_LONGEST_PART_HEADER = 2_000  # characters; the parser takes quadratic time for parameters
_PART_HEADER = re.compile(rb"^content-(?:type|disposition):(?:.|\r?\n[ \t])*", re.IGNORECASE | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s<>]+)\)")
_REPLY = re.compile(r"^(?:(?:re|fwd?|aw|wg):\s*)+", re.IGNORECASE)
_SIGNED = re.compile(r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z]+: .*\n)*\n?", re.MULTILINE)
_ARMOUR = re.compile(
    r"^-----BEGIN PGP (?P<kind>SIGNATURE|MESSAGE|PUBLIC KEY BLOCK)-----$.*?(?:^-----END PGP (?P=kind)-----$\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ORIGINAL = re.compile(r"^-{2,} ?(?:Original Message|Forwarded message|Ursprüngliche Nachricht) ?-{2,}$", re.IGNORECASE)
_PATCH = re.compile(r"^(?:diff --git |Index: .*\n===|--- .*\n\+\+\+ ).*\n(?:.*\n)*?(?=-- $|\Z)", re.MULTILINE)
_UNDERLINED = re.compile(r"^(.+)\n(-{3,}|={3,})[ \t]*$", re.MULTILINE)
_MOST_LONGER = 3  # characters by which the line below a title may be longer or shorter
_ATTRIBUTION = 3  # lines before a quotation, at most, that say who wrote it: "On Monday Ada wrote:"


def read_eml(data: bytes) -> Content:
    """Read an e-mail: its subject, sender, recipients, date and text. Attachments are named."""
    head = re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0]
    if any(len(header) > _LONGEST_HEADER for header in re.split(rb"\r?\n(?![ \t])", head)):  # with folded lines
        raise FileError(f"has a header of more than {_LONGEST_HEADER:,} characters: not an e-mail, or damaged")
    parts = [match.end() - match.start() for match in islice(_PART_HEADER.finditer(data), 2 * _MAX_PARTS + 1)]
    if len(parts) > 2 * _MAX_PARTS or data.lower().count(b"boundary") * data.count(b"\n") > _MAX_STEPS:
        raise FileError(f"has more than {_MAX_PARTS:,} parts, or many that are nested: split it")
    if max(parts, default=0) > _LONGEST_PART_HEADER:
        raise FileError(f"has a part whose header has more than {_LONGEST_PART_HEADER:,} characters: it may be damaged")
    try:
        return _mail_content(data)
    except RecursionError as error:
        raise FileError("has parts or comments that are nested too deeply: it may be damaged") from error


def _mail_content(data: bytes) -> Content:
    message = email.message_from_bytes(data, policy=default)
    if not isinstance(message, EmailMessage) or not any(name in message for name in ("from", "subject", "date", "to")):
        raise FileError("not an e-mail: it has no headers")
    subject = _header(message, "subject")
    headers = {name: value for name in _HEADERS if (value := _header(message, name))}
    names = [name for part in message.iter_attachments() if (name := part.get_filename())]
    intro = (
        f"# {escape(subject)}" if subject else "",
        "\n".join(f"{name.capitalize()}: {value}" for name, value in headers.items()),
        f"Attachments: {', '.join(names)}" if names else "",
    )
    start = "\n\n".join(filter(None, intro)) + "\n\n"
    body = _without_armour(_mail_body(message))
    if "in-reply-to" in message or "references" in message:
        body = _without_last_quotation(body)
    return Content(start + body, _REPLY.sub("", subject), {"subject": subject, **headers})


def _header(message: EmailMessage, name: str) -> str:
    """Return a header in one line: as it is written, if the library cannot parse it."""
    try:
        value = message.get(name, "")
    except (AttributeError, LookupError, ValueError):
        value = next(value for key, value in message.raw_items() if key.lower() == name)
    return " ".join(str(value).split())


def _mail_body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    try:
        if not is_file_encoding(str(part.get_content_charset("utf-8"))):
            raise LookupError  # noqa: TRY301 - as for an unknown charset
        text = str(part.get_content())
    except (LookupError, UnicodeError, KeyError):  # an unknown charset or encoding
        payload = part.get_payload(decode=True)
        text = decode(payload) if isinstance(payload, bytes) else ""
    text = text.replace("\r\n", "\n").replace("\x00", "")
    return html_content(text).text if part.get_content_subtype() == "html" else _plain_body(text)


def _plain_body(text: str) -> str:
    """Return the text of a plain mail as Markdown: patches are code, and a rule below a line makes it no heading."""

    def spaced(match: re.Match[str]) -> str:
        is_title = abs(len(match[1]) - len(match[2])) <= _MOST_LONGER
        return match[0] if is_title else f"{match[1]}\n\n{match[2]}"

    text = "\n".join(map(line, text.strip().split("\n"))) + "\n"
    text = _PATCH.sub(lambda patch: "\n".join(fenced(patch[0], "diff")) + "\n", text)
    return _UNDERLINED.sub(spaced, text).strip()


def _without_armour(body: str) -> str:
    """Return the text of a mail without signatures, keys and encrypted parts of PGP."""
    return _ARMOUR.sub("", _SIGNED.sub("", body)).strip()


def _without_last_quotation(body: str) -> str:
    """Return a reply without the message that it quotes below its own text. Quotations between answers stay."""
    lines = body.split("\n")
    end = next((at for at, row in enumerate(lines) if at and _ORIGINAL.match(row.strip())), len(lines))
    while end and (not lines[end - 1].strip() or lines[end - 1].startswith(">")):
        end -= 1
    if 0 < end < len(lines) and lines[end - 1].rstrip().endswith(":"):  # who wrote what is quoted
        start = end
        while start and lines[start - 1].strip():
            start -= 1
        end = start if end - start <= _ATTRIBUTION else end
    own = "\n".join(lines[:end]).strip()
    return own or body


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book, in order. Links between chapters lead to places in the book."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            if sum(member.file_size for member in book.infolist()) > _MAX_UNPACKED:
                raise FileError("unpacks to more than 200 MB: remove its images")
            if _ENCRYPTION in book.namelist() and b"EncryptedData" in book.read(_ENCRYPTION):
                raise FileError("encrypted: save a copy without copy protection")
            title, chapters = _spine(book)
            pages = [(path, _chapter(decode(book.read(path)))) for path in dict.fromkeys(chapters)]
    except (zipfile.BadZipFile, KeyError, ET.ParseError, EOFError, zlib.error, StopIteration) as error:
        raise FileError("not an EPUB file, or damaged") from error
    chapters = [f"{anchor(posixpath.basename(path))}\n\n{text}" for path, text in pages if text.strip()]
    return Content("\n\n".join(chapters), title)


def _chapter(source: str) -> str:
    return _LINK.sub(lambda link: f"]({_book_target(link[1])})", html_content(source).text)


def _spine(book: zipfile.ZipFile) -> tuple[str, list[str]]:
    """Return a book's title and the paths of its chapters, without the table of contents."""
    container = ET.fromstring(book.read("META-INF/container.xml"))  # noqa: S314 - expat limits entities
    root = next(_elements(container, "rootfile")).attrib["full-path"]
    package = ET.fromstring(book.read(root))  # noqa: S314
    titles = [node.text for node in _elements(package, "}title") if node.text]
    items = {node.attrib.get("id"): node.attrib for node in _elements(package, "}item")}
    order = [items.get(node.attrib.get("idref")) for node in _elements(package, "}itemref")]
    paths = [
        posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(item["href"])))
        for item in order
        if item and "nav" not in item.get("properties", "").split() and "html" in item.get("media-type", "html")
    ]
    if len(paths) > _MAX_CHAPTERS:
        raise FileError(f"has more than {_MAX_CHAPTERS:,} chapters: split it")
    return " ".join(titles[0].split()) if titles else "", paths


def _elements(root: ET.Element, tag: str) -> Iterator[ET.Element]:
    return (node for node in root.iter() if node.tag.endswith(tag))


def _book_target(href: str) -> str:
    path, _, anchor = href.partition("#")
    return href if "://" in href else f"#{anchor or posixpath.basename(unquote(path))}"


def read_notebook(data: bytes) -> Content:
    """Read the Markdown and code cells of a Jupyter notebook."""
    notebook: Any = parse_json(decode_lines(data))
    try:
        language = str(notebook.get("metadata", {}).get("language_info", {}).get("name", "python"))
        cells = notebook.get("cells") or [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]
        parts = [(str(cell.get("cell_type")), _source(cell)) for cell in cells]
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        raise FileError(f"not a notebook, or damaged ({type(error).__name__})") from error
    prose = "\n\n".join(source for kind, source in parts if kind in ("markdown", "heading"))
    blocks = [
        "\n".join(fenced(source, language)) if kind == "code" else source for kind, source in parts if source.strip()
    ]
    return Content("\n\n".join(blocks), markdown_title(prose))


def _source(cell: Any) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(source) if isinstance(source, list) else str(source)
    if cell.get("cell_type") == "heading":
        return f"{'#' * min(int(cell.get('level', 1)), 6)} {text}"
    return text.strip("\n")
