"""Async use: the event loop is never blocked, and many tasks query while others write."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from llama_support import QUESTION, Hashed, ids, make_nodes

from graphrag_core import SentenceExtractor
from graphrag_core.errors import EmbedderError
from graphrag_core.strategies import ReciprocalRank
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, LocalEmbedding

PATIENCE = 30  # timeout in seconds; only reached if the event loop is blocked


class Meeting:
    """Blocks the library's thread until the event loop releases it, which a blocked loop could not do."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.reached = asyncio.Event()
        self._go = threading.Event()

    def wait(self) -> None:
        self.loop.call_soon_threadsafe(self.reached.set)
        assert self._go.wait(PATIENCE), "the event loop was blocked"

    async def attend(self) -> None:
        await self.reached.wait()
        self._go.set()


@dataclass(frozen=True, kw_only=True)
class Slow(ReciprocalRank):
    meeting: list = field(default_factory=list, hash=False, compare=False)

    def fuse(self, *arguments, **settings):
        self.meeting[0].wait()
        return super().fuse(*arguments, **settings)


class SlowReader(SentenceExtractor):
    meeting: Meeting | None = None

    def extract(self, chunks):
        if SlowReader.meeting is not None:
            SlowReader.meeting.wait()
        return super().extract(chunks)


async def together(work, meeting):
    task = asyncio.create_task(work)
    await asyncio.gather(meeting.attend(), task)
    return task.result()


@pytest.mark.parametrize("embedding", [Hashed(), HashEmbedder(), LocalEmbedding(HashEmbedder())])
def test_the_loop_is_free_while_a_question_is_answered(nodes, embedding):
    slow = Slow(meeting=[])
    retriever = GraphRAGRetriever.from_nodes(nodes, embedding, fusion=slow, cache=None)

    async def main():
        slow.meeting.append(Meeting())
        return await together(retriever.aretrieve(QUESTION), slow.meeting[0])

    assert "keyring" in ids(asyncio.run(main()))


def test_the_loop_is_free_while_nodes_are_inserted(model):
    retriever = GraphRAGRetriever.from_nodes([], model, extractor=SlowReader())

    async def main():
        SlowReader.meeting = Meeting()
        try:
            return await together(retriever.ainsert_nodes(make_nodes()), SlowReader.meeting)
        finally:
            SlowReader.meeting = None

    assert asyncio.run(main()).added == 5


def test_the_loop_is_free_while_nodes_are_deleted(retriever):
    """The deletion waits for a query in another thread, which waits for the event loop."""

    async def main():
        meeting = Meeting()
        slow = GraphRAGRetriever(retriever.index, fusion=Slow(meeting=[meeting]), cache=None)
        reader = threading.Thread(target=slow.retrieve, args=(QUESTION,))
        reader.start()
        await meeting.reached.wait()
        await together(retriever.as_vector_store().adelete("acme.md"), meeting)
        reader.join()

    asyncio.run(main())
    assert len(retriever.index) == 1


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


class Waits(BaseEmbedding):
    """An embedding that works on the event loop only."""

    def _get_query_embedding(self, query):
        raise AssertionError("asked synchronously")

    _get_text_embedding = _get_query_embedding

    async def _aget_query_embedding(self, query):
        await asyncio.sleep(0)
        return HashEmbedder().embed_query(query).tolist()

    _aget_text_embedding = _aget_query_embedding


def test_an_embedding_that_only_lives_on_the_loop_works_there():
    async def main():
        retriever = GraphRAGRetriever.from_nodes([], Waits())
        await retriever.ainsert_nodes(make_nodes())
        return await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(20)))

    assert all("keyring" in ids(found) for found in asyncio.run(main()))


