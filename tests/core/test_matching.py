"""Words of a question in passages: by similar tokens and by stems."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.query.matching import QuestionWords
from graphrag_core.query.query import Query
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("car", "The automobile was repaired in a garage near the river."),
    Document("soup", "Soup is served with bread on Monday."),
    Document("pool", "Set broker_pool_limit to change the number of connections."),
]


def matches(index, question):
    with index.engine.snapshot() as snapshot:
        query = Query(question, snapshot, index.embedding.query(question), embedder=index.embedding)
        found = snapshot.find_chunks([document.id for document in DOCUMENTS])
        keys = np.array([found[document.id] for document in DOCUMENTS])
        words = QuestionWords.of(query)
        return words.matches(query, keys, snapshot.terms_in("chunks", keys, words.terms))


def test_a_similar_word_counts_less_than_the_word_and_one_that_no_passage_contains_nothing():
    with KnowledgeIndex(WordLlama()) as index:
        index.add(DOCUMENTS)
        (bread, _), (in_soup, cars), *_ = matches(index, "bread cars")
        assert 0 < bread < 0.5
        assert (in_soup, cars) == (pytest.approx(1, abs=1e-5), 0)


def test_a_word_of_several_tokens_counts_by_its_stems():
    with KnowledgeIndex(WordLlama()) as index:
        index.add(DOCUMENTS)
        values = matches(index, "broker_pool_limits")
        assert values[:, 0].tolist() == [0, 0, pytest.approx(0.75, abs=0.26)]


def test_without_token_vectors_every_word_counts_by_its_stems():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        values = matches(index, "cars bread")
        assert values.tolist() == [[0, 0], [0, 1], [0, 0]]


def test_scores_do_not_tell_what_documents_outside_the_scope_contain():
    mine = [Document(d.id, d.text, metadata={"team": "a"}) for d in DOCUMENTS]
    other = [Document(f"other-{n}", f"Shelf {n} has glue.", metadata={"team": "b"}) for n in range(3)]
    asked = "Where is the car of the surgeon?"
    with KnowledgeIndex(WordLlama()) as index:
        index.add([*mine, *other])
        before = GraphRetriever(index, cache=False).retrieve(asked, where={"team": "a"})
        index.add([Document("other-0", "The surgeon has glue.", metadata={"team": "b"})])
        after = GraphRetriever(index, cache=False).retrieve(asked, where={"team": "a"})
    assert [hit.chunk.id for hit in before.hits] == [hit.chunk.id for hit in after.hits]
