"""A text can never become markup."""

from __future__ import annotations

import pytest
from answers import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from parsed import parse

from graphrag_core.query.drawing.markup import Markup, escape, tag, together


@given(st.text())
def test_any_text_comes_back_as_text_from_between_tags_and_from_attributes(text):
    element = parse(tag("p", text, title=text)).one("p")
    shown = escape(text)
    assert all(sign not in shown for sign in "<>\"'")
    assert element.children in ([element.text], [])
    assert element.text == element.attributes["title"]
    if not any(
        ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 or 0xD800 <= ord(sign) < 0xE000 or ord(sign) > 0xFFFD
        for sign in text
    ):
        assert element.text == text


def test_what_no_file_can_hold_is_replaced():
    assert escape("a\x00b\ud800c\x1bd\x85e") == "a\ufffdb\ufffdc\ufffdd\ufffde"
    assert escape("line\n\ttab") == "line\n\ttab"
    escape("\udcff").encode()


def test_markup_that_is_glued_to_a_text_is_a_text_again():
    assert type(tag("b", "x") + "y") is str
    assert escape(tag("b", "x") + HOSTILE).startswith("&lt;b&gt;x")
    assert escape(f"{tag('b', 'x')}") == "&lt;b&gt;x&lt;/b&gt;"


def test_markup_is_taken_as_it_is_and_only_once_escaped():
    assert tag("p", tag("b", "R&D")) == "<p><b>R&amp;D</b></p>"
    assert together(["<", Markup("<br>")], "&") == "&lt;&amp;<br>"


@pytest.mark.parametrize(
    ("value", "written"), [(1, "1"), (1.25, "1.2"), (-0.04, "0"), (1e7 + 0.26, "1e+07"), ("1e7", "1e7")]
)
def test_numbers_are_short(value, written):
    assert tag("br", x=value) == f'<br x="{written}">'
