"""Cutting documents into passages."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_samples import MARKDOWN

from graphrag_core import Chunker, Document
from graphrag_core.text import estimate_tokens
from graphrag_core.text.markup import visible
from graphrag_core.text.scanner import BLOCKS


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


def test_a_counter_of_your_own():
    chunks = Chunker(max_tokens=3, overlap=0, whole_until=3, tokenizer=lambda text: len(text.split())).split(
        Document("a", "One two three. Four five six.")
    )
    assert [chunk.text for chunk in chunks] == ["One two three. ", "Four five six."]


# -- sections

PAGE = """# Workers

Workers run tasks. {filler}

## Pools

A pool runs tasks in parallel. {filler}

### Prefork

The default pool forks. {filler}

(events-label)=
## Events

Events are sent. {filler}
"""
FILLER = "It has many words that say what it does and why. " * 6


def sections_of(text, **settings):
    return [(chunk.headings, chunk.text) for chunk in Chunker(**settings).split(Document("a", text))]


class TestSections:
    def test_a_chunk_never_crosses_a_heading_and_knows_its_path(self):
        chunks = Chunker().split(Document("a", PAGE.format(filler=FILLER)))
        assert [chunk.headings for chunk in chunks] == [(), ("Pools",), ("Pools", "Prefork"), ("Events",)]
        assert [chunk.title for chunk in chunks] == ["Workers"] * 4
        assert rejoined(chunks) == PAGE.format(filler=FILLER)
        assert chunks[3].text.startswith("(events-label)=\n## Events")

    def test_a_heading_without_text_belongs_to_what_follows(self):
        text = f"# A\n\n## B\n\n### C\n\n{FILLER}\n\n## D\n\n{FILLER}\n\n## E\n"
        assert [headings for headings, _ in sections_of(text)] == [("B", "C"), ("D",)]
        assert sections_of(text)[1][1].rstrip().endswith("## E")

    def test_tiny_sections_are_joined_under_their_parent(self):
        small = "".join(f"### option_{i}\n\nTurns {i} on.\n\n" for i in range(60))
        text = f"# Options\n\n{FILLER}\n\n## First\n\n{FILLER}\n\n{small}## Second\n\n{FILLER}\n"
        chunks = Chunker().split(Document("a", text))
        joined = [chunk for chunk in chunks if "### option" in chunk.text]
        assert len(joined) < 8
        assert all(chunk.headings == ("First",) for chunk in joined)
        assert all(estimate_tokens(chunk.text) <= 256 for chunk in joined)
        assert rejoined(chunks) == text

    def test_a_short_document_with_sections_is_divided(self):
        text = f"# A\n\n{FILLER}\n\n## B\n\n{FILLER}\n"
        assert estimate_tokens(text) < 512
        assert [headings for headings, _ in sections_of(text)] == [(), ("B",)]

    def test_code_and_tables_stay_whole_where_they_fit(self):
        code = "```py\n" + "".join(f"value_{i} = compute({i})\n" for i in range(25)) + "```\n"
        table = "| name | size |\n|---|---|\n" + "".join(f"| row {i} | {i} |\n" for i in range(30))
        text = f"# A\n\n{FILLER * 3}\n\nExample:\n\n{code}\n{FILLER * 2}\n\n{table}\n{FILLER * 3}\n"
        chunks = Chunker().split(Document("a", text))
        assert sum(code in chunk.text for chunk in chunks) == 1
        assert sum(table in chunk.text for chunk in chunks) == 1
        assert sum("value_3 " in chunk.text for chunk in chunks) == 1  # in no overlap
        assert rejoined(chunks) == text

    def test_a_long_table_is_divided_between_rows(self):
        rows = [f"| row {i} | some words about the row with number {i} |\n" for i in range(300)]
        chunks = Chunker().split(Document("a", "# A\n\n| name | words |\n|---|---|\n" + "".join(rows)))
        assert len(chunks) > 5
        assert all(chunk.text.endswith("|\n") for chunk in chunks)
        assert rejoined(chunks).count("| row ") == 300 == sum(chunk.text.count("| row ") for chunk in chunks)

    def test_a_long_list_of_definitions_is_divided_at_its_entries(self):
        terms = ["tide", "berth", "quay", "mole", "pilot"]
        entries = "".join(f"{term}\n: A {term}. {FILLER}\n\n  More of it. {FILLER}\n\n" for term in terms)
        text = f"# Port\n\n{FILLER}\n\n## Words\n\n{entries}After the list. {FILLER}\n"
        chunks = Chunker().split(Document("a", text))
        assert [chunk.headings for chunk in chunks] == [(), *(("Words", term) for term in terms), ("Words",)]
        assert [chunk.text.split("\n")[0] for chunk in chunks[2:]] == [*terms[1:], f"After the list. {FILLER}"]
        assert rejoined(chunks) == text

    def test_entries_of_a_few_words_share_a_passage(self):
        entries = "".join(f"--option-{i}\n: Turns {i} on.\n\n" for i in range(100))
        chunks = Chunker().split(Document("a", f"# Port\n\n{FILLER}\n\n## Options\n\n{entries}"))
        assert len(chunks) < 12
        assert all(chunk.headings == ("Options",) for chunk in chunks[1:])
        assert sum(mark.kind == "term" for chunk in chunks for mark in chunk.marks) == 100

    def test_overlap_stays_within_a_section(self):
        text = "".join(f"## S{i}\n\n" + f"This is a sentence of section {i}. " * 60 + "\n\n" for i in range(3))
        for chunk in Chunker().split(Document("a", text)):
            (own,) = chunk.headings
            assert f"section {own[1]}" in chunk.text
            assert not any(f"section {i}." in chunk.text for i in range(3) if str(i) != own[1])

    def test_chinese_sections(self):
        text = "# 系统\n\n" + "认证服务签发令牌。" * 20 + "\n\n## 存储\n\n" + "数据写入磁盘。" * 90 + "\n"
        chunks = Chunker().split(Document("a", text))
        assert {chunk.headings for chunk in chunks} == {(), ("存储",)}
        assert all(chunk.title == "系统" for chunk in chunks)
        assert rejoined(chunks) == text

    def test_marks_are_those_of_the_chunk(self):
        text = f"<!-- page 1 -->\n\n# A\n\nSee [b](b.md).\n\n{FILLER}\n\n<!-- page 2 -->\n\n## C\n\n`d` {FILLER}\n"
        first, second = Chunker().split(Document("a", text))
        assert [first.text[m.start : m.end] for m in first.marks if m.kind == "link"] == ["b"]
        assert [second.text[m.start : m.end] for m in second.marks if m.kind == "literal"] == ["d"]
        assert (first.page, second.page) == (1, 2)

    def test_metadata_of_splitters_is_the_path(self):
        markdown = Document("a", "Forks.", metadata={"Header 1": "Workers", "Header 3": "Prefork", "Header 2": "Pools"})
        node = Document("b", "## Pools\n\nForks.", metadata={"header_path": "/Workers/", "page_label": "7"})
        (first,), (second,) = Chunker().split(markdown), Chunker().split(node)
        assert (first.title, first.headings) == ("Workers", ("Pools", "Prefork"))
        assert (second.title, second.headings, second.page) == ("Workers", ("Pools",), 7)


@settings(max_examples=200, deadline=None)
@given(MARKDOWN, st.integers(4, 60), st.integers(0, 8), st.integers(1, 80))
def test_chunks_of_markdown_are_the_document(text, size, overlap, whole):
    chunker = Chunker(max_tokens=size, overlap=min(overlap, size - 1), whole_until=whole)
    chunks = chunker.split(Document("a", text, metadata={"file_name": "a.md"}))
    assert rejoined(chunks) == text
    for chunk in chunks:
        assert text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
        assert all(0 <= mark.start <= mark.end <= len(chunk.text) for mark in chunk.marks)
        if len(chunks) > 1:
            assert estimate_tokens(visible(chunk.text)) <= max(size, whole)
    for chunk in chunks:  # after other text, there is a heading only where a tiny section was joined
        blocks = [mark for mark in chunk.marks if mark.kind in BLOCKS]
        inside = [b for a, b in pairwise(blocks) if b.kind == "heading" and a.kind != "heading"]
        if inside and len(chunks) > 1:
            starts = [0, *(mark.start for mark in inside), len(chunk.text)]
            parts = [estimate_tokens(visible(chunk.text[a:b])) for a, b in pairwise(starts)]
            assert all(min(pair) < 45 for pair in pairwise(parts)) or blocks[-1].kind == "heading"
