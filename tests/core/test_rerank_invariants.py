"""What holds for every reranking, and that chosen strategies and fusions are not reranked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixed_documents import DOCUMENTS, QUESTIONS

from graphrag_core import Chunker, GraphRetriever, KnowledgeIndex
from graphrag_core.filters import parse
from graphrag_core.query.query import Query
from graphrag_core.result import Trace
from graphrag_core.strategies import (
    ExpansionQueries,
    Linear,
    Neighbourhood,
    PageRank,
    ReciprocalRank,
    Recogniser,
    Weighted,
)
from graphrag_core.testing import HashEmbedder


@pytest.fixture(scope="module")
def index():
    chunker = Chunker(max_tokens=30, overlap=5, whole_until=40)
    with KnowledgeIndex(HashEmbedder(), chunker=chunker, embed_names=True) as filled:
        filled.add(DOCUMENTS)
        yield filled


shares = st.floats(0, 3, allow_nan=False, width=16)
weights = st.builds(Linear, **dict.fromkeys(("graph", "vector", "document", "cover", "link", "similar"), shares))
scopes = st.sampled_from([None, {"team": "jobs"}, {"tenant": "acme"}])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.data(), st.one_of(st.just(Linear()), weights), st.sampled_from(QUESTIONS), scopes)
def test_every_chunk_of_both_rankings_is_there_once_and_none_from_outside_the_scope(
    index, data, linear, question, where
):
    vector = index.embedding.query(question)
    with index.engine.snapshot(where and parse(where)) as snapshot:
        query = Query(question, snapshot, vector, Recogniser().recognise(question, vector, snapshot), index.embedding)
        every = sorted(snapshot.search_vectors("chunks", vector[None, :], 1_000)[0][0].tolist())
        rankings = []
        for name in ("plain", "graph"):
            length = data.draw(st.integers(0, len(every)), f"length of {name}")
            keys = data.draw(st.permutations(every), name)[:length]
            rankings.append((np.array(keys, np.int64), np.linspace(1, 0.1, len(keys), dtype=np.float32)))
        before = [part.copy() for ranking in rankings for part in ranking]
        reranked = linear.rerank(query, *rankings)
        given_keys = {key for keys, _ in rankings for key in keys.tolist()}
        found = reranked.keys.tolist()
        assert max(Counter(found).values(), default=1) == 1
        assert given_keys == set(found)
        assert all(0 <= key < snapshot.first_entity for key in found)
        if where:
            ((field, value),) = where.items()
            assert all(chunk.metadata[field] == value for chunk in snapshot.chunks(reranked.keys))
        assert len(reranked.scores) == len(found)
        assert (np.diff(reranked.scores) < 0).all()
        assert 0 <= reranked.trust <= 1
        assert all(np.array_equal(a, b) for a, b in zip(before, (p for r in rankings for p in r), strict=True))
        again = linear.rerank(query, *rankings)
        assert again.keys.tolist() == found


def without_times(result):
    return replace(result, trace=Trace())


CHOSEN = [
    {"graph": Neighbourhood()},
    {"graph": Neighbourhood(hops=2), "fusion": ReciprocalRank()},
    {"graph": ExpansionQueries()},
    {"graph": PageRank(), "fusion": Weighted()},
    {"graph": PageRank(), "fusion": ReciprocalRank()},
    {"fusion": ReciprocalRank(k=10)},
    {"fusion": Weighted(alpha=0.2, beta=0.8)},
]


@pytest.mark.parametrize("chosen", CHOSEN, ids=str)
def test_what_was_chosen_is_not_reranked_unless_asked_for(index, chosen, monkeypatch):
    calls = []
    rerank = Linear.rerank

    def counted(self, *arguments):
        calls.append(self)
        return rerank(self, *arguments)

    monkeypatch.setattr(Linear, "rerank", counted)
    by_default = GraphRetriever(index, k=10, cache=False, **chosen)
    switched_off = GraphRetriever(index, k=10, cache=False, reranker=False, **chosen)
    for question in QUESTIONS:
        for method in ("hybrid", "graph", "vector", "keyword"):
            found = without_times(by_default.retrieve(question, method=method))
            assert found == without_times(switched_off.retrieve(question, method=method))
    assert not calls
    GraphRetriever(index, cache=False, reranker=Linear(), **chosen).retrieve(QUESTIONS[0])
    assert calls == [Linear()]


@pytest.mark.parametrize("method", ["graph", "vector", "keyword"])
def test_one_channel_is_not_reranked(index, method):
    for question in QUESTIONS:
        found = [
            without_times(GraphRetriever(index, method=method, reranker=reranker, cache=False).retrieve(question))
            for reranker in (True, False)
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize("fusion", [ReciprocalRank(), ReciprocalRank(k=10, graph_weight=2)])
def test_reciprocal_ranks_add_up_as_written(fusion):
    """RRF: the sum of weight / (k + rank) over both rankings; each ranking is asked for on its own."""
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        retriever = GraphRetriever(index, k=100, fusion=fusion, cache=False)
        for question in QUESTIONS[:6]:
            rankings = [
                [hit.chunk.id for hit in retriever.retrieve(question, **only).hits]
                for only in ({"use_graph": False}, {"method": "graph"})
            ]
            for hit in retriever.retrieve(question).hits:
                weighted = zip((fusion.plain_weight, fusion.graph_weight), rankings, strict=True)
                places = [(weight, ranked.index(hit.chunk.id)) for weight, ranked in weighted if hit.chunk.id in ranked]
                by_hand = sum(weight / (fusion.k + 1 + place) for weight, place in places)
                assert hit.score == pytest.approx(by_hand, rel=1e-5), (question, hit.chunk.id)
