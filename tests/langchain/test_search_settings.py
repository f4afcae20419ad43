"""``search_type`` and ``search_kwargs``."""

from __future__ import annotations

import pytest

from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import CountingEmbedder, HashEmbedder
from langchain_graphrag import GraphRAGRetriever


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestDiversity:
    """Two passages say the same in other words, a third is about something else."""

    TEXTS = (
        "The Auth Service issues access tokens to clients every day.",
        "The Auth Service issues access tokens to clients each day.",
        "Clients of the Auth Service live in Tallinn.",
    )

    @pytest.fixture
    def similar(self):
        embedding = CountingEmbedder()
        with GraphRAGRetriever.from_texts(self.TEXTS, embedding, ids=["a", "b", "c"]) as retriever:
            embedding.texts.clear()
            yield retriever
            assert embedding.texts == []

    async def test_leaves_out_what_has_been_said(self, similar):
        question = "Which access tokens does the Auth Service issue to clients?"
        plain = ids(similar.invoke(question, k=2, method="vector"))
        assert sorted(plain) == ["a", "b"]
        diverse = {"method": "vector", "lambda_mult": 0.3}
        for found in (
            similar.invoke(question, k=2, search_type="mmr", **diverse),
            await similar.ainvoke(question, k=2, search_type="mmr", **diverse),
        ):
            assert ids(found) == [plain[0], "c"]
        for same in ({"method": "vector", "lambda_mult": 1}, {"fetch_k": 2, **diverse}):
            assert ids(similar.invoke(question, k=2, search_type="mmr", **same)) == plain

    def test_is_computed_as_the_formula_says(self, similar):
        """lambda * relevance - (1 - lambda) * the highest similarity to a chosen one, worked out with other code."""
        question, weight = "Auth Service tokens", 0.4
        vectors = dict(zip("abc", HashEmbedder().embed_documents(list(self.TEXTS)), strict=True))
        scores = {name: float(vector @ HashEmbedder().embed_query(question)) for name, vector in vectors.items()}
        chosen = [max(scores, key=scores.get)]
        while len(chosen) < 3:
            marginal = {
                name: weight * scores[name] - (1 - weight) * max(float(vectors[name] @ vectors[one]) for one in chosen)
                for name in scores.keys() - set(chosen)
            }
            chosen.append(max(marginal, key=marginal.get))
        for _ in range(2):
            found = similar.search(question, k=3, search_type="mmr", lambda_mult=weight)
            assert [hit.chunk.id for hit in found] == chosen


class TestSearchSettings:
    async def test_hold_for_every_call_which_may_override_them(self, retriever):
        mine = GraphRAGRetriever(index=retriever.index, search_kwargs={"k": 2, "method": "keyword"})
        assert mine.search_kwargs == {"k": 2, "method": "keyword"}
        found = mine.invoke(QUESTION)
        assert (len(found), mine.search(QUESTION).method) == (2, "keyword")
        assert ids(await mine.ainvoke(QUESTION)) == ids(found)
        assert len(mine.invoke(QUESTION, k=1)) == 1
        assert mine.search(QUESTION, method="vector").method == "vector"

    def test_a_threshold_leaves_out_what_is_not_similar(self, retriever):
        similar = [
            hit.chunk.id
            for hit in retriever.search(QUESTION, k=5, method="vector")
            if hit.channels["vector"].score >= 0.3
        ]
        assert 0 < len(similar) < 5
        mine = GraphRAGRetriever(
            index=retriever.index,
            method="vector",
            search_type="similarity_score_threshold",
            search_kwargs={"score_threshold": 0.3},
        )
        assert ids(mine.invoke(QUESTION)) == similar
        assert ids(retriever.invoke(QUESTION, method="vector", score_threshold=0.3)) == similar

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"search_kwargs": {"top_k": 3}}, "unknown search setting 'top_k'"),
            ({"search_type": "fuzzy"}, "unknown search_type 'fuzzy'"),
            ({"search_type": "similarity_score_threshold"}, "needs search_kwargs={'score_threshold'"),
            ({"search_type": "mmr", "search_kwargs": {"lambda_mult": 2}}, "lambda_mult is 2"),
        ],
    )  # fmt: skip
    def test_that_cannot_be_used_are_told_at_once(self, retriever, settings, problem):
        with pytest.raises(ValueError, match=problem):
            GraphRAGRetriever(index=retriever.index, **settings)
