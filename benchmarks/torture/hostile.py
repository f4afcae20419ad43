"""Attack everything that reads text with adversarial inputs, and report what fails or takes more than linear time.

An input is ``prefix + unit * count + suffix``, or random text, built from the characters and words that the regular
expressions of the readers treat specially. Each reader runs on an input and on one four times as long. An exception
that is not ours is a failure, and so is CPU time that grows with a power of more than 1.5, at this size and again at
one four times as long. A reader that does not come back within ``_LIMIT`` seconds of CPU time is killed, and its
input is a failure.

Files (docx, xlsx, pptx, epub, pdf, JSON, CSV ...) are mutated and must give documents or one line each that says why
not.
"""

from __future__ import annotations

import io
import itertools
import math
import multiprocessing
import random
import re
import signal
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import docx
import openpyxl
import pptx

from graphrag_apps.documents import containers, load_documents, plain, rows, rst
from graphrag_apps.page import labels
from graphrag_core import Hit, Result
from graphrag_core.context.display import Highlighter
from graphrag_core.engine import analysis
from graphrag_core.errors import GraphRAGError
from graphrag_core.extract import SentenceExtractor
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.titles import title_of
from graphrag_core.model import Chunk, Document, Mark
from graphrag_core.query import recognise, routing
from graphrag_core.text import html
from graphrag_core.text.scanner import scan
from torture.report import Row

BLOCKS = (
    *"`*_[]()<>!#|~:=-+.,;'\"“”’\\/&%@${}^?",
    *" \t\n\r\v\u2028\u3000\u2010\x01¶→¿…",
    *"aAz1éÉßvhx",
    *"中的ア・·《》「」。！有市",
    "\n\n", "\r\n", "\n    ", "\n   ", "\n\t", "\n ", "  ", " a ", " A ", " 1 ",
    "# ", "\n# ", "## a\n", "> ", "\n> ", "- ", "\n- ", "1. ", "\n1. ", "* ", "\n* ", ": ", "\n: ", "| ", "\n|",
    "a|b\n",
    "```", "\n```", "~~~", "\n~~~", ":::", "\n:::", "---\n", "===\n", "\na\n===", "\na\n---", "```{x}\n",
    "](", "][", "]: ", "[a](", "[a]", "![", "[[", "]]", "{#", "{a}`", ")=\n", "(a)=\n", "<a", "<a ", "<a>", "</a>",
    "<h1>",
    "</h1>", "<!--", "-->", "<!", "<b", "<div>", "</div>", "<p>", "<ul><li>", "<table>", "<tr>", "<td>",
    "<dl><dt>", "<dd>",
    "<pre>", "<code>", "<sup>", "<script>", "<title>", "<header>", "<div class=nav>", "<a href=#x>", "<a name=x>",
    "<p><b>a</b></p>", "<ul><li><a href=#x>", "<blockquote>", "<span>", "<font>", "<i>", "<details>", "<p id=x>",
    ".. ", "\n.. ", "::", "\n.. a::", "\n.. _a:", ":a:`", "`a <", ">`_", "|a|", "``", "''", "\n:a: ", "[#]_", "_a",
    "a_", "a__",
    "http://", "https://a", "mailto:", "://", "&#1;", "&amp;", "%41", "title:", "title: a\n", "Mr.", "A.", "e.g.",
    "the ", "of ",
    "in 1", "Copyright ", " version ", "©", "(c) ", "see ", "version 1.", "chapter ", "page 1 ", "data1", "tmp",
    "(1)", "A(1) ",
    "Ab ", "Ab", "aB", "a1", "a.b", "a-1", "a_b", "1.1", "1,", "--a", "a(", "a[", "a=",
    "·中", "有限公司", "公司", "大学",
    "[a]: b\n", "\n[a]: b", "a:\n", "(a)=\n x", "<!---->", "<p class=toc>", "<br>", "\u0300", "\u0323", "\ufdfa",
    "Mara Lindqvist ", "a b. ", "A b. ", "word ", "A b c d e f. ", "'s", " is ", "NAME\n   ", ". . ", "....",
    '"a"', "“a”",
)  # fmt: skip
"""What inputs are built from."""

_LIMIT = 5.0  # seconds of CPU time of one call
_PATIENCE = 300.0  # seconds for a call that cannot be interrupted, because it is in C
_SMALL = 0.02  # seconds: what takes less is not measured
_STEEP = 1.5  # the power of growth that is too much
_FACTOR = 4
_SIZE = 16_000  # characters


