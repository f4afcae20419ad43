"""Async use: the event loop is never blocked, and a query sees one state of the index."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from graphrag_core import Document as CoreDocument
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.errors import DocumentError, EmbedderError
from graphrag_core.strategies import GraphStrategy, PageRank
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

LONG = 120  # timeout in seconds of what must not hang


class OnTheLoop(Embeddings):
    """Embeddings with real coroutines; the sync methods must not be called."""

    model = "service"

    def __init__(self):
        self.batches = []
        self.questions = []
        self.fail = None

    def embed_documents(self, texts):
        raise AssertionError("the plain method was called")

    def embed_query(self, text):
        raise AssertionError("the plain method was called")

    async def aembed_documents(self, texts):
        await asyncio.sleep(0)
        if self.fail:
            raise self.fail
        self.batches.append(list(texts))
        return HashEmbedder().embed_documents(texts).tolist()

    async def aembed_query(self, text):
        await asyncio.sleep(0)
        if self.fail:
            raise self.fail
        self.questions.append(text)
        return HashEmbedder().embed_query(text).tolist()


async def indexed(documents, embedding, **settings):
    retriever = GraphRAGRetriever.from_documents([], embedding, **settings)
    await retriever.aadd_documents(documents)
    return retriever


class TestEmbeddings:
    async def test_that_are_coroutines_are_awaited(self, documents):
        embedding = OnTheLoop()
        with await indexed(documents, embedding) as retriever:
            assert sum(map(len, embedding.batches)) == 5
            found = await retriever.asearch(QUESTION)
            assert embedding.questions == [QUESTION]
            with KnowledgeIndex(HashEmbedder(), chunker=None, embed_names=False) as index:
                index.add([CoreDocument(d.id, d.page_content, metadata=d.metadata) for d in documents])
                core = GraphRetriever(index).retrieve(QUESTION)
            assert [(h.chunk.id, h.score) for h in found] == [(h.chunk.id, h.score) for h in core.hits]

    async def test_are_asked_for_nothing_twice(self, documents):
        embedding = OnTheLoop()
        settings = {"embed_names": True}
        with await indexed(documents, embedding, **settings) as retriever:
            texts = [text for batch in embedding.batches for text in batch]
            assert len(texts) == len(set(texts)) > 10
            embedding.batches.clear()
            await retriever.aadd_documents(documents)
            assert embedding.batches == []
            changed = [Document(id=d.id, page_content=d.page_content + " Yes.", metadata=d.metadata) for d in documents]
            await retriever.aadd_documents([*changed[:1], *documents[1:]])
            (batch,) = embedding.batches
            assert all("Yes." in text for text in batch)
            assert retriever.index.verify()

    async def test_are_not_asked_for_a_keyword_search(self, documents):
        embedding = OnTheLoop()
        with await indexed(documents, embedding) as retriever:
            assert await retriever.ainvoke("Tallinn", method="keyword")
            assert embedding.questions == []

    async def test_that_fail_leave_the_question_to_keywords(self, documents):
        embedding = OnTheLoop()
        with await indexed(documents, embedding, on_embedder_error="keyword") as retriever:
            embedding.fail = ConnectionError("no route")
            found = await retriever.asearch("Tallinn")
            assert found.hits[0].chunk.id == "keyring"
            assert "no route" in found.fallback
            with pytest.raises(EmbedderError, match="no route"):
                await retriever.aadd_documents([Document(id="new", page_content="New.")])
            assert "new" not in retriever.index

    @pytest.mark.parametrize("vector", [[1.0, 2.0], [float("nan")] * 64, [[1.0] * 64], "no vector"])
    async def test_that_cannot_be_used_leave_the_question_to_keywords_as_in_a_plain_call(self, documents, vector):
        class Wrong(OnTheLoop):
            async def aembed_query(self, text):
                return vector

        with await indexed(documents, Wrong(), on_embedder_error="keyword") as retriever:
            found = await retriever.asearch("Tallinn")
            assert found.hits[0].chunk.id == "keyring"
            assert "Wrong" in found.fallback

    @pytest.mark.parametrize("vectors", [[], [[1.0, 2.0]], [[float("inf")] * 64]])
    async def test_that_cannot_be_stored_are_refused(self, documents, vectors):
        embedding = OnTheLoop()
        with await indexed(documents, embedding) as retriever:

            async def wrong(texts):
                return vectors

            embedding.aembed_documents = wrong
            with pytest.raises(EmbedderError):
                await retriever.aadd_documents([Document(id="new", page_content="New.")])
            assert "new" not in retriever.index
            assert retriever.index.verify()

    async def test_come_in_the_indexs_batches(self):
        embedding = OnTheLoop()
        documents = [Document(id=str(i), page_content=f"Text number {i}.") for i in range(25)]
        with await indexed(documents, embedding, batch_size=10) as retriever:
            assert [len(batch) for batch in embedding.batches] == [10, 10, 5]
            assert len(retriever.index) == 25
            with pytest.raises(DocumentError, match="twice"):
                await retriever.aadd_documents([*documents, documents[0]])

    async def test_of_many_additions_at_once_do_not_wait_for_each_other(self, documents):
        """More concurrent additions than threads; each blocks a thread while it writes."""
        embedding = OnTheLoop()
        with await indexed([], embedding) as retriever:
            additions = [retriever.aadd_documents([document]) for document in documents for _ in range(20)]
            await asyncio.wait_for(asyncio.gather(*additions), LONG)
            assert len(retriever.index) == 5

    async def test_from_another_embedder_are_made_in_a_thread(self, documents):
        loop_thread = threading.get_ident()
        seen = set()

        class InThread(HashEmbedder):
            def embed_query(self, text):
                seen.add(threading.get_ident())
                return super().embed_query(text)

            def embed_documents(self, texts):
                seen.add(threading.get_ident())
                return super().embed_documents(texts)

        with await indexed(documents, InThread()) as retriever:
            await retriever.ainvoke(QUESTION)
        assert seen
        assert loop_thread not in seen


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


class TestTheLoop:
    async def through(self, waits, call):
        """Await a call that blocks until the event loop releases it."""
        waits.armed = True
        task = asyncio.ensure_future(call)
        await asyncio.wait_for(waits.entered.wait(), LONG)
        assert not task.done()
        waits.released.set()
        return await asyncio.wait_for(task, LONG)

    async def test_turns_while_a_question_is_embedded(self, documents):
        waits = Waits()
        with await indexed(documents, waits) as retriever:
            assert await self.through(waits, retriever.ainvoke(QUESTION))

    async def test_turns_while_the_graph_is_walked(self, documents):
        waits = Waits()
        graph = WaitsInTheGraph(waits)
        with await indexed(documents, HashEmbedder(), graph=graph) as retriever:
            assert await self.through(waits, retriever.ainvoke(QUESTION))

    async def test_turns_while_documents_are_added(self, documents):
        waits = Waits()
        with await indexed([], waits) as retriever:
            assert len(await self.through(waits, retriever.aadd_documents(documents))) == 5

    async def test_turns_while_a_delete_waits_for_a_question(self, documents):
        waits = Waits()
        graph = WaitsInTheGraph(waits)
        with await indexed(documents, HashEmbedder(), graph=graph) as retriever:
            waits.armed = True
            question = asyncio.ensure_future(retriever.ainvoke(QUESTION))
            await asyncio.wait_for(waits.entered.wait(), LONG)
            delete = asyncio.ensure_future(retriever.adelete(["auth"]))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not question.done()
            waits.released.set()
            found, deleted = await asyncio.wait_for(asyncio.gather(question, delete), LONG)
            assert "auth" in [document.id for document in found]  # the state before the deletion
            assert deleted["num_deleted"] == 1


def edition(number: int) -> list[Document]:
    return [
        Document(
            id=f"part{i}",
            page_content=f"Part {i} of Project Aurora in edition {number} leads to Part {(i + 1) % 5}.",
            metadata={"edition": number, "title": f"Part {i}"},
        )
        for i in range(5)
    ]


def editions_in(found) -> set[int]:
    """Every edition mentioned in the passages of a result; paths may be explained from a later state."""
    metadata = {document.metadata["edition"] for document in found}
    texts = [document.page_content for document in found]
    return metadata | {int(number) for text in texts for number in re.findall(r"edition (\d+)", text)}


@pytest.mark.parametrize(("embedding", "tasks"), [(HashEmbedder, 200), (OnTheLoop, 40)])
async def test_many_tasks_ask_during_changes_and_each_sees_one_generation(embedding, tasks):
    """Every change replaces or deletes all five documents: a result has all of one edition, or none."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    with await indexed(edition(1), embedding(), cache=None) as retriever:
        now, seen, over, fresh = [1], set(), asyncio.Event(), asyncio.Event()

        async def ask(number):
            method = ("hybrid", "vector")[number % 2]
            while not over.is_set():
                before = now[0]
                found = await retriever.ainvoke(f"What leads to Part {number % 5} of Aurora?", k=9, method=method)
                editions = editions_in(found)
                assert (len(found), len(editions)) in ((5, 1), (0, 0))
                if before == now[0] is not None:
                    assert editions == ({before} if before else set())
                    fresh.set()
                seen.update(editions)

        async def change():
            for number in range(2, 6):
                now[0] = None  # during the change, both states are right
                if number % 3 == 0:
                    await retriever.adelete([document.id for document in edition(number)])
                    now[0] = 0
                else:
                    await retriever.aadd_documents(edition(number))
                    now[0] = number
                fresh.clear()
                await fresh.wait()  # until a query has run since
            over.set()

        await asyncio.wait_for(asyncio.gather(change(), *(ask(number) for number in range(tasks))), 4 * LONG)
        assert seen >= {2, 4, 5}
        assert retriever.index.verify()
