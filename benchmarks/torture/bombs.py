"""Small files that expand, nest or repeat without end: each is read or refused in little memory and CPU time."""

from __future__ import annotations

import io
import json
import multiprocessing
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import openpyxl

from graphrag_apps.documents import load_documents
from torture.report import Row

MEMORY = 1_500_000_000  # bytes of address space beyond what a process has
SECONDS = 60  # of CPU time; what reads most of a bomb takes a few


def _lines(*parts: str) -> bytes:
    return "\n".join(parts).encode()


# -- Excel


def _workbook(member: str, start: bytes, unit: bytes, count: int, end: bytes) -> bytes:
    """Return a workbook in which one member repeats something."""
    book, buffer, out = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    book.active.append(["Ada"])
    book.save(buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for name in old.namelist():
            if name != member:
                new.writestr(name, old.read(name))
        with new.open(member, "w") as file:
            file.write(start)
            for _ in range(count // 10_000):
                file.write(unit * 10_000)
            file.write(unit * (count % 10_000) + end)
    return out.getvalue()


_SHEET = "xl/worksheets/sheet1.xml"
_SPACE = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def _sheet(unit: bytes, count: int, before: bytes = b"", after: bytes = b"", first: bytes = b"") -> bytes:
    start = first + _SPACE + b"<sheetData>" + before
    return _workbook(_SHEET, start, unit, count, after + b"</sheetData></worksheet>")


def _laughs() -> bytes:
    """Return a document type with entities that expand to 10 to the power of 10 characters."""
    entities = b"".join(b'<!ENTITY e%d "%s">' % (at, b"&e%d;" % (at - 1) * 10) for at in range(1, 10))
    return b'<!DOCTYPE w [<!ENTITY e0 "laughter  ">' + entities + b"]>"


# -- e-mail


def _nested_mail(depth: int, lines: int) -> bytes:
    parts = [f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}" for at in range(depth)]
    return _lines("From: a@b.org", "Subject: A", *parts, "Content-Type: text/plain", "", *["line"] * lines)


def _mail_parts(count: int, header: str) -> bytes:
    part = f"--b\n{header}\n\ntext"
    return _lines(
        "From: a@b.org", "Subject: A", "Content-Type: multipart/mixed; boundary=b", "", *[part] * count, "--b--"
    )


# -- reStructuredText


def _substitutions(levels: int, times: int) -> bytes:
    found = [f".. |s{at}| replace:: {f'|s{at - 1}| ' * times}" for at in range(1, levels)]
    return _lines(
        "Title", "=====", "", "Text by |s" + str(levels - 1) + "|.", "", ".. |s0| replace:: laughter", *found, ""
    )


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "cells without values": ("a.xlsx", lambda: _sheet(b"<c/>", 30_000_000, b"<row>", b"</row>")),
    "a cell of 120 MB": (
        "a.xlsx",
        lambda: _sheet(b"text" * 1_000, 30_000, b'<row><c t="inlineStr"><is><t>', b"</t></is></c></row>"),
    ),
    "entities in a sheet": (
        "a.xlsx",
        lambda: _sheet(b"", 0, b'<row><c t="inlineStr"><is><t>&e9;', b"</t></is></c></row>", _laughs()),
    ),
    "a workbook of many sheets": (
        "a.xlsx",
        lambda: _workbook(
            "xl/workbook.xml",
            b'<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.'
            b'openxmlformats.org/officeDocument/2006/relationships"><sheets>',
            b'<sheet name="a" sheetId="1" r:id="rId1"/>', 2_000, b"</sheets></workbook>",
        ),
    ),
    "multiparts in multiparts": ("a.eml", lambda: _nested_mail(500, 50_000)),
    "parts of a mail": ("a.eml", lambda: _mail_parts(50_000, "Content-Type: text/plain")),
    "long headers of parts": (
        "a.eml",
        lambda: _mail_parts(200, "Content-Disposition: attachment" + "".join(f"; name*{at}*=a" for at in range(1_100))),
    ),
    "comments in the headers of parts": (
        "a.eml", lambda: _mail_parts(500, "Content-Disposition: attachment; filename=" + "(" * 19_000)
    ),
    "an encoding of quadratic time": (
        "a.eml", lambda: b"From: a\nContent-Type: text/plain; charset=punycode\n\n" + b"a-" + b"9a" * 500_000
    ),
    "lists in a notebook": ("a.ipynb", lambda: b'{"cells": ' + b"[" * 900_000),
    "empty lists in a notebook": ("a.ipynb", lambda: b'{"cells": [' + b"[]," * 5_000_000 + b"[]]}"),
    "files included by themselves": ("a.rst", lambda: _lines("A", "=", "", *[".. include:: a.rst"] * 20_000)),
    "files of the system": (
        "a.rst",
        lambda: _lines("A", "=", "", ".. include:: /etc/passwd", "", ".. csv-table::", "   :file: /etc/passwd", "",
                       ".. raw:: html", "   :file: /etc/passwd", "", ".. literalinclude:: /etc/passwd", "", "Text."),
    ),
    "substitutions that multiply": ("a.rst", lambda: _substitutions(10, 50)),
    "substitutions of each other": (
        "a.rst", lambda: _lines("|a|", "", ".. |a| replace:: |b| |b|", ".. |b| replace:: |a| |a|", "")
    ),
    "nested quotations of Markdown": ("a.md", lambda: b"> " * 1_000_000 + b"text"),
    "brackets": ("a.md", lambda: b"[" * 1_000_000 + b"a" + b"](b)" * 250_000),
    "a wide table": ("a.md", lambda: _lines("|" + "a|" * 100_000, "|" + "-|" * 100_000, *["|" + "b|" * 100_000] * 10)),
    "a number of a million digits": ("a.json", lambda: b'{"text": "a", "n": ' + b"9" * 1_000_000 + b"}"),
    "numbers that are infinite": ("a.json", lambda: b'[{"text": "a", "n": 1e999999}]'),
    "empty lists": ("a.json", lambda: b"[" + b"[]," * 20_000_000 + b"[]]"),
    "fields of an object": (
        "a.json", lambda: json.dumps({"text": "a", **{f"field {at}": {"a": [at]} for at in range(500_000)}}).encode()
    ),
}  # fmt: skip
"""The name of a file, and what makes its bytes, by what expands."""


class Outcome(NamedTuple):
    """What became of a bomb: how many documents, the reasons of those refused, and what it cost."""

    documents: int
    reasons: list[str]
    characters: int
    seconds: float
    megabytes: int


def _load(folder: str, pipe: Connection) -> None:
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reasons: list[str] = []
    documents = characters = 0
    for document in load_documents([folder], on_problem=lambda problem: reasons.append(problem.reason)):
        documents += 1
        characters += len(document.text)
        if "root:" in document.text:
            reasons.append("reads files of the system")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1_000
    pipe.send(Outcome(documents, reasons, characters, time.process_time() - start, grown))


def defuse(name: str) -> Outcome | None:
    """Load a bomb in a process with little memory and CPU time; None if the process died."""
    file, make = BOMBS[name]
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, file).write_bytes(make())
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_load, args=(folder, send))
        process.start()
        send.close()
        try:
            found: Outcome | None = receive.recv()
        except EOFError:
            found = None
        process.join()
    return found


def problem(found: Outcome | None) -> str:
    """Return what went wrong with a bomb; empty if it was read, or refused for a reason."""
    if found is None:
        return "the process ran out of time or memory"
    reasons = [reason for reason in found.reasons if "MemoryError" in reason or "of the system" in reason]
    return "; ".join(reasons) or ("" if found.documents or found.reasons else "nothing is said of the file")


def run() -> list[Row]:
    """Load each bomb once; print failures and return counts."""
    failures, seconds, megabytes = 0, 0.0, 0
    for name in BOMBS:
        found = defuse(name)
        if reason := problem(found):
            failures += 1
            print(f"bombs, {name}: {reason}", flush=True)
        if found is not None:
            seconds, megabytes = max(seconds, found.seconds), max(megabytes, found.megabytes)
    return [Row("files that expand", len(BOMBS), failures, f"at most {seconds:.0f} s of CPU time and {megabytes:,} MB")]
