"""Documents and comparisons that several tests use."""

from __future__ import annotations

import numpy as np

from graphrag_core import Chunk, Document, GraphRetriever, KnowledgeIndex

SERVICES = [
    Document("auth", "The Auth Service issues tokens. It delegates logins to the OAuth Provider.", "Auth Service"),
    Document(
        "oauth", "The OAuth Provider is run by Mara Lindqvist.", "OAuth Provider", {"team": "identity", "year": 2021}
    ),
    Document("mara", "Mara Lindqvist leads the identity team in Uppsala.", metadata={"team": "identity", "year": 2024}),
    Document("log", "yesterday the Auth Service was slow.", metadata={"team": "sre", "tags": ["incident", "auth"]}),
]


def keyword_search(index: KnowledgeIndex, question: str, k: int = 5, where=None) -> list[tuple[Chunk, float]]:
    """The passages that match a question's words, with their BM25 scores."""
    return _search(index, "keyword", question, k, where)


def vector_search(index: KnowledgeIndex, question: str, k: int = 5, where=None) -> list[tuple[Chunk, float]]:
    """The passages nearest to a question, with their cosines."""
    return _search(index, "vector", question, k, where)


def _search(index, method, question, k, where):
    hits = GraphRetriever(index, cache=None).retrieve(question, k=k, method=method, where=where).hits
    return [(hit.chunk, hit.channels[method].score) for hit in hits]


def snapshot(index: KnowledgeIndex) -> dict[str, object]:
    """Everything an index holds and answers, in ids and texts: equal for equal indexes."""
    graph = index.graph.to_igraph(limit=10**6)
    names = list(zip(graph.vs["kind"], graph.vs["name"], strict=True))
    edges = [
        (*sorted((names[edge.source], names[edge.target])), edge["relation"], edge["fact"], round(edge["weight"], 4))
        for edge in graph.es
    ]
    questions = ["auth service", "Ada Lovelace tokens", "who runs it?", "red fox"]
    return {
        "documents": list(index.documents()),
        "entities": sorted(index.graph.entities(limit=None), key=lambda entity: entity.id),
        "facts": sorted(index.graph.iter_facts(), key=lambda fact: fact.id),
        "edges": sorted(edges),
        "keywords": [[(c.id, np.float32(s)) for c, s in keyword_search(index, q, 3)] for q in questions],
        "vectors": [[(c.id, round(s, 5)) for c, s in vector_search(index, q, 3)] for q in questions],
    }
