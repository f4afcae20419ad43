"""The design of graph-guided expansion queries (KG2RAG), with values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeIndex
from graphrag_core.designs import KG2RAG
from graphrag_core.query.query import Query
from graphrag_core.strategies import ExpansionQueries, ReciprocalRank, Recogniser
from graphrag_core.testing import CountingEmbedder, FixedExtractor, HashEmbedder, StrategySuite

QUESTION = "How do I handle FastAPI database connections?"


def triple(subject: str, relation: str, target: str, weight: float = 5.0) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, weight=weight)


FACTS = {
    "pydantic": [triple("FastAPI", "uses", "Pydantic", 6)],
    "sqlalchemy": [triple("FastAPI", "uses", "SQLAlchemy")],
    "uvicorn": [triple("Pydantic", "related_to", "uvicorn")],
}
TEXTS = {
    "pydantic": "Pydantic models validate what FastAPI receives.",
    "sqlalchemy": "SQLAlchemy keeps a pool of connections for FastAPI.",
    "uvicorn": "uvicorn serves applications such as FastAPI.",
}
PAIRS = ["FastAPI Pydantic", "FastAPI SQLAlchemy", "FastAPI uvicorn"]


def make(embedder=None, facts=None, texts=None, **settings) -> KnowledgeIndex:
    facts, texts = facts or FACTS, texts or TEXTS
    index = KnowledgeIndex(embedder or HashEmbedder(), extractor=FixedExtractor(facts), **settings)
    index.add([Document(name, text) for name, text in texts.items()])
    return index


def query_on(index: KnowledgeIndex, question: str) -> Query:
    vector = index.embedding.query(question)
    with index.engine.snapshot() as snapshot:
        return Query(question, snapshot, vector, Recogniser().recognise(question, vector, snapshot), index.embedding)


def test_the_expansion_queries_of_the_example():
    with make() as index:
        queries = KG2RAG.graph.queries(query_on(index, QUESTION))
    # One hop: 1 / (1 + 1) = 0.5; two hops: 1 / (1 + 2) = 0.33. The seed alone comes last, as a fallback.
    assert [text for text, _ in queries] == [*PAIRS, "FastAPI"]
    assert [score for _, score in queries] == pytest.approx([0.5, 0.5, 1 / 3, 1 / 3])


def test_depth_and_min_weight_restrict_the_neighbours():
    with make() as index:
        query = query_on(index, QUESTION)
        assert [text for text, _ in ExpansionQueries(depth=1).queries(query)] == [*PAIRS[:2], "FastAPI"]
        assert [text for text, _ in ExpansionQueries(min_weight=6).queries(query)] == [PAIRS[0], "FastAPI"]


def test_a_pair_is_searched_once_whichever_entity_was_the_seed():
    with make() as index:
        texts = [text for text, _ in ExpansionQueries().queries(query_on(index, "FastAPI and Pydantic"))]
    # Of FastAPI: Pydantic, SQLAlchemy, uvicorn; of Pydantic: (FastAPI again), uvicorn, SQLAlchemy; and both alone.
    pairs = [frozenset(text.split()) for text in texts if " " in text]
    assert len(pairs) == len(set(pairs)) == 5
    assert texts[0] == "FastAPI Pydantic", "the seed that the question names first"
    assert texts[-2:] == ["FastAPI", "Pydantic"]


class Asymmetric(CountingEmbedder):
    """Embeds questions otherwise than documents, as models with a query prefix do."""

    def embed_query(self, text):
        self.queries.append(text)
        return -HashEmbedder.embed_query(self, text)

    def embed_documents(self, texts):
        self.texts.extend(texts)
        return np.stack([HashEmbedder.embed_query(self, text) for text in texts])


class Batched(Asymmetric):
    """Has a call for many questions."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def embed_queries(self, texts):
        self.batches.append(list(texts))
        return [-HashEmbedder.embed_query(self, text) for text in texts]


def test_expansion_queries_are_embedded_as_queries():
    embedder = Asymmetric()
    with make(embedder) as index:
        embedder.texts.clear()
        result = GraphRetriever(index, graph=ExpansionQueries()).retrieve(QUESTION)
    assert embedder.texts == [], "nothing is embedded as a document"
    assert embedder.queries == [QUESTION, *PAIRS, "FastAPI"]
    assert result.fallback == ""


def test_many_queries_are_one_call_where_the_embedder_has_one():
    one, many = Asymmetric(), Batched()
    found = []
    for embedder in (one, many):
        with make(embedder) as index:
            embedder.texts.clear()
            expansion = ExpansionQueries().expand(query_on(index, QUESTION), None, 5)
            found.append((expansion.keys.tolist(), expansion.scores.tolist()))
    assert many.batches == [[*PAIRS, "FastAPI"]]
    assert one.texts == many.texts == []
    assert found[0] == found[1]


