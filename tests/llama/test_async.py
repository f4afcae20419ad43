"""What is particular to LlamaIndex's embedding models on the event loop; tests/adapters has the rest."""

from __future__ import annotations

import asyncio
import threading

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import QueryBundle, TextNode
from llama_support import QUESTION, Hashed, ids, make_nodes

from graphrag_core.errors import EmbedderError
from llama_graphrag import GraphRAGRetriever

PATIENCE = 30  # timeout in seconds; only reached if the event loop is blocked


def test_coroutines_of_the_embedding_are_used_and_nothing_else(model):
    async def main():
        retriever = GraphRAGRetriever.from_nodes([], model, embed_names=True)
        await retriever.ainsert_nodes(make_nodes())
        await retriever.aretrieve(QUESTION)
        await retriever.aretrieve(QueryBundle("x", custom_embedding_strs=["one", "two"]))
        return await retriever.aretrieve(QueryBundle("Auth Service", embedding=[1.0] * 64))

    assert len(asyncio.run(main())) == 5
    assert {way for way, _ in model.asked} == {"async text", "async query"}
    assert [text for way, text in model.asked if way == "async query"] == [QUESTION, "one", "two"]


def test_sync_and_async_give_the_same(retriever):
    for question in (QUESTION, "noon", QueryBundle("Keyring", custom_embedding_strs=["Tallinn company"])):
        sync, later = retriever.retrieve(question), asyncio.run(retriever.aretrieve(question))
        assert ids(sync) == ids(later)
        assert [one.score for one in sync] == [one.score for one in later]
        assert [one.node for one in sync] == [one.node for one in later]


@pytest.mark.parametrize("vector", [[1.0, 2.0], [float("nan")] * 64])
def test_an_embedding_that_cannot_be_used_is_treated_as_a_failure(nodes, vector, monkeypatch):
    retriever = GraphRAGRetriever.from_nodes(nodes, Hashed(), on_embedder_error="keyword")
    monkeypatch.setattr(Hashed, "_vector", lambda self, way, text: vector)
    strings = QueryBundle("Tallinn", custom_embedding_strs=["company", "vendor"])
    for found in (
        asyncio.run(retriever.asearch("Tallinn")),
        asyncio.run(retriever.asearch(strings)),
        retriever.search("Tallinn"),
        retriever.search(strings),
    ):
        assert found.hits[0].chunk.id == "keyring"
        assert "Hashed" in found.fallback
    for node in (TextNode(text="A fox."), TextNode(text="A fox.", metadata={"shown": "to the embedding"})):
        with pytest.raises(EmbedderError, match="Hashed"):
            retriever.insert_nodes([node])
        with pytest.raises(EmbedderError, match="Hashed"):
            asyncio.run(retriever.ainsert_nodes([node]))
    assert len(retriever.index) == 5


async def test_many_insertions_at_once_leave_the_embedding_a_thread():
    class Threaded(MockEmbedding):
        async def _aget_text_embeddings(self, texts):
            return await asyncio.to_thread(self._get_text_embeddings, texts)

    with GraphRAGRetriever.from_nodes([TextNode(text="Start.", id_="start")], Threaded(embed_dim=8)) as retriever:
        insertions = [retriever.ainsert_nodes([TextNode(text=f"Note {i}.", id_=f"n{i}")]) for i in range(50)]
        await asyncio.wait_for(asyncio.gather(*insertions), 120)
        assert len(retriever.index) == 51


class Gated(MockEmbedding):
    """An embedding whose coroutine waits for ``GATE``."""

    async def _aget_text_embeddings(self, texts):
        GATE["reached"].set()
        await GATE["open"].wait()
        return self._get_text_embeddings(texts)


GATE: dict[str, asyncio.Event] = {}


@pytest.mark.parametrize("plainly", ["delete_nodes", "insert_nodes", "verify"])
async def test_a_plain_call_on_the_loop_during_an_insertion_does_not_hang(plainly):
    GATE.update(reached=asyncio.Event(), open=asyncio.Event())
    with GraphRAGRetriever.from_nodes([TextNode(text="Start.", id_="start")], Gated(embed_dim=8)) as retriever:
        task = asyncio.create_task(retriever.ainsert_nodes([TextNode(text="Later.", id_="later")]))
        await asyncio.wait_for(GATE["reached"].wait(), 60)
        if plainly == "delete_nodes":
            assert retriever.delete_nodes(["start"]) == 1
        elif plainly == "insert_nodes":
            retriever.insert_nodes([TextNode(text="Between.", id_="between")])
        else:
            assert retriever.index.verify()
        GATE["open"].set()
        await asyncio.wait_for(task, 60)
        assert "later" in retriever.index


async def test_an_insertion_that_is_given_up_leaves_the_index_free():
    GATE.update(reached=asyncio.Event(), open=asyncio.Event())
    with GraphRAGRetriever.from_nodes([TextNode(text="Start.", id_="start")], Gated(embed_dim=8)) as retriever:
        task = asyncio.create_task(retriever.ainsert_nodes([TextNode(text="Later.", id_="later")]))
        await asyncio.wait_for(GATE["reached"].wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        retriever.insert_nodes([TextNode(text="Again.", id_="again")])
        assert "later" not in retriever.index


async def test_an_embedding_without_coroutines_of_its_own_works_off_the_loop():
    threads = set()

    class Plain(MockEmbedding):
        def _get_text_embedding(self, text):
            threads.add(threading.current_thread())
            return super()._get_text_embedding(text)

    class Bare(Plain):
        _aget_text_embedding = BaseEmbedding._aget_text_embedding

    with GraphRAGRetriever.from_nodes([TextNode(text="Start.", id_="start")], Bare(embed_dim=8)) as retriever:
        threads.clear()
        await retriever.ainsert_nodes([TextNode(text=f"Note {i}.", id_=f"n{i}") for i in range(3)])
        assert threads
        assert threading.current_thread() not in threads
