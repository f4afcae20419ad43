"""Any sequence of changes leaves the index that the surviving documents alone would make."""

from __future__ import annotations

import pytest
from changes import SETTINGS, operations, perform
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import snapshot

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.extract import KnowledgeExtractor
from graphrag_core.testing import HashEmbedder

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def made(open_index=KnowledgeIndex) -> KnowledgeIndex:
    return open_index(HashEmbedder(), **SETTINGS, batch_size=2)


def assert_same(lived: dict[str, object], embedded: dict[str, object]) -> None:
    """Compare engines: scores of keyword search differ in the last digits, and so may the order of equal ones."""
    for mine, other in zip(lived.pop("keywords"), embedded.pop("keywords"), strict=True):
        assert dict(mine) == pytest.approx(dict(other), rel=1e-4)
    assert lived == embedded


@settings(max_examples=8, deadline=None, suppress_health_check=QUIET)
@given(operations)
def test_the_index_is_that_of_the_surviving_documents(open_index, steps):
    present: dict[str, Document] = {}
    with made(open_index) as lived, made(open_index) as fresh, made() as embedded:
        for step in steps:
            perform(lived, step, present)
        fresh.add(sorted(present.values(), key=lambda d: d.id, reverse=True))
        embedded.add(present.values())
        assert lived.verify(), str(lived.verify())
        assert snapshot(lived) == snapshot(fresh)
        assert_same(snapshot(lived), snapshot(embedded))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations)
def test_the_same_holds_on_disk_with_reopening(tmp_path_factory, steps):
    present: dict[str, Document] = {}
    folder = tmp_path_factory.mktemp("kb")
    for step in steps:
        with KnowledgeIndex.open(folder, HashEmbedder(), **SETTINGS, batch_size=2) as lived:
            perform(lived, step, present)
    with KnowledgeIndex.open(folder, read_only=True) as reader:
        assert reader.verify(), str(reader.verify())
    with KnowledgeIndex.open(folder, HashEmbedder()) as lived, made() as fresh:
        fresh.add(present.values())
        assert snapshot(lived) == snapshot(fresh)


strange = st.text(st.one_of(st.characters(), st.sampled_from(" \t\x00-'’.(C+#aあ")), max_size=12)
known = st.sampled_from(["", " ", "--", "The", "Ada", " Ada ", "ada", "Ada's", "the Ada", "x" * 299 + " b", "x" * 301])
names = st.one_of(strange, known)
triples = st.lists(st.tuples(names, names, names), max_size=4)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(triples, triples)
def test_whatever_an_extractor_calls_things_the_index_is_sound(some, others):
    extractor = KnowledgeExtractor(knowledge={"a": some, "b": others})
    with KnowledgeIndex(HashEmbedder(), extractor=extractor) as index:
        index.add([Document("a", "One text."), Document("b", "Another.")])
        assert not index.verify().problems
        index.delete("a")
        assert not index.verify().problems
        index.delete("b")
        assert not index.verify().problems
        assert index.stats().entities == 0
