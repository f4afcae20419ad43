"""What is particular to LlamaIndex's embedding models on the event loop; tests/adapters has the rest."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import QueryBundle, TextNode
from llama_support import QUESTION, make_nodes

from llama_graphrag import GraphRAGRetriever


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


class Gated(MockEmbedding):
    """An embedding whose coroutine waits for ``GATE``."""

    async def _aget_text_embeddings(self, texts):
        GATE["reached"].set()
        await GATE["open"].wait()
        return self._get_text_embeddings(texts)


GATE: dict[str, asyncio.Event] = {}


async def test_a_plain_call_on_the_loop_during_an_insertion_does_not_hang():
    GATE.update(reached=asyncio.Event(), open=asyncio.Event())
    with GraphRAGRetriever.from_nodes([TextNode(text="Start.", id_="start")], Gated(embed_dim=8)) as retriever:
        task = asyncio.create_task(retriever.ainsert_nodes([TextNode(text="Later.", id_="later")]))
        await asyncio.wait_for(GATE["reached"].wait(), 60)
        assert retriever.delete_nodes(["start"]) == 1
        retriever.insert_nodes([TextNode(text="Between.", id_="between")])
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
