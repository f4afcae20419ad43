"""Hostile texts: everything that reads text takes time in proportion to its length and raises nothing but our errors.

Time does not decide these tests. A reader runs on 300 kB in a process whose CPU time is limited to what a reader of
linear time needs several times over. One of quadratic time would need 30 times the limit: at 10 ns a step, 300 kB take
900 seconds. ``make torture`` takes 1 MB.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torture.hostile import BLOCKS, build, text_readers

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import GraphRAGError
from graphrag_core.testing import HashEmbedder

READERS = text_readers()
SIZE = 300_000  # characters
LIMIT = 30  # seconds of CPU time

# What took quadratic time or more, and the readers that it did so in.
ATTACKS = {
    "a file's name of digits": ("title_of name", ("data", "1", "A")),
    "spaces in a title": ("titled", ("a", " ", "b")),
    "spaces in a parenthesis": ("titled", ("a", "\t", "b")),
    "sections in a title": ("titled", ("", "1.1", "x")),
    "a word of digits": ("split and extract", ("a", "1", "A")),
    "names and places": ("extract prose", ("", "Ab Cd in ", "")),
    "a name before many places": ("extract prose", ("", "Ab Cd at Ef in ", "")),
    "katakana": ("split and extract", ("", "ア", "")),
    "a question of letters": ("recognise", ("", "é", "")),
    "quotation marks": ("split and extract", ("", "《》", "")),
    "a heading with spaces": ("read_markdown", ("# a", " ", "b")),
    "comments": ("read_markdown", ("", "<!--", "")),
    "images": ("read_markdown", ("# ", "![a", "")),
    "fences": ("read_markdown", ("", "```\n", "x")),
    "a fence with spaces": ("scan", ("```", " ", "`")),
    "a rule with spaces": ("scan", ("---", " ", "x")),
    "a target with spaces": ("scan", ("[a](", " ", "#")),
    "a directive with spaces": ("scan", (":::", " ", "!")),
    "a line of spaces": ("scan", ("a\n", " ", "x")),
    "roles of rst": ("read_rst", ("A\n===\n", ":a-", "")),
    "titles": ("highlight", ("", "Ab\n", "")),
    "a version": ("extract prose", ("added in 1", "1", "!")),
    "a call": ("extract prose", ("(", "a[", "x")),
    "combining characters": ("titled", ("a", "\u0300\u0323", "")),
    "line breaks": ("extract", ("# a\n\nb\n- c", " ", "d\ne")),
    "nested elements": ("read_html", ("", "<div>", "x")),
    "nested lists": ("read_html", ("", "<ul><li>a", "")),
    "elements that are not closed": ("read_html", ("", "<font a><p>", "x")),
    "bold lines": ("read_html", ("", "<p><b>a</b></p>", "")),
    "comments before a page": ("raw_html", ("", "<!---->", "")),
    "headings": ("split", ("", f"# {'a ' * 30}\n\n", "")),
    "roles of docutils": ("read_rst", ("", f"{'``a ' * 20}\n", "")),
    "nested items": ("read_rst", ("", "- ", "a")),
}


def _run(name: str, parts: tuple[str, str, str], size: int) -> None:
    import resource  # Windows has none

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    READERS[name](build(parts, size))


def _finishes(name: str, parts: tuple[str, str, str], size: int) -> bool:
    process = multiprocessing.get_context("fork").Process(target=_run, args=(name, parts, size))
    process.start()
    process.join()
    return process.exitcode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on CPU time")
@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_is_read_in_linear_time(attack):
    assert _finishes(*ATTACKS[attack], SIZE), f"{attack}: more than {LIMIT} s of CPU time"


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from(BLOCKS), max_size=12), st.sampled_from(sorted(READERS)))
def test_readers_raise_nothing_but_our_errors(blocks, name):
    with contextlib.suppress(GraphRAGError):
        READERS[name]("".join(blocks))


@pytest.mark.parametrize(
    "text", ["`\t\t`", "Auth Service `\t\t` uses Redis.", "# `\t\t`\n\n- `\t\t`", "| `\t\t` |\n|---|\n"]
)
def test_blank_code_is_indexed(text):
    index = KnowledgeIndex(HashEmbedder())
    index.add([Document("1", text)])
    assert len(index) == 1