def test_results_come_in_the_order_of_the_queries_and_carry_them():
    with make() as index:
        expansion = ExpansionQueries(hits=1).expand(query_on(index, QUESTION), None, 5)
        with index.engine.snapshot() as snapshot:
            ids = [chunk.id for chunk in snapshot.chunks(expansion.keys)]
        texts = dict(zip(ids, (expansion.queries[key] for key in expansion.keys.tolist()), strict=True))
    # Each pair shares two words with its own passage and one with the others; the first query that found it counts.
    assert ids == ["pydantic", "sqlalchemy", "uvicorn"]
    assert texts == dict(zip(ids, PAIRS, strict=True))
    assert expansion.scores.tolist() == pytest.approx([0.5, 0.5, 1 / 3])
    assert expansion.strengths.tolist() == pytest.approx([0.5, 0.5, 1 / 3])


def test_three_results_for_each_query():
    assert KG2RAG.graph.hits == 3
    texts = {f"n{i}": f"FastAPI Pydantic note {i} {'a b c d e f g'[: 2 * i]}" for i in range(6)}
    with make(facts={"n0": [triple("FastAPI", "uses", "Pydantic")]}, texts=texts) as index:
        strategy = ExpansionQueries()
        expansion = strategy.expand(query_on(index, "FastAPI"), None, 5)
        assert [text for text, _ in strategy.queries(query_on(index, "FastAPI"))] == ["FastAPI Pydantic", "FastAPI"]
    assert 3 <= len(expansion.keys) <= 6
    assert list(expansion.queries.values()).count("FastAPI Pydantic") == 3


def test_of_passages_with_the_same_first_hundred_characters_one_is_kept():
    head = (
        "FastAPI and Pydantic share this long beginning, which is repeated at the top of every page of it. " + "x" * 10
    )
    assert len(head) > 100
    texts = {
        "a": head + " Alpha speaks of models.",
        "b": head + " Beta speaks of routes and of other things.",
        "c": "FastAPI and Pydantic in other words.",
    }
    with make(facts={"a": [triple("FastAPI", "uses", "Pydantic")]}, texts=texts) as index:
        query = query_on(index, "FastAPI")

        def found(strategy):
            with index.engine.snapshot() as snapshot:
                return sorted(chunk.id for chunk in snapshot.chunks(strategy.expand(query, None, 5).keys))

        assert found(ExpansionQueries()) == ["a", "b", "c"]
        kept = found(KG2RAG.graph)
        assert len(kept) == 2
        assert "c" in kept
        assert found(ExpansionQueries(same_start=len(head) + 3)) == ["a", "b", "c"]


def test_pure_vector_search_can_be_the_vanilla_list_and_rrf_joins_both():
    with make() as index:
        retriever = GraphRetriever(index, settings=KG2RAG)
        assert retriever.settings.resolved.fusion == ReciprocalRank(k=60)
        vanilla = [hit.chunk.id for hit in GraphRetriever(index, method="vector").retrieve(QUESTION).hits]
        result = retriever.retrieve(QUESTION)
        assert not any("keyword" in hit.channels for hit in result.hits)
        for hit in result.hits:
            # 1 / (60 + rank) for each list that has it
            expected = 1 / (60 + 1 + vanilla.index(hit.chunk.id)) + 1 / (60 + hit.channels["graph"].rank)
            assert hit.score == pytest.approx(expected, abs=1e-7)
        assert all(hit.graph_expansion in (*PAIRS, "FastAPI") for hit in result.hits)


def test_found_through_an_expansion_query_and_by_nothing_else_is_of_the_graph():
    texts = {**TEXTS, **{f"d{i}": f"How do I handle database connections? Case {i}." for i in range(8)}}
    with make(texts=texts) as index:
        retriever = GraphRetriever(index, graph=ExpansionQueries(), vector_weight=1, candidates=1)
        hits = {hit.chunk.id: hit for hit in retriever.retrieve(QUESTION, k=5).hits}
    assert hits["uvicorn"].origin == "graph"
    assert hits["uvicorn"].graph_expansion in PAIRS


def test_an_empty_graph_gives_no_expansion_queries():
    with make(facts={"none": []}) as index:
        strategy = KG2RAG.graph
        assert strategy.queries(query_on(index, QUESTION)) == []
        result = GraphRetriever(index, graph=strategy).retrieve(QUESTION)
    assert result.hits
    assert "the graph adds nothing" in result.expansion_skipped


class TestPublished(StrategySuite):
    def make(self):
        return KG2RAG.graph
