"""Rerankers of the frameworks, and those of the core, as the retriever's reranker."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from graphrag_core import CrossEncoder, GraphRetriever
from graphrag_core.errors import InputError, RerankerError
from graphrag_core.model import Document
from graphrag_core.strategies import Linear, ScoreReranker
from graphrag_core.testing import CHAIN, HashEmbedder
from graphrag_core.testing import CHAIN_QUESTION as QUESTION

LONG = 120  # timeout in seconds of what must not hang


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def overlap(question: str, text: str) -> float:
    return len(words(question) & words(text)) - len(text) / 1_000


def by_overlap(question, chunks):
    return [overlap(question, chunk.text) for chunk in chunks]


def scored(result):
    return [(hit.chunk.id, hit.score) for hit in result]


@pytest.fixture
def order(framework):
    """Orders results of the framework by common words, and gives them scores."""

    def order(question, found, top_n=20, sign=1):
        scores = [sign * overlap(question, text) for text in framework.texts(found)]
        ranked = sorted(zip(scores, found, strict=True), key=lambda pair: -pair[0])[:top_n]
        return [framework.with_score(one, score) for score, one in ranked]

    return order


@pytest.fixture
def awaited(framework, order):
    """Returns a reranker with a coroutine; the plain method must not be called."""

    def plain(question, found):
        raise AssertionError("the plain method was called")

    async def wait_and_order(question, found):
        await asyncio.sleep(0)
        return order(question, found)

    return lambda function=wait_and_order: framework.reranker(plain, function)


class TestAReranker:
    def test_orders_what_coverage_found_and_its_score_is_that_of_the_result(self, framework, retriever, order):
        reranked = framework.changed(retriever, reranker=framework.reranker(order), add_metadata=["score"])
        found = framework.retrieve(reranked, QUESTION, k=4)
        expected = scored(GraphRetriever(retriever.index, reranker=by_overlap).retrieve(QUESTION, k=4))
        assert list(zip(framework.ids(found), framework.scores(found), strict=True)) == expected
        first = found[0].metadata
        assert not {"relevance_score", "retrieval_score", "graphrag_id"} & first.keys(), "what it writes is not kept"

    def test_that_returns_fewer_drops_the_others(self, framework, retriever, order):
        def two(question, found):
            return order(question, found, top_n=2)

        reranked = framework.changed(retriever, reranker=framework.reranker(two))
        assert len(framework.retrieve(reranked, QUESTION)) == 2
        assert len(framework.retrieve(reranked, QUESTION, k=1)) == 1
        nothing = framework.reranker(lambda question, found: [])
        assert framework.retrieve(reranked, QUESTION, reranker=nothing) == []

    async def test_that_changes_the_text_is_refused_with_advice(self, framework, retriever, awaited):
        def rewrites(question, found):
            return [framework.with_text(one, "new") for one in found]

        async def arewrites(question, found):
            return rewrites(question, found)

        advice = "changed the text of 'auth'.*(ContextualCompressionRetriever|node_postprocessors)"
        with pytest.raises(RerankerError, match=advice):
            framework.retrieve(framework.changed(retriever, reranker=framework.reranker(rewrites)), QUESTION)
        with pytest.raises(RerankerError, match=advice):
            await framework.aretrieve(framework.changed(retriever, reranker=awaited(arewrites)), QUESTION)
        adds = framework.reranker(lambda question, found: [*found, framework.new_result("new")])
        with pytest.raises(RerankerError, match="returned a passage that it was not given"):
            framework.retrieve(framework.changed(retriever, reranker=adds), QUESTION)

    async def test_errors_are_raised_as_they_are(self, framework, retriever, awaited):
        def fails(question, found):
            raise ConnectionError("no route")

        async def afails(question, found):
            raise ConnectionError("no route")

        with pytest.raises(ConnectionError, match="no route"):
            framework.retrieve(framework.changed(retriever, reranker=framework.reranker(fails)), QUESTION)
        with pytest.raises(ConnectionError, match="no route") as raised:
            await framework.aretrieve(framework.changed(retriever, reranker=awaited(afails)), QUESTION)
        assert raised.value.__context__ is None


class TestSettings:
    def test_are_those_of_the_reranker(self, framework, retriever):
        counts = []

        def order(question, found):
            counts.append(len(found))
            return found

        wrapped = framework.wrap_reranker(framework.reranker(order), passages=2, first=Linear(link=0))
        reranked = framework.changed(retriever, reranker=wrapped, k=1)
        assert len(framework.retrieve(reranked, QUESTION)) == 1
        assert counts == [2]
        with pytest.raises(InputError, match=r"document compressor|node postprocessor"):
            framework.wrap_reranker(by_overlap)

    def test_that_cannot_be_used_are_refused(self, framework, retriever):
        for wrong in (framework.Ordered, "cross-encoder", object()):
            with pytest.raises(InputError, match="reranker"):
                framework.changed(retriever, reranker=wrong)

    def test_of_a_reranker_that_change_are_seen_at_once(self, framework, retriever, order):
        sign = 1
        reranker = framework.reranker(lambda question, found: order(question, found, 2, sign))
        reranked = framework.changed(retriever, reranker=reranker)
        before = framework.ids(framework.retrieve(reranked, QUESTION))
        sign = -1
        assert framework.ids(framework.retrieve(reranked, QUESTION)) != before

    @pytest.mark.parametrize("reranker", [True, False, Linear(link=0), by_overlap, ScoreReranker(by_overlap, 3)])
    async def test_rerankers_of_the_core_rank_as_in_the_core(self, framework, retriever, reranker):
        reranked = framework.changed(retriever, reranker=reranker, add_metadata=["score"])
        expected = scored(GraphRetriever(retriever.index, reranker=reranker).retrieve(QUESTION))
        assert scored(reranked.search(QUESTION)) == scored(await reranked.asearch(QUESTION)) == expected
        for found in (framework.retrieve(reranked, QUESTION), await framework.aretrieve(reranked, QUESTION)):
            assert list(zip(framework.ids(found), framework.scores(found), strict=True)) == expected

    def test_a_cross_encoder_ranks_as_in_the_core(self, framework, retriever, tmp_path):
        tiny = pytest.importorskip("tiny_cross_encoder", reason="onnx is not installed")
        folder = tiny.write_cross_encoder(tmp_path / "tiny", [*(one.text for one in CHAIN), QUESTION])
        reranked = framework.changed(retriever, reranker=CrossEncoder(folder))
        expected = GraphRetriever(retriever.index, reranker=CrossEncoder(folder)).retrieve(QUESTION)
        assert scored(reranked.search(QUESTION)) == scored(expected)


class TestAsync:
    async def test_a_coroutine_is_awaited_on_the_loop(self, framework, retriever, order, awaited):
        expected = scored(framework.changed(retriever, reranker=framework.reranker(order)).search(QUESTION))
        reranked = framework.changed(retriever, reranker=awaited())
        assert scored(await reranked.asearch(QUESTION)) == expected
        with pytest.raises(AssertionError, match="plain method"):
            framework.retrieve(reranked, QUESTION)

    async def test_a_plain_method_runs_in_a_thread(self, framework, retriever):
        seen = []

        def order(question, found):
            seen.append(threading.get_ident())
            return found

        assert await framework.aretrieve(framework.changed(retriever, reranker=framework.reranker(order)), QUESTION)
        assert seen != [threading.get_ident()]

    async def test_more_queries_than_threads_do_not_wait_for_each_other(self, framework, retriever, order, awaited):
        """The coroutine needs a thread, while each query needs one too."""

        async def threaded(question, found):
            return await asyncio.to_thread(order, question, found, 2)

        reranked = framework.changed(retriever, reranker=awaited(threaded))
        queries = [framework.aretrieve(reranked, f"{QUESTION} {i}") for i in range(100)]
        found = await asyncio.wait_for(asyncio.gather(*queries), LONG)
        assert {len(one) for one in found} == {2}

    async def test_the_question_is_embedded_once(self, framework, awaited):
        class Counts(HashEmbedder):
            questions = 0

            def embed_query(self, text):
                self.questions += 1
                return super().embed_query(text)

        embedder = Counts()
        with framework.build(CHAIN, embedder, reranker=awaited()) as retriever:
            assert await framework.aretrieve(retriever, QUESTION)
            assert embedder.questions == 1
            assert await framework.aretrieve(retriever, QUESTION, method="keyword")
            assert embedder.questions == 1

    async def test_a_cancelled_query_cancels_the_coroutine(self, framework, retriever, awaited):
        started, ended = asyncio.Event(), asyncio.Event()

        async def slow(question, found):
            started.set()
            try:
                await asyncio.sleep(LONG)
            finally:
                ended.set()

        reranked = framework.changed(retriever, reranker=awaited(slow))
        task = asyncio.create_task(framework.aretrieve(reranked, QUESTION))
        await asyncio.wait_for(started.wait(), LONG)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    async def test_an_index_that_changes_meanwhile_is_scored_again(self, framework, retriever, awaited):
        seen = []

        async def meanwhile(question, found):
            seen.append(framework.ids(found))
            if len(seen) == 1:
                await framework.aadd(retriever, [Document("new", "The vendor sits in Riga.")])
            return found

        reranked = framework.changed(retriever, reranker=awaited(meanwhile))
        found = await framework.aretrieve(reranked, QUESTION, k=9)
        assert len(seen) == 2
        assert framework.ids(found) == seen[1]
        assert "new" in seen[1]
