"""The passage around a hit, in both adapters: pieces that the framework's splitter cut, documents of the core."""

from __future__ import annotations

import pytest

SOURCES = {
    name: "\n\n".join(
        " ".join(f"Sentence {n} of part {part} speaks of {name}{part}x{n} only." for n in range(6)) for part in range(8)
    )
    for name in ("red", "blue")
}
QUESTION = "red4x3"


@pytest.fixture(params=[True, False], ids=["positions", "no positions"])
def cut(framework, request):
    with framework.build_cut(SOURCES, positions=request.param, k=3) as retriever:
        yield retriever, request.param


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("around", ["section", "neighbours"])
async def test_the_text_is_that_of_the_pieces_around_it(framework, cut, around):
    retriever, has_positions = cut
    plain = framework.retrieve(retriever, QUESTION)
    found = framework.retrieve(retriever, QUESTION, expand=around)
    assert framework.ids(found)[0] == framework.ids(plain)[0]
    assert set(framework.ids(found)) <= set(framework.ids(plain))
    assert len(found) < len(plain), "passages that overlap are joined"
    for text in framework.texts(found):
        assert one_line(text) in one_line(SOURCES["red"])
        assert text in SOURCES["red"] or not has_positions
    assert len(framework.texts(found)[0]) > 1.5 * len(framework.texts(plain)[0])
    assert framework.texts(await framework.aretrieve(retriever, QUESTION, expand=around)) == framework.texts(found)
