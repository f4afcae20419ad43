"""Cutting documents into passages."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_core import Chunker, Document
from graphrag_core.errors import InputError
from graphrag_core.ingest.chunker import title_of
from graphrag_core.text import estimate_tokens, most_tokens, sentences


def rejoined(chunks) -> str:
    text = ""
    for chunk in chunks:
        text += chunk.text[len(text) - chunk.start :]
    return text


def test_a_passage_stays_whole():
    (chunk,) = Chunker().split(Document("a", "Short text. " * 50))
    assert (chunk.id, chunk.document_id, chunk.start) == ("a", "a", 0)


def test_passages_end_where_sentences_do():
    text = "Ada Lovelace wrote number one. She wrote another one. Dr. Hopper read it. " * 40
    chunks = Chunker().split(Document("a", text))
    assert len(chunks) > 2
    assert all(chunk.text.rstrip().endswith(".") for chunk in chunks)
    assert all(chunk.text[:3] in ("Ada", "She", "Dr.") for chunk in chunks)
    assert all(estimate_tokens(chunk.text) <= 256 for chunk in chunks)
    assert [chunk.id for chunk in chunks] == [f"a#{i}" for i in range(len(chunks))]


def test_passages_overlap_by_whole_sentences():
    text = "".join(f"This is sentence number {i}. " for i in range(200))
    chunks = Chunker().split(Document("a", text))
    for before, after in pairwise(chunks):
        shared = before.start + len(before.text) - after.start
        assert shared > 0
        assert estimate_tokens(text[after.start : after.start + shared]) <= 32


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400), st.integers(1, 12), st.integers(0, 11))
def test_laid_end_to_end_they_are_the_document(text, size, overlap):
    chunker = Chunker(max_tokens=size, overlap=min(overlap, size - 1), whole_until=1)
    chunks = chunker.split(Document("a", text))
    assert rejoined(chunks) == text
    if len(chunks) > 1:
        assert all(estimate_tokens(chunk.text) <= size for chunk in chunks)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.text("abcdefghIJK 012.,-\n_é東", max_size=300)))
def test_no_text_has_more_tokens_than_the_bound(text):
    assert estimate_tokens(text) <= most_tokens(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_sentences_hold_every_word_in_order(text):
    spans = sentences(text)
    assert all(a < b for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    kept = set().union(*(range(a, b) for a, b in spans)) if spans else set()
    assert all(text[i].isspace() for i in range(len(text)) if i not in kept)


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (Document("1", "x", "Given", {"title": "Other"}), "Given"),
        (Document("1", "x", metadata={"title": "Metadata", "name": "Name"}), "Metadata"),
        (Document("1", "x", metadata={"name": "Name"}), "Name"),
        (Document("1", "# Heading\n\nx", metadata={"file_name": "/a/b/report_2024.pdf"}), "report_2024"),
        (Document("1", "x", metadata={"file_name": "C:\\docs\\plan.md"}), "plan"),
        (Document("1", "\n## The Heading ##\ntext"), "The Heading"),
        (Document("1", "The Heading\n===========\ntext"), "The Heading"),
        (Document("1", "No heading. Text."), ""),
        (Document("1", "x", metadata={"title": 7}), ""),
    ],
)
def test_where_a_title_comes_from(document, title):
    assert title_of(document) == title


def test_impossible_settings_are_refused():
    with pytest.raises(InputError):
        Chunker(max_tokens=10, overlap=10)


def test_a_counter_of_your_own():
    chunks = Chunker(max_tokens=3, overlap=0, whole_until=3, count=lambda text: len(text.split())).split(
        Document("a", "One two three. Four five six.")
    )
    assert [chunk.text for chunk in chunks] == ["One two three. ", "Four five six."]
