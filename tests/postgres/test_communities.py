"""Communities and answers on the PostgreSQL engine are those of a folder."""

from __future__ import annotations

import pytest

from graphrag_apps.ask import ask
from graphrag_apps.demo import sample_documents
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

QUESTION = "What does the Auth Service depend on?"


@pytest.fixture
def both(url):
    with KnowledgeIndex(HashEmbedder()) as memory, KnowledgeIndex.open(url, HashEmbedder()) as database:
        for index in (memory, database):
            index.add(sample_documents())
        yield memory, database


def test_the_same_communities(both):
    memory, database = (index.graph.communities() for index in both)
    assert len(memory) > 2
    assert {frozenset(one.members) for one in memory} == {frozenset(one.members) for one in database}


def test_the_same_answers(both):
    texts = [ask(GraphRetriever(index), QUESTION).text for index in both]
    assert texts[0] == texts[1]
