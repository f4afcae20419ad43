"""Questions that wait or follow others on an index in PostgreSQL; tests/core/test_engines.py has the rest."""

from __future__ import annotations

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder


def test_a_reranker_may_wait_while_other_scopes_are_asked(urls):
    documents = [
        Document(f"d{i}", f"Topic{i} Alpha uses Gadget{i % 70} Beta.", f"Topic{i} Alpha", {"tenant": f"t{i % 20}"})
        for i in range(1_500)
    ]
    with KnowledgeIndex.open(urls(), HashEmbedder()) as index:
        index.add(documents)
        others = GraphRetriever(index, cache=None)
        expected = GraphRetriever(index, cache=None, reranker=by_order).retrieve("What does Topic5 Alpha use?")

        def busy(question, chunks):
            for tenant in range(17):
                others.retrieve("Gadget", where={"tenant": f"t{tenant}"})
            others.retrieve("Topic41 Alpha Gadget3 Beta")
            return by_order(question, chunks)

        result = GraphRetriever(index, cache=None, reranker=busy).retrieve("What does Topic5 Alpha use?")
        assert [hit.chunk.id for hit in result.hits] == [hit.chunk.id for hit in expected.hits]
        assert [entity.name for entity in result.entities] == [entity.name for entity in expected.entities]


def by_order(question, chunks):
    return [-place for place in range(len(chunks))]


def test_a_follow_up_question_finds_the_same_as_in_memory(urls):
    documents = [
        Document("gate", "The Harbour Gate reports to the Tariff Engine.", "Harbour Gate"),
        Document("tariff", "The Tariff Engine is owned by Tomas Vael.", "Tariff Engine"),
        *(Document(f"owner-{at}", f"An owner of things, number {at}, owns what it owns.") for at in range(12)),
    ]
    found = []
    for index in (KnowledgeIndex(HashEmbedder()), KnowledgeIndex.open(urls(), HashEmbedder())):
        with index:
            index.add(documents)
            retriever = GraphRetriever(index)
            shown = retriever.retrieve("What is the Tariff Engine?")
            results = [retriever.retrieve("Who owns it?", history=[turn]) for turn in ("The Tariff Engine?", shown)]
            found.append([[(hit.chunk.id, hit.score) for hit in result.hits] for result in results])
    assert found[0] == found[1]
    assert {hits[0][0] for hits in found[0]} == {"tariff"}
