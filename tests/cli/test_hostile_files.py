"""Hostile files: each has limits, costs one line in the report, and the run goes on."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import resource
import zipfile
from pathlib import Path

import openpyxl
import pytest
from commands import run_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torture import bombs
from torture.hostile import file_seeds, mutate

from graphrag_apps.documents import load_documents

MEMORY = 1_500_000_000  # bytes of address space beyond what the process has
SEEDS = file_seeds()


def load(folder):
    problems = []
    return {document.id: document for document in load_documents([folder], on_problem=problems.append)}, problems


def replaced(data, name, old, new):
    """Return a zipped file with a text in one member replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as package, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed:
        for member in package.namelist():
            content = package.read(member)
            changed.writestr(member, content.replace(old, new, 1) if member == name else content)
    return out.getvalue()


def _load_in_little_memory(folder, connection):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    documents, problems = load(folder)
    connection.send((sorted(documents), [problem.reason for problem in problems]))


def load_in_little_memory(folder):
    receive, send = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_load_in_little_memory, args=(folder, send))
    process.start()
    send.close()
    found = receive.recv()
    process.join()
    return found


def test_a_cell_that_spans_a_billion_columns_is_one_cell(tmp_path):
    span = replaced(
        SEEDS["a.docx"], "word/document.xml", b'<w:gridSpan w:val="2"/>', b'<w:gridSpan w:val="999999999"/>'
    )
    assert b"999999999" in zipfile.ZipFile(io.BytesIO(span)).read("word/document.xml")
    (tmp_path / "a.docx").write_bytes(span)
    assert load_in_little_memory(tmp_path) == (["a.docx"], [])


@pytest.mark.parametrize(
    ("name", "member", "megabytes"),
    [("a.docx", "bomb.xml", 61), ("a.docx", "xl/worksheets/bomb.xml", 61), ("a.epub", "bomb.xml", 501)],
)
def test_packages_that_unpack_to_too_much_are_refused(tmp_path, name, member, megabytes):
    out = io.BytesIO(SEEDS[name])
    with (
        zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as package,
        package.open(member, "w") as bomb,
    ):
        bomb.write(b"<a>")
        for _ in range(megabytes):
            bomb.write(b"text" * 250_000)
    (tmp_path / name).write_bytes(out.getvalue())
    (tmp_path / "good.md").write_text("# Good\n\nA good one.")
    documents, reasons = load_in_little_memory(tmp_path)
    assert documents == ["good.md"]
    assert len(reasons) == 1
    assert "unpacks to" in reasons[0]


def test_a_package_of_millions_of_elements_is_refused(tmp_path):
    many = replaced(SEEDS["a.docx"], "word/document.xml", b"<w:body>", b"<w:body>" + b"<w:p/>" * 7_000_000)
    (tmp_path / "a.docx").write_bytes(many)
    documents, reasons = load_in_little_memory(tmp_path)
    assert (documents, len(reasons)) == ([], 1)
    assert "XML tags" in reasons[0]


def test_a_cell_far_away_does_not_make_billions_of_empty_ones(tmp_path):
    book = openpyxl.Workbook()
    book.active["A1"] = "Ada"
    book.active["XFD1048576"] = "Bo"
    book.save(tmp_path / "a.xlsx")
    documents, reasons = load_in_little_memory(tmp_path)
    assert documents == ["a.xlsx#text"] or "cells" in reasons[0]
    far = replaced((tmp_path / "a.xlsx").read_bytes(), "xl/worksheets/sheet1.xml", b'r="1048576"', b'r="99999999999"')
    (tmp_path / "a.xlsx").write_bytes(far)
    documents, reasons = load_in_little_memory(tmp_path)
    assert (documents, len(reasons)) == ([], 1)


def test_bad_files_cost_one_line_each_and_the_run_goes_on(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "number.json").write_text('{"text": "a", "n": ' + "9" * 5_000 + "}")
    (docs / "nested.json").write_text("[" * 200_000)
    (docs / "page.json").write_text(json.dumps({"text": "A text by Ada.", "page": "9" * 5_000}))
    (docs / "rows.csv").write_text("a,b\n" + "1,2,3\n" * 5_000)
    (docs / "wide.csv").write_text("a," * 20_000 + "\n" + "1," * 20_000 + "\n")
    (docs / "mail.eml").write_text("From: a\nSubject: " + "(" * 500_000 + "\n\nb")
    (docs / "deep.html").write_text("<div>" * 100_000 + "deep down")
    (docs / "formatted.html").write_text("".join(f"<font a{i}><p>" for i in range(20_000)) + "below")
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff.md")).write_text("# Not UTF-8")
    (docs / "good.md").write_text("# Good\n\nA good one by Ada Lovelace.")
    found, problems = load(docs)
    assert set(found) == {"good.md", "page.json", "deep.html", "formatted.html"}
    assert found["deep.html"].text == "deep down"
    reasons = {Path(problem.path).name: problem.reason for problem in problems}
    assert set(reasons) >= {"number.json", "nested.json", "mail.eml", "\ufffd.md"}
    assert sum(problem.path.startswith(str(docs / "rows.csv")) for problem in problems) == 21
    assert "4,980 more of its rows" in reasons["rows.csv"]
    assert "has 20,001 columns, at most 10,000 are possible" in reasons["wide.csv"]
    result = run_command("index", docs, "--kb", tmp_path / "kb", "--embedder", "hash")
    assert "4 added" in result.output


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "a.md")
    found, problems = load(tmp_path / "a.md")
    assert (found, [problem.reason for problem in problems]) == ({}, ["not a regular file"])


def test_a_codec_that_no_file_is_written_in_is_not_used(tmp_path):
    (tmp_path / "a.html").write_bytes(b"<meta charset=punycode><p>" + b"a-\xff" * 100_000)
    found, problems = load(tmp_path)
    assert len(found) + len(problems) == 1


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.sampled_from(sorted(SEEDS)), st.integers(0, 2**32))
def test_damaged_files_give_documents_or_a_line(tmp_path, name, seed):
    folder = tmp_path / f"{name}-{seed}"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(mutate(SEEDS[name], random.Random(seed)))
    found, problems = load(folder)
    assert found or problems


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cells without values", "XML tags"),
        ("a workbook of many sheets", "more than 1,000 sheets"),
        ("parts of a mail", "more than 1,000 parts"),
        ("multiparts in multiparts", "nested"),
        ("long headers of parts", "a part whose header"),
        ("comments in the headers of parts", "a part whose header"),
        ("an encoding of quadratic time", ""),
        ("empty lists", "lists and objects"),
        ("empty lists in a notebook", "lists and objects"),
        ("lists in a notebook", "recursion"),
        ("substitutions that multiply", ""),
        ("substitutions of each other", ""),
        ("files of the system", ""),
        ("nested quotations of Markdown", ""),
        ("brackets", ""),
        ("numbers that are infinite", "n"),
    ],
)
def test_a_small_file_that_expands_is_read_or_refused_in_little_memory_and_time(name, reason):
    found = bombs.defuse(name)
    assert not bombs.problem(found)
    assert any(reason in one for one in found.reasons) if reason else found.documents == 1
