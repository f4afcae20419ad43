"""Terms as they are stored: packed hashes of chunks and of their facts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphrag_core.engine.analysis import (
    content_terms,
    matched,
    terms_of_names,
)
from graphrag_core.text import normalise

WORDS = st.sampled_from(
    "the Carol's brokerUrl broker_url celery.broker-url running runs Ångström 大学 北京大学 中文_name X 2005 A1b2 "
    "naïve re-run don’t C++ v1.2 — HTTPServer of why Doe does".split()
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def test_stop_words_are_left_out_before_their_stems_look_like_other_words():
    assert content_terms("Why does John Doe not sleep?") == ("john", "doe", "sleep")
    assert content_terms("being, having and doing") == ()


@given(TEXTS.map(normalise))
def test_the_terms_of_a_name_are_those_of_its_text(name):
    terms = content_terms(name)
    owners, numbers = terms_of_names(["other", name])
    assert sorted(matched(numbers[owners == 1], terms).tolist()) == list(range(len(terms)))
