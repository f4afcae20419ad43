"""Results that were asked for a moment ago: never stale, never another's."""

from __future__ import annotations

import os

import pytest

from graphrag_core import Cache, Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.strategies import PageRank
from graphrag_core.testing import HashEmbedder


class Watch:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Ada Lovelace wrote notes.", metadata={"tenant": "acme"}),
                   Document("b", "Ada Lovelace met Charles.", metadata={"tenant": "umbrella"})])  # fmt: skip
        yield index


def ids(result) -> set[str]:
    return {hit.chunk.id for hit in result.hits}


def test_the_same_question_is_answered_from_memory_and_says_so(index):
    retriever = GraphRetriever(index)
    first, second = retriever.retrieve("Ada Lovelace"), retriever.retrieve("Ada Lovelace")
    assert second.hits == first.hits
    assert list(second.trace.stages) == ["cache"]
    assert (Cache().seconds, Cache().entries) == (60.0, 1_024)


def test_an_add_and_a_delete_are_seen_at_once(index):
    retriever = GraphRetriever(index)
    assert ids(retriever.retrieve("Ada Lovelace")) == {"a", "b"}
    index.add([Document("c", "Ada Lovelace again.", metadata={"tenant": "acme"})])
    assert ids(retriever.retrieve("Ada Lovelace")) == {"a", "b", "c"}
    index.delete("a")
    assert ids(retriever.retrieve("Ada Lovelace")) == {"b", "c"}


def test_nothing_crosses_scopes_settings_or_indexes(index):
    cache = Cache()
    retriever = GraphRetriever(index, cache=cache)
    assert ids(retriever.retrieve("Ada Lovelace", where={"tenant": "acme"})) == {"a"}
    assert ids(retriever.retrieve("Ada Lovelace", where={"tenant": "umbrella"})) == {"b"}
    assert ids(retriever.retrieve("Ada Lovelace")) == {"a", "b"}
    assert len(retriever.retrieve("Ada Lovelace", k=1).hits) == 1
    assert retriever.retrieve("Ada Lovelace", method="keyword").method == "keyword"
    assert retriever.retrieve("Ada Lovelace", use_graph=False).expansion_skipped
    assert "cache" not in retriever.retrieve("Ada Lovelace", graph=PageRank(facts=1)).trace.stages
    with KnowledgeIndex(HashEmbedder()) as other:
        other.add([Document("z", "Ada Lovelace elsewhere."), Document("y", "Ada Lovelace too.")])
        assert ids(GraphRetriever(other, cache=cache).retrieve("Ada Lovelace")) == {"y", "z"}


def test_results_expire_and_the_oldest_go_first(index):
    watch = Watch()
    cache = Cache(seconds=60, entries=2, clock=watch)
    retriever = GraphRetriever(index, cache=cache)
    retriever.retrieve("Ada")
    watch.now = 59.9
    assert "cache" in retriever.retrieve("Ada").trace.stages
    watch.now = 60.0
    assert "cache" not in retriever.retrieve("Ada").trace.stages
    for question in ("one", "two", "three"):
        retriever.retrieve(question)
    assert len(cache) == 2
    assert "cache" not in retriever.retrieve("Ada").trace.stages


def test_it_can_be_switched_off(index):
    for off in (None, False):
        retriever = GraphRetriever(index, cache=off)
        retriever.retrieve("Ada")
        assert "cache" not in retriever.retrieve("Ada").trace.stages
    with pytest.raises(InputError, match="cache=None"):
        Cache(entries=0)


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_another_index_behind_a_link_answers_at_once(tmp_path):
    for name, text in (("old", "Ada Lovelace wrote notes."), ("new", "Ada Lovelace met Charles.")):
        with KnowledgeIndex.open(tmp_path / name, HashEmbedder()) as index:
            index.add([Document("a", text)])
    link = tmp_path / "kb"
    link.symlink_to("old", target_is_directory=True)
    with KnowledgeIndex.open(link, HashEmbedder(), read_only=True) as index:
        retriever = GraphRetriever(index)
        assert retriever.retrieve("Ada?").hits[0].chunk.text == "Ada Lovelace wrote notes."
        (tmp_path / "next").symlink_to("new", target_is_directory=True)
        (tmp_path / "next").replace(link)
        assert retriever.retrieve("Ada?").hits[0].chunk.text == "Ada Lovelace met Charles."


def test_more_passages_than_are_kept_in_memory_are_returned_again():
    with KnowledgeIndex(extractor=KnowledgeExtractor(knowledge={}), progress=False) as index:
        index.add([Document(str(number), f"bell {number}") for number in range(10_050)])
        retriever = GraphRetriever(index, method="keyword", cache=None)
        assert len(retriever.retrieve("bell", k=10_050)) == 10_050
        index.add([Document("new", "bell new")])
        assert len(retriever.retrieve("bell", k=10_051)) == 10_051


@pytest.mark.parametrize("cache", [True, False])
def test_metadata_that_a_caller_changes_is_changed_in_no_other_result(cache):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Some text here.", metadata={"tenant": "acme", "tags": ["x"]})])
        retriever = GraphRetriever(index, cache=cache)
        for question in ("some text", "text here", "some text"):
            metadata = retriever.retrieve(question).hits[0].chunk.metadata
            assert metadata == {"tenant": "acme", "tags": ["x"]}
            metadata["tenant"] = "umbrella"
            metadata["tags"].append("y")