def text_readers() -> dict[str, Callable[[str], object]]:
    """Return the functions that read text, each as a function of one text."""
    extractor, chunker = SentenceExtractor(), Chunker()

    def extract(text: str) -> object:
        return extractor.extract([whole_document(Document("a.md", text, metadata={"source": "a/b.md"}))])

    def extract_prose(text: str) -> object:
        return extractor.extract([Chunk("1", "1", text)])

    def extract_chunks(text: str) -> object:
        return extractor.extract(chunker.split(Document("1", text)))

    def show(text: str) -> object:
        result = Result("Who is Ab of A?", "hybrid", hits=(Hit(Chunk("1", "1", text, text[:200]), 1.0),))
        shown = Highlighter(result)
        return shown.snippet(result.hits[0], 300), shown.sentence(result.hits[0]), list(shown.pieces(text))

    def context(text: str) -> object:
        hits = (Hit(Chunk("1", "1", text, "Ab"), 1.0),)
        result = Result("Who is Ab of A?", "hybrid", hits=hits)
        return [result.context(max_tokens=size, style="passages") for size in (20, 2_000)]

    def marked(text: str) -> object:
        return extractor.extract(
            [Chunk("1", "1", text, marks=(Mark("table", 0, len(text)), Mark("code", 0, len(text))))]
        )

    return {
        "scan": lambda text: (scan(text), scan(text, markdown=True)),
        "extract": extract,
        "extract prose": extract_prose,
        "extract marked": marked,
        "split": lambda text: chunker.split(Document("1", text)),
        "split and extract": extract_chunks,
        "title_of text": lambda text: title_of(Document("1", text)),
        "title_of name": lambda text: title_of(Document("1", "a", metadata={"source": text})),
        "title_of key": lambda text: title_of(Document("1", "a", metadata={"h" + text: text, "header_path": text})),
        "titled": lambda text: extractor.extract(
            [Chunk("1", "1", "It is a sentence about Ab.", text, headings=(text,))]
        ),
        "analysis": lambda text: (analysis.terms(text), analysis.phrases(text), analysis.hashes(text)),
        "recognise": lambda text: recognise._candidates(text, 7),  # noqa: SLF001
        "route": lambda text: routing.Router().route(text),
        "highlight": show,
        "context": context,
        "labels": lambda text: (labels.shorten(text, 20), labels.wrap(text, 20, 3)),
        "read_text": lambda text: plain.read_text(_bytes(text)),
        "read_markdown": lambda text: plain.read_markdown(_bytes(text)),
        "read_rst": lambda text: rst.read_rst(_bytes(text)),
        "read_html": lambda text: html.read_html(_bytes(text)),
        "raw_html": lambda text: html.readable(Document("1", text or "a")),
        "raw_html page": lambda text: html.readable(Document("1", "<html>" + text)),
        "read_eml": lambda text: containers.read_eml(b"From: a\nSubject: " + _bytes(text)),
        "row": lambda text: rows.row_content({"name": text, text: text, "metadata": {"title": text}}, 1),
        "read_json": lambda text: list(rows.read_json(_bytes(text))),
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@dataclass
class Report:
    """What an attack found."""

    inputs: int = 0
    failures: list[str] = field(default_factory=list)
    steepest: float = 1.0  # the greatest power of growth


class _TooSlow(Exception):
    pass


def _stop(_: int, __: FrameType | None) -> None:
    raise _TooSlow


def _time(read: Callable[[str], object], text: str) -> tuple[float, str]:
    """Return the CPU time of a call and what went wrong."""
    signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT)
    start = time.process_time()
    problem = ""
    try:
        read(text)
    except GraphRAGError:
        pass
    except _TooSlow:
        problem = "too slow"
    except Exception as error:  # noqa: BLE001 - it is what this looks for
        problem = f"{type(error).__name__}: {error}"[:120]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - start, problem


