"""The structure of Markdown and plain text, and prose without markup."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_samples import MARKDOWN

from graphrag_core.text.markup import plain
from graphrag_core.text.scanner import BLOCKS, scan


def marked(text, *kinds, markdown=None):
    """Return the kind, the words and the value of marks."""
    return [(m.kind, text[m.start : m.end], m.value) for m in scan(text, markdown) if m.kind in kinds]


def blocks(text, markdown=None):
    return [(kind, words) for kind, words, _ in marked(text, *BLOCKS, markdown=markdown)]


class TestBlocks:
    def test_paragraphs_of_plain_text(self):
        assert blocks("\n One two.\nThree.\n \n\n Four. \n") == [
            ("paragraph", "One two.\nThree."),
            ("paragraph", "Four."),
        ]

    def test_headings_of_both_kinds(self):
        text = "# One #\n\nTwo\n===\n\nThree\n-----\n\n###### Six\n\n标题二\n---\n\n## 配置\n"
        assert [(words, level) for _, words, level in marked(text, "heading")] == [
            ("One", "1"), ("Two", "1"), ("Three", "2"), ("Six", "6"), ("标题二", "2"), ("配置", "2"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "text",
        [
            "This sentence is above a line.\n-----\n\nMore.",
            "Name   Size\n-----------\na      b",
            "- item\n  # nested\n",
            "    # indented\n",
            "# Copyright 2020\n# All rights reserved\n#\n# Provided as is\nint x;",
            "#hashtag\n\n#!/bin/sh\n",
            "# ------\n\ntext",
            "```\n# comment\n```\n",
            "<!--\n\n# hidden\n\n-->\n",
            ":::{code-block} sh\n# comment\n:::\n",
            "---\ntitle: x\n---\ntext",
        ],
    )
    def test_what_is_no_heading(self, text):
        assert marked(text, "heading") == []

    def test_nested_lists_are_items_of_their_own(self):
        text = "- one\n  goes on\n  - two\n\n    more of two\n- three\n\n10. ten\n"
        assert blocks(text) == [
            ("item", "one\n  goes on"), ("item", "two"), ("paragraph", "more of two"),
            ("item", "three"), ("item", "ten"),
        ]  # fmt: skip

    def test_code_without_its_fences(self):
        text = "Run:\n\n```sh\nmake\n\n  make test\n```\n\n~~~\nend"
        assert blocks(text) == [("paragraph", "Run:"), ("code", "make\n\n  make test"), ("code", "end")]

    def test_indented_text_is_code_in_markdown_alone(self):
        text = "Run:\n\n    make\n"
        assert blocks(text, markdown=True)[1] == ("code", "    make")
        assert blocks(text, markdown=False)[1] == ("paragraph", "make")
        assert blocks("# x\n" + text)[-1][0] == "paragraph"
        assert blocks(text + "\n```\nx\n```\n")[1][0] == "code"

    def test_tables(self):
        text = "| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n\n| c | d |\n| 3 | 4 |\n\n+---+\n| x |\n+---+\n"
        assert [kind for kind, _ in blocks(text)] == ["table", "paragraph", "table", "table"]

    def test_definitions_start_with_their_term(self):
        text = "`broker_url`\n: Where the broker is.\n  It may be a list.\n\nA term\n: Its meaning.\n\nNo term.\n: x\n"
        assert blocks(text) == [
            ("definition", "`broker_url`\n: Where the broker is.\n  It may be a list."),
            ("definition", "A term\n: Its meaning."),
            ("paragraph", "No term.\n: x"),
        ]
        assert [value for _, _, value in marked(text, "term")] == ["broker_url", "A term"]

    def test_myst_directives(self):
        text = (
            ":::{note} Mind\nA **note**.\n\n```python\nx\n```\n:::\n\n```{warning}\nCareful.\n```\n\n"
            "```{toctree}\na\nb\n```\n\n```{code-block} sh\n:linenos:\nls\n```\n\nEnd.\n"
        )
        assert blocks(text) == [
            ("paragraph", "A **note**."), ("code", "x"), ("paragraph", "Careful."),
            ("code", ":linenos:\nls"), ("paragraph", "End."),
        ]  # fmt: skip

    def test_lines_may_end_in_any_way(self):
        text = "# One\n\n- two\n- three\n\n```\nfour\n\nfive\n```\n\nSix\nseven.\n"
        found = [(kind, words.split()) for kind, words in blocks(text)]
        for end in ("\r\n", "\r"):
            assert [(kind, words.split()) for kind, words in blocks(text.replace("\n", end))] == found


class TestInlineMarks:
    def test_links_of_all_kinds(self):
        text = (
            'See [a](b.md#c "title"), [d][ref], [ref], [[Page|page]], {ref}`words <label>`, {doc}`/e/f`, '
            "<https://g.h/>, https://i.j/k. Not ![image](l.png), `[m](n.md)`, [o] or \\[p](q.md).\n\n"
            '<a href="r.html">s</a>\n\n[ref]: http://t.u\n'
        )
        assert [(words, value) for _, words, value in marked(text, "link")] == [
            ("a", "b.md#c"), ("d", "http://t.u"), ("ref", "http://t.u"), ("page", "Page"), ("words", "label"),
            ("/e/f", "/e/f"), ("https://g.h/", "https://g.h/"), ("https://i.j/k", "https://i.j/k"), ("s", "r.html"),
        ]  # fmt: skip

    def test_brackets_that_are_no_links(self):
        text = "The [Ca(2+)](i) level and [GHS-R](-/-) mice [1], ``quoted'' and ``more''."
        assert marked(text, "link", "literal") == []
        assert plain(text) == text

    def test_code_is_literal(self):
        text = "Set `a_b` or ``c`d`` in {class}`~e.F`, [`g`](h.md)."
        assert [words for _, words, _ in marked(text, "literal")] == ["a_b", "c`d", "e.F", "g"]

    def test_terms_that_are_explained(self):
        text = "- **Term**: x\n- *name* - y\n- `code`: z\n- **Inside:** w\n- **Bold** text\n\n## broker_url\n\n## Two\n"
        assert [value for _, _, value in marked(text, "term")] == ["Term", "name", "code", "Inside", "broker_url"]


class TestPlain:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("# A *b* c #\n\nText", "A b c\n\nText"),
            ("- one\n* two\n> three", "one\ntwo\nthree"),
            ("**bold**, *it*, ***both***, _em_, __two words__", "bold, it, both, em, two words"),
            ("`code` ``a`b`` {ref}`x <y>` {class}`~a.B`", "code a`b x a.B"),
            ("[a](b.md) ![c](d.png) [e][f] [[g|h]] <http://i.j>", "a c e h http://i.j"),
            ("x<br>y <b>z</b>1 H<sub>2</sub>O", "x y z1 H2O"),
            ("| a | b |\n|---|:-:|\n| c | d |", "a  b\n\nc  d"),
            ("```python\nx = a[0](b) # c\n```\nend", "x = a[0](b) # c\n\nend"),
            ("Term\n: meaning", "Term\nmeaning"),
            ("Title\n=====\n\ntext", "Title\n\ntext"),
            (":::{note}\ntext\n:::", "text"),
            ("[](#a.b) is `c`", "a.b is c"),
            ("**粗体**文字", "粗体文字"),
            ("a &amp; `b`", "a & b"),
        ],
    )
    def test_leaves_what_is_read(self, text, expected):
        assert plain(text) == expected


@settings(max_examples=300, deadline=None)
@given(MARKDOWN, st.sampled_from([None, True, False]))
def test_marks_are_in_range_and_blocks_do_not_overlap(text, markdown):
    marks = scan(text, markdown)
    assert all(0 <= mark.start <= mark.end <= len(text) for mark in marks)
    assert [mark.start for mark in marks] == sorted(mark.start for mark in marks)
    found = [mark for mark in marks if mark.kind in BLOCKS]
    assert all(a.start < a.end <= b.start for a, b in pairwise(found))