def test_sync_and_async_give_the_same(retriever):
    for question in (QUESTION, "noon", QueryBundle("Keyring", custom_embedding_strs=["Tallinn company"])):
        sync, later = retriever.retrieve(question), asyncio.run(retriever.aretrieve(question))
        assert ids(sync) == ids(later)
        assert [one.score for one in sync] == [one.score for one in later]
        assert [one.node for one in sync] == [one.node for one in later]


class Broken(Hashed):
    async def _aget_query_embedding(self, query):
        raise ConnectionError("no route")

    async def _aget_text_embedding(self, text):
        raise ConnectionError("no route")


def test_an_embedding_that_fails_on_the_loop_leaves_the_question_to_keywords_and_graph(nodes):
    retriever = GraphRAGRetriever.from_nodes(nodes, Broken(), on_embedder_error="keyword")
    found = asyncio.run(retriever.asearch("Tallinn"))
    assert found.hits[0].chunk.id == "keyring"
    assert "no route" in found.fallback
    with pytest.raises(EmbedderError, match="no route"):
        asyncio.run(retriever.ainsert_nodes([TextNode(text="A fox.")]))
    assert len(retriever.index) == 5


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


def edition(number: int) -> list[TextNode]:
    """Eight pages that are replaced together; each names the edition's marker."""
    return [
        TextNode(
            id_=f"page-{i}",
            text=f"Page {i} of the Handbook names Marker {number} and Chapter {i}. The Handbook keeps Marker {number}.",
            metadata={"edition": number, "title": "Handbook"},
        )
        for i in range(8)
    ]


def leaflet(number: int) -> list[TextNode]:
    """Four nodes of one source that are added and deleted together."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="leaflet")}
    return [
        TextNode(id_=f"leaf-{number}-{i}", text=f"A leaf about the Handbook and Marker {number}.", relationships=source)
        for i in range(4)
    ]


def check(found, low: int, high: int) -> int:
    """Check that pages, facts and entities are of one edition, with all leaves of a leaflet or none."""
    pages = [one for one in found if one.node_id.startswith("page")]
    leaves = [one.node_id.split("-")[1] for one in found if one.node_id.startswith("leaf")]
    (number,) = {one.metadata["edition"] for one in pages}
    assert low <= number <= high
    assert len(pages) == 8
    assert all(f"Marker {number} " in one.text for one in pages)
    for one in pages:
        for step in one.metadata["path"][1:]:
            assert "Marker" not in step["text"] or f"Marker {number}" in step["text"] or "leaf" in step["text"]
    assert not leaves or (len(leaves) == 4 and len(set(leaves)) == 1)
    return number


def test_two_hundred_questions_while_nodes_come_and_go_mix_no_generations(model):
    retriever = GraphRAGRetriever.from_nodes(edition(0), model, similarity_top_k=50, cache=None, add_metadata=["path"])

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(220))  # a thread for every task
        answers, written = [], asyncio.Condition()
        number, open_questions = 0, 200

        async def write():
            nonlocal number
            while open_questions:
                await retriever.ainsert_nodes(edition(number + 1))
                await retriever.ainsert_nodes(leaflet(number + 1))
                await asyncio.to_thread(retriever.delete_ref_doc, "leaflet")
                number += 1
                async with written:
                    written.notify_all()

        async def ask(i):
            nonlocal open_questions
            for _ in range(2):  # the second time after at least one more edition
                low = number
                answers.append((low, await retriever.aretrieve(f"What does the Handbook say of Marker {i % 7}?")))
                async with written:
                    await written.wait_for(lambda low=low: number > low)
            open_questions -= 1

        await asyncio.gather(write(), *(ask(i) for i in range(200)))
        return number, answers, await retriever.aretrieve("What does the Handbook say?")

    last, answers, final = asyncio.run(main())
    assert len(answers) == 400
    seen = {check(found, low, last) for low, found in answers}
    assert len(seen) > 1, "nothing was written while the questions were asked"
    assert check(final, last, last) == last
    assert len(retriever.index) == 8
    assert retriever.index.verify()


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
