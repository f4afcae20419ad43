"""What applications rely on in both adapters: errors, blank texts, metadata, settings, folders."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever
from graphrag_core.errors import EmbedderError, IndexClosed, InputError, NotAnIndex, ReadOnlyIndex
from graphrag_core.testing import CHAIN, HashEmbedder
from graphrag_core.testing import CHAIN_QUESTION as QUESTION


class RateLimitError(Exception):
    """As in the clients of paid services."""


class Limited(HashEmbedder):
    """Fails on questions while ``fails``."""

    fails = True

    def embed_query(self, text):
        if self.fails:
            raise RateLimitError("slow down")
        return super().embed_query(text)


# -- questions


@pytest.mark.parametrize(
    "asked",
    [{}, {"k": 2}, {"method": "vector"}, {"method": "keyword"}, {"method": "graph"}, {"method": "agentic"},
     {"use_graph": False}, {"gate.min_graph_score": 0.9}, {"k": 3, "where": {"year": {"$gte": 2020}}},
     {"score_threshold": 0.5}],
)  # fmt: skip
async def test_answers_are_those_of_the_core(framework, retriever, asked):
    expected = GraphRetriever(retriever.index, cache=None).retrieve(QUESTION, **asked)
    for found in (
        framework.retrieve(retriever, QUESTION, **asked),
        await framework.aretrieve(retriever, QUESTION, **asked),
    ):
        assert framework.ids(found) == [hit.chunk.id for hit in expected]
    for result in (retriever.search(QUESTION, **asked), await retriever.asearch(QUESTION, **asked)):
        assert [(hit.chunk.id, hit.score) for hit in result] == [(hit.chunk.id, hit.score) for hit in expected]
        assert result.explain()


@pytest.mark.parametrize(
    "wrong",
    [{"method": "magic"}, {"k": 0}, {"graph": "pagerank"}, {"on_embedder_error": "ignore"}, {"methd": "x"},
     {"top_k": 3}, {"settings": {"k": 1}}, {"add_metadata": ["scor"]}, {"add_metadata": "score"}],
)  # fmt: skip
async def test_wrong_settings_are_told_at_once(framework, retriever, wrong):
    with pytest.raises(InputError):
        framework.over(retriever.index, **wrong)
    if wrong.keys() & {"method", "k", "methd", "top_k"}:
        with pytest.raises(InputError):
            framework.retrieve(retriever, QUESTION, **wrong)
        with pytest.raises(InputError):
            await framework.aretrieve(retriever, QUESTION, **wrong)


@pytest.mark.parametrize("question", ["", " \n"])
async def test_a_blank_question_finds_nothing_embeds_nothing_and_is_logged(framework, question, caplog):
    with framework.build(CHAIN, Limited()) as retriever:
        assert framework.retrieve(retriever, question) == await framework.aretrieve(retriever, question) == []
    assert caplog.text.count("the question is empty") == 2


# -- an embedding that fails


async def test_an_embedding_that_fails_raises_in_every_call(framework):
    with framework.build(CHAIN, Limited()) as retriever:
        tool = framework.tool(retriever)
        for ask in (
            lambda: framework.retrieve(retriever, "Tallinn"),
            lambda: retriever.search("Tallinn"),
            lambda: retriever.warm(["Tallinn"]),
            lambda: tool.call(query="Tallinn"),
        ):
            with pytest.raises(EmbedderError, match="slow down") as raised:
                ask()
            assert isinstance(raised.value, RateLimitError)
            assert isinstance(raised.value.__cause__, RateLimitError)
        for aask in (
            lambda: framework.aretrieve(retriever, "Tallinn"),
            lambda: retriever.asearch("Tallinn"),
            lambda: tool.acall(query="Tallinn"),
        ):
            with pytest.raises(RateLimitError, match="slow down"):
                await aask()


async def test_it_leaves_the_question_to_keywords_if_asked(framework, caplog):
    embedder = Limited()
    with framework.build(CHAIN, embedder, on_embedder_error="keyword") as retriever:
        for found in (retriever.search("Tallinn"), await retriever.asearch("Tallinn")):
            assert (found.hits[0].chunk.id, found.embedder_failed) == ("keyring", True)
            assert "slow down" in found.fallback
        assert "ask again" in framework.tool(retriever).call(query="Tallinn")[0]
        assert len([record for record in caplog.records if "slow down" in record.getMessage()]) == 1  # a minute
        embedder.fails = False
        assert not retriever.search("Tallinn").embedder_failed


# -- documents


def test_documents_come_back_as_they_were_added(framework, retriever):
    given = {item.id if hasattr(item, "id") else item.node_id: item for item in framework.to_items(CHAIN)}
    for _ in range(2):
        found = framework.retrieve(retriever, QUESTION, k=5)
        for one in found:
            item = getattr(one, "node", one)
            assert item == given[framework.ids([one])[0]]
            item.metadata["scribble"] = "the caller's own"
    generation = retriever.index.stats().generation
    framework.add(retriever, CHAIN)
    assert retriever.index.stats().generation == generation, "unchanged"


async def test_a_document_without_text_is_skipped_and_an_earlier_version_deleted(framework, retriever, caplog):
    framework.add(retriever, [Document("keyring", " "), Document("new", "New.")])
    await framework.aadd(retriever, [Document("lunch", "")])
    assert {"keyring", "lunch"}.isdisjoint(retriever.index.document_ids())
    assert "new" in retriever.index
    assert "1 documents without text were skipped: 'keyring'; earlier versions of 1 of them were deleted" in caplog.text
    framework.add(retriever, [Document(f"blank {number}", "") for number in range(9)])
    assert "'blank 4' and 4 more" in caplog.text
    assert retriever.index.verify()


# -- folders


def test_a_folder_is_opened_again(framework, tmp_path):
    with framework.build(CHAIN, path=tmp_path / "kb") as retriever:
        before = framework.ids(framework.retrieve(retriever, QUESTION))
    with framework.load(tmp_path / "kb", HashEmbedder(), k=3) as retriever:
        assert framework.ids(framework.retrieve(retriever, QUESTION)) == before[:3]
        framework.add(retriever, [Document("new", "Keyring has a new office in Riga.")])
        with (
            framework.load(tmp_path / "kb", HashEmbedder()),
            pytest.raises(IndexClosed, match="opened for writing again"),
        ):
            framework.add(retriever, [Document("more", "More.")])
    with framework.load(str(tmp_path / "kb"), HashEmbedder(), read_only=True) as retriever:
        assert "new" in framework.ids(framework.retrieve(retriever, "Riga"))
        with pytest.raises(ReadOnlyIndex):
            framework.add(retriever, [Document("more", "More.")])


def test_a_folder_without_an_index_is_refused_and_not_made(framework, tmp_path):
    with pytest.raises(NotAnIndex, match="from_documents"):
        framework.load(tmp_path / "typo", HashEmbedder())
    assert not (tmp_path / "typo").exists()
