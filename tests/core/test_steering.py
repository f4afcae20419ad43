"""``seed_entities`` and ``exclude``: where the graph starts, and what it leaves out."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("gate", "The Harbour Gate reports to the Tariff Engine.", "Harbour Gate", {"tenant": "a"}),
    Document("tariff", "The Tariff Engine reads the Tide Feed.", "Tariff Engine", {"tenant": "a"}),
    Document("tide", "The Tide Feed is run by Tomas Vael.", "Tide Feed", {"tenant": "a"}),
    Document("other", "The Quay Planner is run by Rosa Millan.", "Quay Planner", {"tenant": "b"}),
    *(
        Document(f"noise-{at}", f"A note without names, number {at}, on prices.", metadata={"tenant": "a"})
        for at in range(9)
    ),
]


@pytest.fixture
def retriever():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        yield GraphRetriever(index)


def found(result):
    return [hit.chunk.id for hit in result.hits]


def test_a_seed_is_treated_as_named_in_the_question(retriever):
    plain = retriever.retrieve("who is responsible?", method="graph", k=3)
    assert "Tide Feed" not in [entity.name for entity in plain.entities]
    steered = retriever.retrieve("who is responsible?", method="graph", k=3, seed_entities=["tide feed"])
    assert steered.entities[0].name == "Tide Feed"
    assert found(steered)[0] == "tide"
    assert steered.hits[0].path


def test_an_unknown_seed_is_an_error_that_lists_similar_names(retriever):
    with pytest.raises(InputError, match=r"no entity is named 'Tarif Engin'.*did you mean 'Tariff Engine'"):
        retriever.retrieve("who?", seed_entities=["Tarif Engin"])


@pytest.mark.parametrize("method", ["hybrid", "global"])
@pytest.mark.parametrize("exclude", ["tide", "Tomas Vael"])
def test_a_seed_that_is_excluded_is_an_advice(retriever, method, exclude):
    result = retriever.retrieve("prices", method=method, seed_entities=["Tomas Vael"], exclude=[exclude])
    assert "seed_entities: 'Tomas Vael' left out" in result.advice
    assert "tide" not in found(result) or exclude != "tide"
    both = retriever.retrieve("prices", seed_entities=["Tomas Vael", "Harbour Gate"], exclude=[exclude])
    assert both.entities[0].name == "Harbour Gate"
    with pytest.raises(InputError, match="no entity is named 'Rosa Millan'"):
        retriever.retrieve(
            "prices", method=method, seed_entities=["Rosa Millan"], exclude=[exclude], where={"tenant": "a"}
        )


def test_a_seed_outside_the_scope_is_unknown_and_not_suggested(retriever):
    with pytest.raises(InputError) as error:
        retriever.retrieve("who?", seed_entities=["Quay Planners"], where={"tenant": "a"})
    assert "'Quay Planner'" not in str(error.value)
    with pytest.raises(InputError):
        retriever.retrieve("who?", seed_entities=["Quay Planner"], where={"tenant": "a"})


def test_the_graph_does_not_walk_through_an_excluded_entity(retriever):
    question = "What does the Harbour Gate depend on?"
    free = retriever.retrieve(question, method="graph", k=10)
    assert [step.text for hit in free.hits if hit.chunk.id == "tide" for step in hit.path if step.kind == "entity"] == [
        "Harbour Gate", "Tariff Engine", "Tide Feed",
    ]  # fmt: skip
    steered = retriever.retrieve(question, method="graph", k=10, exclude=["Tariff Engine"])
    assert not any(hit.path for hit in steered.hits if hit.chunk.id == "tide"), "found by its words alone"
    names = {step.text for hit in steered.hits for step in hit.path if step.kind == "entity"}
    assert "Tariff Engine" not in names
    assert not any("Tariff Engine" in fact.text for fact in steered.facts)


def test_an_excluded_document_is_not_returned_and_no_path_leads_through_it(retriever):
    steered = retriever.retrieve("What does the Harbour Gate depend on?", k=10, exclude=["tariff"])
    assert "tariff" not in found(steered)
    assert "gate" in found(steered)
    assert "tide" not in [hit.chunk.id for hit in steered.hits if hit.path]


def test_what_is_neither_is_said_and_documents_of_others_are_not_told_apart(retriever):
    unknown = retriever.retrieve("Harbour Gate", exclude=["Nobody"], where={"tenant": "a"})
    assert "exclude: no entity or document is named 'Nobody'" in unknown.advice
    foreign = retriever.retrieve("Harbour Gate", exclude=["other"], where={"tenant": "a"})
    assert "'other'" in foreign.advice, "a document of another tenant looks like none"


def test_both_are_part_of_the_cache_key(retriever):
    question = "What does the Harbour Gate depend on?"
    free = found(retriever.retrieve(question, k=10))
    assert found(retriever.retrieve(question, k=10, exclude=["tide"])) != free
    assert found(retriever.retrieve(question, k=10)) == free
    again = retriever.retrieve(question, k=10, exclude=["tide"])
    assert "cache" in again.trace.stages
    assert "tide" not in found(again)


@pytest.mark.parametrize("names", ["Tide Feed", [""], [3], b"x"])
def test_names_must_be_a_list_of_texts(retriever, names):
    with pytest.raises(InputError, match="use a list of names"):
        retriever.retrieve("who?", seed_entities=names)
    with pytest.raises(InputError, match="use a list of names"):
        retriever.retrieve("who?", exclude=names)