def inputs(generator: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield prefix, unit and suffix: each block and pair alone first, in random order, then random ones for ever."""
    pairs = [("", "".join(pair), "") for pair in itertools.product(BLOCKS, repeat=2)]
    generator.shuffle(pairs)
    yield from (("", block, "") for block in BLOCKS)
    for pair in pairs:
        yield pair
        yield (
            "".join(generator.choices(BLOCKS, k=generator.randint(0, 2))),
            "".join(generator.choices(BLOCKS, k=generator.randint(1, 3))),
            "".join(generator.choices(BLOCKS, k=generator.randint(0, 2))),
        )


def build(parts: tuple[str, str, str], size: int) -> str:
    """Return an input of about ``size`` characters."""
    prefix, unit, suffix = parts
    return prefix + unit * max(1, size // len(unit)) + suffix


def growth(read: Callable[[str], object], parts: tuple[str, str, str], size: int) -> tuple[float, float, str]:
    """Return the power with which CPU time grows up to ``size``, the time at ``size``, and what went wrong.

    Steep growth is measured again at a larger size. Quadratic time remains steep there. A pause of the machine, or a
    cost that sets in at some length, does not.
    """
    took, problem = _time(read, build(parts, size))
    if problem and problem != "too slow":
        return 0.0, took, problem
    if took < _SMALL:
        return 0.0, took, ""
    power = _power(read, parts, size)
    if power >= _STEEP and not problem:
        power = min(power, _power(read, parts, size * _FACTOR))
    return power, took, problem if power >= _STEEP else ""


def _power(read: Callable[[str], object], parts: tuple[str, str, str], size: int) -> float:
    """Return the power with which CPU time grows from a quarter of a size to this size: the least of three."""
    powers: list[float] = []
    while len(powers) < 3 and (not powers or min(powers) >= _STEEP):
        short, long = (_time(read, build(parts, length))[0] for length in (size // _FACTOR, size))
        powers.append(math.log(max(long, 1e-6) / max(short, 1e-6), _FACTOR) if long >= _SMALL else 0.0)
    return min(powers)


def _attack(pipe: Connection, name: str, seconds: float, seed: int, size: int, timed: bool) -> None:
    """Attack one reader for some time, and send what is done: ("try", parts), then ("done", power, time, problem)."""
    signal.signal(signal.SIGVTALRM, _stop)
    read = text_readers()[name]
    _time(read, "A b.")  # what is loaded once
    end = time.monotonic() + seconds
    for parts in inputs(random.Random(seed)):
        if time.monotonic() > end:
            break
        pipe.send(("try", parts))
        pipe.send(("done", *(growth(read, parts, size) if timed else (0.0, *_time(read, build(parts, size))))))
    pipe.send(("end",))


def _attack_text(report: Report, name: str, seconds: float, seed: int, size: int, timed: bool) -> None:
    """Attack one reader in a separate process, and add what was found to the report."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_attack, args=(send, name, seconds, seed, size, timed))
    process.start()
    send.close()
    parts: Any = None
    while True:
        try:
            if not receive.poll(_PATIENCE):
                report.failures.append(f"{name}: does not come back from {parts!r}")
                process.kill()
                break
            message = receive.recv()
        except EOFError:
            report.failures.append(f"{name}: the process died with {parts!r}")
            break
        if message[0] == "end":
            break
        if message[0] == "try":
            parts = message[1]
            report.inputs += 1
            continue
        power, took, problem = message[1:]
        if problem or power > _STEEP:
            report.failures.append(f"{name}: {problem or 'superlinear'}: {power:.2f}, {took:.2f} s: {parts!r}")
        report.steepest = max(report.steepest, power)
    process.join()


# -- files


def file_seeds() -> dict[str, bytes]:
    """Return a small sound file of each format, by its name."""
    seeds = {
        "a.md": b"---\ntitle: A\n---\n# A\n\nText by [Ada](b.md).\n",
        "a.rst": b"A\n=\n\nText by :ref:`Ada <b>`.\n\n.. note:: b\n",
        "a.html": b"<html><title>A</title><body><h1>A</h1><ul><li>b<table><tr><td>c<td>d</table></body>",
        "a.json": b'[{"id": 1, "title": "A", "text": "Text by Ada.", "tags": [1, {"b": 2.5}]}]',
        "a.jsonl": b'{"id": 1, "text": "Text by Ada."}\n{"id": 2, "text": "b"}\n',
        "a.csv": b"id,name,text\n1,Ada,Text by Ada\n2,Bo,b\n",
        "a.ipynb": b'{"cells": [{"cell_type": "heading", "level": 2, "source": ["A"]}], "metadata": {}}',
        "a.eml": b"From: a@b.org\nTo: b@c.org\nSubject: A\nContent-Type: text/plain\n\nText by Ada.\n",
    }
    buffer = io.BytesIO()
    document = docx.Document()
    document.add_heading("A", 1)
    document.add_paragraph("Text by Ada.")
    table = document.add_table(2, 2)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "b"
    document.save(buffer)
    seeds["a.docx"] = buffer.getvalue()
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in (("id", "name"), (1, "Ada"), (2, "Bo")):
        book.active.append(row)
    book.save(buffer)
    seeds["a.xlsx"] = buffer.getvalue()
    slides, buffer = pptx.Presentation(), io.BytesIO()
    slides.slides.add_slide(slides.slide_layouts[1]).shapes.title.text = "A"
    slides.save(buffer)
    seeds["a.pptx"] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("META-INF/container.xml", '<c><rootfile full-path="p.opf"/></c>')
        package.writestr(
            "p.opf",
            '<p xmlns="x"><title>A</title><item id="1" href="1.xhtml"/><itemref idref="1"/></p>',
        )
        package.writestr("1.xhtml", "<html><body><h1>A</h1>Text by Ada.</body></html>")
    seeds["a.epub"] = buffer.getvalue()
    return seeds


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Return a damaged or hostile variant of a file. The members of a zipped one are changed inside."""
    if data.startswith(b"PK") and generator.random() < 0.8:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
            names = old.namelist()
            chosen = set(generator.sample(names, k=min(len(names), generator.randint(1, 3))))
            for name in names:
                content = old.read(name)
                new.writestr(name, _mutate_bytes(content, generator) if name in chosen else content)
        return out.getvalue()
    return _mutate_bytes(data, generator)


def _mutate_bytes(data: bytes, generator: random.Random) -> bytes:
    for _ in range(generator.randint(1, 4)):
        at, length = generator.randrange(len(data) + 1), generator.choice((1, 4, 30, 200))
        piece = data[at : at + length]
        kind = generator.randrange(6)
        if kind == 0:
            data = data[:at] + generator.randbytes(length) + data[at + length :]
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[:at] + piece * generator.choice((2, 50, 3_000)) + data[at + length :]
        elif kind == 3:
            number = generator.choice((b"-1", b"2147483647", b"99999999999999", b"9" * 5_000, b"1e400", b"0"))
            data = re.sub(rb"\d+", number, data, count=generator.randint(1, 5))
        elif kind == 4:
            block = generator.choice(BLOCKS).encode("utf-8", "replace")
            data = data[:at] + block * generator.choice((1, 100, 5_000)) + data[at:]
        else:
            data = data[: max(at, 1)]
    return data


def _attack_files(report: Report, seconds: float, seed: int) -> None:
    """Mutate files, and load each folder of them: whatever they hold, loading goes on and says what it left out."""
    generator = random.Random(seed)
    seeds = file_seeds()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            for name, data in seeds.items():
                Path(folder, name).write_bytes(mutate(data, generator))
                report.inputs += 1
            seen: set[str] = set()
            try:
                documents = load_documents([folder], on_problem=lambda problem: seen.add(Path(problem.path).name))  # noqa: B023
                seen.update(document.id for document in documents)
            except Exception as error:  # noqa: BLE001 - it is what this looks for
                report.failures.append(f"files: {type(error).__name__}: {error}"[:200])
                continue
            found = {name.partition("#")[0] for name in seen}
            report.failures += [f"files: nothing is said of {name}" for name in seeds.keys() - found]


def run(seconds: float, seed: int | None = None, *, timed: bool = True) -> list[Row]:
    """Attack with a random seed; print failures and return counts. A fifth of the time goes to files.

    Unless ``timed``, the growth of time with length is not a failure.
    """
    seed = random.SystemRandom().randrange(1 << 30) if seed is None else seed
    texts, files, readers = Report(), Report(), text_readers()
    for name in readers:
        _attack_text(texts, name, 0.8 * seconds / len(readers), seed, _SIZE, timed)
    _attack_files(files, 0.2 * seconds, seed)
    print(f"seed of the hostile input: {seed}", *texts.failures, *files.failures, sep="\n", flush=True)
    grows = f"time grows at most with length to the {texts.steepest:.1f}" if timed else "read, growth not measured"
    return [
        Row("hostile texts", texts.inputs, len(texts.failures), grows),
        Row("hostile files", files.inputs, len(files.failures), "read, or left out with one line"),
    ]
