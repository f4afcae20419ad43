"""A function as the reranker of both adapters: it ranks as in the core, and a coroutine is awaited."""

from __future__ import annotations

import asyncio
import re

import pytest

from graphrag_core import Document, GraphRetriever
from graphrag_core.errors import RerankerError
from graphrag_core.strategies import Linear
from graphrag_core.testing import CHAIN_QUESTION as QUESTION

LONG = 120  # timeout in seconds of what must not hang


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def by_overlap(question, texts):
    return [len(words(question) & words(text)) - len(text) / 1_000 for text in texts]


async def awaited(question, texts):
    await asyncio.sleep(0)
    return by_overlap(question, texts)


def scored(result):
    return [(hit.chunk.id, hit.score) for hit in result]


@pytest.mark.parametrize("reranker", [True, False, Linear(link=0), by_overlap, awaited])
async def test_it_ranks_as_in_the_core(framework, retriever, reranker):
    reranked = framework.changed(retriever, reranker=reranker, add_metadata=["score"])
    core = GraphRetriever(retriever.index, reranker=by_overlap if reranker is awaited else reranker)
    expected = scored(core.retrieve(QUESTION))
    assert scored(await reranked.asearch(QUESTION)) == expected
    found = await framework.aretrieve(reranked, QUESTION)
    assert list(zip(framework.ids(found), framework.scores(found), strict=True)) == expected


async def test_on_an_event_loop_a_plain_question_cannot_run_a_coroutine_function(framework, retriever):
    with pytest.raises(RerankerError, match=r"awaited is a coroutine function: .* use asearch, ainvoke or aretrieve"):
        framework.changed(retriever, reranker=awaited).search(QUESTION)


async def test_a_cancelled_query_cancels_the_coroutine(framework, retriever):
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow(question, texts):
        started.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            ended.set()

    task = asyncio.create_task(framework.aretrieve(framework.changed(retriever, reranker=slow), QUESTION))
    await asyncio.wait_for(started.wait(), LONG)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_an_index_that_changes_meanwhile_answers_from_what_the_question_saw(framework, retriever):
    seen = []

    async def meanwhile(question, texts):
        seen.append(texts)
        await framework.aadd(retriever, [Document("new", "The vendor sits in Riga.")])
        return range(len(texts), 0, -1)

    found = await framework.aretrieve(framework.changed(retriever, reranker=meanwhile), QUESTION, k=9)
    assert len(seen) == 1
    assert "new" not in framework.ids(found)
    assert "new" in framework.ids(await framework.aretrieve(retriever, QUESTION, k=9))
