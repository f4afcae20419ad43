"""Async use of both adapters: the event loop is never blocked, and a query sees one state of the index."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.strategies import GraphStrategy, PageRank
from graphrag_core.testing import CHAIN, HashEmbedder
from graphrag_core.testing import CHAIN_QUESTION as QUESTION

LONG = 120  # timeout in seconds of what must not hang


async def indexed(framework, documents, embedding, **settings):
    retriever = framework.build([], embedding, **settings)
    await framework.aadd(retriever, documents)
    return retriever


# -- an embedding model with coroutines


async def test_coroutines_are_awaited_and_nothing_is_embedded_twice(framework):
    embedding = framework.OnTheLoop()
    with await indexed(framework, CHAIN, embedding, embed_names=True) as retriever:
        texts = [text for batch in embedding.batches for text in batch]
        assert len(texts) == len(set(texts)) > 10
        embedding.batches.clear()
        await framework.aadd(retriever, CHAIN)
        assert embedding.batches == []
        changed = Document(CHAIN[0].id, f"{CHAIN[0].text} Yes.", CHAIN[0].title, CHAIN[0].metadata)
        await framework.aadd(retriever, [changed, *CHAIN[1:]])
        assert all("Yes." in text for batch in embedding.batches for text in batch)
        assert retriever.index.verify()
        assert await framework.aretrieve(retriever, "Tallinn", method="keyword")
        assert embedding.questions == []


async def test_results_are_those_of_the_core(framework):
    embedding = framework.OnTheLoop()
    with (
        await indexed(framework, CHAIN, embedding) as retriever,
        KnowledgeIndex(HashEmbedder(), chunker=None) as index,
    ):
        index.add(CHAIN)
        expected = GraphRetriever(index).retrieve(QUESTION).hits
        found = await retriever.asearch(QUESTION)
        assert embedding.questions == [QUESTION]
        assert [(hit.chunk.id, hit.score) for hit in found] == [(hit.chunk.id, hit.score) for hit in expected]


# -- other work goes on


class Waits(HashEmbedder):
    """Blocks until the event loop releases it, which a blocked loop could not do."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.released = threading.Event()
        self.armed = False

    def embed_query(self, text):
        self.wait()
        return super().embed_query(text)

    def embed_documents(self, texts):
        self.wait()
        return super().embed_documents(texts)

    def wait(self):
        if self.armed:
            self.loop.call_soon_threadsafe(self.entered.set)
            assert self.released.wait(LONG), "the loop was blocked"


class WaitsInTheGraph(GraphStrategy):
    """A graph strategy that blocks likewise."""

    fusion = PageRank().fusion

    def __init__(self, waits):
        self.waits = waits

    def expand(self, *arguments):
        self.waits.wait()
        return PageRank().expand(*arguments)


async def through(waits, call):
    """Await a call that blocks until the event loop releases it."""
    waits.armed = True
    task = asyncio.ensure_future(call)
    await asyncio.wait_for(waits.entered.wait(), LONG)
    assert not task.done()
    waits.released.set()
    return await asyncio.wait_for(task, LONG)


@pytest.mark.parametrize("work", ["embedding", "graph", "adding"])
async def test_the_loop_turns_while_a_thread_works(framework, work):
    waits = Waits()
    settings = {"graph": WaitsInTheGraph(waits)} if work == "graph" else {}
    embedder = HashEmbedder() if work == "graph" else waits
    with await indexed(framework, [] if work == "adding" else CHAIN, embedder, **settings) as retriever:
        adding = work == "adding"
        await through(waits, framework.aadd(retriever, CHAIN) if adding else framework.aretrieve(retriever, QUESTION))
        assert len(retriever.index) == 5


async def test_the_loop_turns_while_a_delete_waits_for_a_question(framework):
    waits = Waits()
    with await indexed(framework, CHAIN, HashEmbedder(), graph=WaitsInTheGraph(waits)) as retriever:
        waits.armed = True
        question = asyncio.ensure_future(framework.aretrieve(retriever, QUESTION))
        await asyncio.wait_for(waits.entered.wait(), LONG)
        delete = asyncio.ensure_future(framework.adelete(retriever, ["auth"]))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not question.done()
        waits.released.set()
        found, _ = await asyncio.wait_for(asyncio.gather(question, delete), LONG)
        assert "auth" in framework.ids(found), "the state before the deletion"
        assert "auth" not in retriever.index


# -- many tasks


def edition(number: int) -> list[Document]:
    return [
        Document(
            f"part{i}",
            f"Part {i} of Project Aurora in edition {number} leads to Part {(i + 1) % 5}.",
            f"Part {i}",
            {"edition": number},
        )
        for i in range(5)
    ]


@pytest.mark.parametrize(("plain", "tasks"), [(True, 60), (False, 20)])
async def test_many_tasks_ask_during_changes_and_each_sees_one_generation(framework, plain, tasks):
    """Every change replaces or deletes all five documents: a result has all of one edition, or none."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    embedding = HashEmbedder() if plain else framework.OnTheLoop()
    with await indexed(framework, edition(1), embedding, cache=None) as retriever:
        now, seen, over, fresh = [1], set(), asyncio.Event(), asyncio.Event()

        async def ask(number):
            method = ("hybrid", "vector")[number % 2]
            while not over.is_set():
                before = now[0]
                question = f"What leads to Part {number % 5} of Aurora?"
                found = await framework.aretrieve(retriever, question, k=9, method=method)
                texts = framework.texts(found)  # paths may be explained from a later state
                editions = {int(name) for text in texts for name in re.findall(r"edition (\d+)", text)}
                assert (len(found), len(editions)) in ((5, 1), (0, 0))
                if before == now[0] is not None:
                    assert editions == ({before} if before else set())
                    fresh.set()
                seen.update(editions)

        async def change():
            for number in range(2, 6):
                now[0] = None  # during the change, both states are right
                if number % 3 == 0:
                    await framework.adelete(retriever, [document.id for document in edition(number)])
                    now[0] = 0
                else:
                    await framework.aadd(retriever, edition(number))
                    now[0] = number
                fresh.clear()
                await fresh.wait()  # until a query has run since
            over.set()

        await asyncio.wait_for(asyncio.gather(change(), *(ask(number) for number in range(tasks))), 4 * LONG)
        assert seen >= {2, 4, 5}
        assert retriever.index.verify()
