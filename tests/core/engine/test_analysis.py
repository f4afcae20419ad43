"""Terms as they are stored: packed hashes of chunks and of their facts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphrag_core.engine.analysis import (
    TermTable,
    content_terms,
    is_packed,
    matched,
    pack_terms,
    term_places,
    terms_of_names,
)
from graphrag_core.text import normalise

WORDS = st.sampled_from(
    "the Carol's brokerUrl broker_url celery.broker-url running runs Ångström 大学 北京大学 中文_name X 2005 A1b2 "
    "naïve re-run don’t C++ v1.2 — HTTPServer of why Doe does".split()
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=9)), max_size=6), st.lists(TEXTS, max_size=3))
def test_packed_terms_are_those_of_the_texts(chunks, questions):
    packed = [pack_terms(text, facts) for text, facts in chunks]
    wanted = list(dict.fromkeys(term for text in [*questions, *(t for t, _ in chunks)] for term in content_terms(text)))
    expected = [[term in content_terms(text) for term in wanted] for text, _ in chunks]
    assert (term_places([terms for terms, _ in packed], wanted) >= 0).tolist() == expected
    assert all(is_packed(terms, own, len(facts)) for (terms, own), (_, facts) in zip(packed, chunks, strict=True))
    places = [(at, ordinal) for at, (_, facts) in enumerate(chunks) for ordinal in range(len(facts))]
    places.reverse()  # facts are asked for in any order
    at, ordinals = np.array(places, np.int64).reshape(-1, 2).T
    table = TermTable([(terms, own or b"", b"") for terms, own in packed], wanted)
    assert table.contained.tolist() == expected
    assert table.of_facts(at, ordinals).tolist() == [
        [term in content_terms(chunks[c][1][o]) for term in wanted] for c, o in places
    ]


def test_stop_words_are_left_out_before_their_stems_look_like_other_words():
    assert content_terms("Why does John Doe not sleep?") == ("john", "doe", "sleep")
    assert content_terms("being, having and doing") == ()


def test_a_chunk_does_not_have_the_terms_that_only_its_facts_have():
    terms, facts = pack_terms("Carol runs it.", ["Carol operates it.", "Carol runs it."])
    assert (term_places([terms], ["carol", "oper", "run"]) >= 0).tolist() == [[True, False, True]]
    found = TermTable([(terms, facts, b"")], ["carol", "oper", "run"])
    assert found.contained.tolist() == [[True, False, True]]
    assert found.of_facts(np.array([0, 0]), np.array([0, 1])).tolist() == [[True, True, False], [True, False, True]]
    assert pack_terms("Carol runs it.", []) == (terms, None)


@given(TEXTS.map(normalise))
def test_the_terms_of_a_name_are_those_of_its_text(name):
    terms = content_terms(name)
    owners, numbers = terms_of_names(["other", name])
    assert sorted(matched(numbers[owners == 1], terms).tolist()) == list(range(len(terms)))
