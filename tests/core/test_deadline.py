"""A time limit ends what takes long, and leaves the index usable."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.deadline import deadline
from graphrag_core.errors import DeadlineExceeded
from graphrag_core.strategies import Neighbourhood, PageRank, RelatedEntities, SpreadingActivation
from graphrag_core.testing import HashEmbedder


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([
            Document("auth", "The Auth Service calls the OAuth Provider.", "Auth Service", {"team": "x"}),
            Document("oauth", "The OAuth Provider calls the Keyring.", "OAuth Provider", {"team": "y"}),
            Document("keyring", "Mara Lindqvist runs the Keyring.", "Keyring"),
        ])  # fmt: skip
        yield index


def late_strategy(strategy):
    """A strategy whose time is up when it begins."""

    class Late(type(strategy)):
        def expand(self, query, plain, k):
            with deadline(0.0):
                return strategy.expand(query, plain, k)

    return Late()


LOOPS = {
    "documents": lambda index: list(index.documents()),
    "scope": lambda index: index.document_ids({"or": [{"team": "x"}, {"team": "y"}]}),
    "path": lambda index: index.graph.find_path("Auth Service", "Mara Lindqvist"),
    "entities": lambda index: index.graph.entities(),
    "relations": lambda index: index.graph.relations(),
    "communities": lambda index: index.graph.communities(),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_time_limit_is_checked_within_long_loops(index, name):
    with deadline(0.0), pytest.raises(DeadlineExceeded):
        LOOPS[name](index)
    assert GraphRetriever(index).retrieve("Who runs the OAuth Provider?").hits, "as before"


@pytest.mark.parametrize("strategy", [PageRank(), SpreadingActivation(), Neighbourhood(), RelatedEntities()])
def test_a_time_limit_is_checked_within_graph_strategies(index, strategy):
    with pytest.raises(DeadlineExceeded):
        GraphRetriever(index, graph=late_strategy(strategy)).retrieve("Who runs the OAuth Provider?", method="graph")
