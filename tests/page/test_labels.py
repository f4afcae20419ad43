"""Labels fit their boxes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_apps.page.labels import is_right_to_left, shorten, width, wrap


@given(st.text(), st.floats(3, 40), st.integers(1, 5))
def test_no_line_is_too_wide_and_there_are_never_too_many(text, room, most):
    lines = wrap(text, room, most)
    assert 1 <= len(lines) <= most
    assert all(width(line) <= room for line in lines)


@given(st.text(), st.integers(1, 5))
def test_only_the_end_is_cut(text, most):
    lines = wrap(text, 10, most)
    kept = "".join("".join(lines).split())
    whole = "".join(text.split())
    assert kept == whole or whole.startswith(kept.removesuffix("…"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("Partner Portal", ["Partner Portal"]),
        ("ADR-007 One identity vendor", ["ADR-007 One", "identity vendor"]),
        ("认证服务的登录流程与密钥环公司", ["认证服务的登录流程", "与密钥环公司"]),
        ("Donaudampfschifffahrtsgesellschaft", ["Donaudampfschifff", "ahrtsgesellschaft"]),
    ],
)
def test_words_stay_whole_where_they_can(text, lines):
    assert wrap(text, 9.9, 2) == lines


def test_a_grapheme_is_never_split():
    astronaut = "👩🏽\u200d🚀"
    for room in range(2, 30):
        kept = shorten(astronaut * 9, room).removesuffix("…")
        assert kept == astronaut * (len(kept) // len(astronaut))
    assert shorten("e\u0301" * 20, 4).removesuffix("…") == "e\u0301" * 5


def test_the_first_letter_decides_the_direction_of_a_line():
    assert is_right_to_left("שירות (Auth)")
    assert not is_right_to_left("Auth שירות")
    assert not is_right_to_left("123 …")
