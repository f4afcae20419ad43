"""The passage around a hit: sections and neighbours, joined, within the scope, and in prompt text."""

from __future__ import annotations

import pytest

from graphrag_core import Chunker, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder


def paragraph(topic: str, sentences: int = 6) -> str:
    return " ".join(f"Sentence {n} speaks of {topic}{n} and of little else." for n in range(sentences))


def guide(sections: int = 3, sentences: int = 12) -> str:
    parts = (f"## Section {n}\n\n{paragraph(f'topic{n}x', sentences)}" for n in range(sections))
    return "# Guide\n\n" + "\n\n".join(parts)


CHUNKER = Chunker(max_tokens=48, overlap=12, whole_until=48)


@pytest.fixture
def retriever():
    with KnowledgeIndex(HashEmbedder(), chunker=CHUNKER) as index:
        index.add([Document("guide", guide())])
        yield GraphRetriever(index)


def test_a_section_is_the_part_of_the_document_under_one_heading(retriever):
    text = guide()
    section = text[text.index("## Section 1") : text.index("## Section 2")]
    (hit,) = retriever.retrieve("topic1x7", k=1, expand="section").hits
    assert "topic1x7" in hit.chunk.text
    assert len(hit.expanded.ids) > 2
    assert hit.chunk.id in hit.expanded.ids
    assert hit.expanded.text == section
    assert text[hit.expanded.start : hit.expanded.end] == section


def test_neighbours_are_the_passage_before_and_the_one_after_it(retriever):
    chunks = retriever.index.chunks("guide")
    (hit,) = retriever.retrieve("topic1x7", k=1, expand="neighbours").hits
    at = hit.chunk.ordinal
    assert hit.expanded.ids == tuple(chunk.id for chunk in chunks[at - 1 : at + 2])
    assert hit.expanded.text in guide()
    last = retriever.retrieve("topic2x11", k=1, expand="neighbours").hits[0]
    assert last.expanded.ids == tuple(chunk.id for chunk in chunks[-2:])


def test_the_hits_stay_the_same(retriever):
    plain, expanded = (retriever.retrieve("topic1x7", k=3, expand=around) for around in (None, "section"))
    assert [(hit.chunk, hit.score, hit.path) for hit in plain] == [(hit.chunk, hit.score, hit.path) for hit in expanded]
    assert all(hit.expanded is None for hit in plain)
    assert plain.hits[0].to_dict()["expanded"] is None
    assert expanded.hits[0].to_dict()["expanded"]["ids"] == list(expanded.hits[0].expanded.ids)


def test_a_long_section_grows_from_the_hit_until_the_tokens_are_used_up():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("long", f"# Long\n\n{paragraph('word', 400)}")])
        (hit,) = GraphRetriever(index).retrieve("word200", k=1, expand="section").hits
        at = hit.expanded.ids.index(hit.chunk.id)
        assert 0 < at < len(hit.expanded.ids) - 1
        (whole,) = GraphRetriever(index).retrieve("word200", k=1, expand="neighbours").hits
        assert len(whole.expanded.ids) == 3


# -- pieces of a source


def pieces(texts, **metadata):
    return [
        Document(f"{n}{text[:4]}", text, metadata={"source": "manual.txt", **metadata}) for n, text in enumerate(texts)
    ]


TEXTS = ["Alpha is first. It has an end.", "It has an end. Bravo is second.", "Carol is third."]


@pytest.mark.parametrize("reverse", [False, True])
def test_pieces_of_a_source_are_in_the_order_of_their_positions(reverse):
    found = pieces(TEXTS)
    starts = [0, 16, 49]
    found = [Document(d.id, d.text, "", {**d.metadata, "start_index": s}) for d, s in zip(found, starts, strict=True)]
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(found[::-1] if reverse else found)
        (hit,) = GraphRetriever(index).retrieve("Bravo second", k=1, expand="neighbours").hits
        assert hit.expanded.text == "Alpha is first. It has an end. Bravo is second.\n\nCarol is third."
        assert hit.expanded.ids == tuple(document.id for document in found)


def test_pieces_with_other_metadata_belong_to_another_source():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(
            [*pieces(TEXTS[:2], version=1), Document("new", TEXTS[2], "", {"source": "manual.txt", "version": 2})]
        )
        (hit,) = GraphRetriever(index).retrieve("Bravo second", k=1, expand="section").hits
        assert "Carol" not in hit.expanded.text
        assert "Alpha" in hit.expanded.text


# -- the scope


def test_what_a_filter_hides_is_in_no_expansion():
    found = [Document(d.id, d.text, "", {**d.metadata, "page": n}) for n, d in enumerate(pieces(TEXTS))]
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(found)
        retriever = GraphRetriever(index)
        for where in ({"page": {"gte": 1}}, {"page": 1}):
            result = retriever.retrieve("Bravo second", k=1, where=where, expand="section")
            assert "Alpha" not in result.hits[0].expanded.text


# -- joined


def test_a_context_has_overlapping_passages_once_with_the_number_of_the_best(retriever):
    result = retriever.retrieve("topic1x7 topic1x8 topic0x3", k=5, expand="section")
    assert len({hit.chunk.headings for hit in result}) < 5
    context = result.context(4_000, style="passages", numbered=True)
    assert context.count("## Section 1") <= 1
    for topic in ("topic1x0", "topic1x7", "topic1x11"):
        assert context.count(f"{topic} ") == 1
    numbers = [line[1] for line in context.splitlines() if line.startswith("[")]
    best = {hit.chunk.headings: rank for rank, hit in reversed([*enumerate(result.hits, 1)])}
    assert numbers == [str(rank) for rank in sorted(best.values())]
    cited = {source.id for source in context.sources if source.kind == "chunk"}
    assert {hit.chunk.id for hit in result} < cited


@pytest.mark.parametrize("style", ["graph", "passages", "both"])
def test_a_context_with_expansions_stays_within_its_tokens(retriever, style):
    result = retriever.retrieve("topic1x7", k=3, expand="section")
    for most in (40, 120, 400):
        assert result.context(most, style=style).tokens <= most
    assert len(result.context(2_000, style=style)) > len(
        retriever.retrieve("topic1x7", k=3).context(2_000, style=style)
    )
