"""What holds for every reranking, and that chosen strategies and fusions are not reranked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mixed_documents import DOCUMENTS, QUESTIONS

from graphrag_core import Chunker, GraphRetriever, KnowledgeIndex
from graphrag_core.result import Trace
from graphrag_core.strategies import (
    ExpansionQueries,
    Neighbourhood,
    PageRank,
    ReciprocalRank,
    Weighted,
)
from graphrag_core.testing import HashEmbedder


@pytest.fixture(scope="module")
def index():
    chunker = Chunker(max_tokens=30, overlap=5, whole_until=40)
    with KnowledgeIndex(HashEmbedder(), chunker=chunker, embed_names=True) as filled:
        filled.add(DOCUMENTS)
        yield filled


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
def test_what_was_chosen_is_not_reranked_unless_asked_for(index, chosen):
    by_default = GraphRetriever(index, k=10, cache=False, **chosen)
    switched_off = GraphRetriever(index, k=10, cache=False, reranker=False, **chosen)
    for question in QUESTIONS[::3]:
        for method in ("hybrid", "graph", "vector", "keyword"):
            found = without_times(by_default.retrieve(question, method=method))
            assert found == without_times(switched_off.retrieve(question, method=method))


@pytest.mark.parametrize("method", ["graph", "vector", "keyword"])
def test_one_channel_is_not_reranked(index, method):
    for question in QUESTIONS[::3]:
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
