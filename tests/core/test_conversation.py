"""Follow-up questions: which questions refer back, and what they take over from the conversation."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, strategies
from graphrag_core.query.conversation import text_before_reference
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("gate", "The Harbour Gate reports to the Tariff Engine.", "Harbour Gate", {"tenant": "a"}),
    Document("tariff", "The Tariff Engine is owned by Tomas Vael.", "Tariff Engine", {"tenant": "a"}),
    Document("tomas", "Tomas Vael lives in Ystad.", "Tomas Vael", {"tenant": "a"}),
    Document("quay", "The Quay Planner is owned by Rosa Millan.", "Quay Planner", {"tenant": "b"}),
    *(
        Document(f"owner-{at}", f"An owner of things, number {at}, owns what it owns.", metadata={"tenant": "a"})
        for at in range(12)
    ),
]


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        yield index


@pytest.fixture
def retriever(index):
    return GraphRetriever(index, k=3)


def found(result):
    return [hit.chunk.id for hit in result.hits]


def names(result):
    return [entity.name for entity in result.entities]


@pytest.mark.parametrize(
    "question",
    [
        "Who owns it?",
        "and who owns it?",
        "What does this cost?",
        "Can you install them offline?",
        "Where was she born?",
        "When was his brother elected?",
        "What about the price?",
        "How about Oslo?",
        "And in Berlin?",
        "Why?",
        "How much?",
        "What happens there?",
        "Is that safe?",
        "Which port does it use?",
        "What is the colour of it?",
        "Is the latter cheaper?",
        "Is it possible to delete them?",
        "And what did the author do next?",
    ],
)
def test_a_pronoun_or_an_ellipsis_that_nothing_resolves_refers_back(question):
    assert text_before_reference(question) is not None


@pytest.mark.parametrize(
    "question",
    [
        "What is the Harbour Gate and who owns it?",
        "Who owns the Tariff Engine?",
        "And who owns the Tariff Engine?",
        "When did Marie Curie win her first prize?",
        "If a worker dies, who restarts it?",
        "Can a user change their own address?",
        "Do tasks that fail keep their results?",
        "Which university has its origins in a school of medicine?",
        "Is it possible to sort by price?",
        "How long does it take to train a model?",
        "What are the files that belong to a release?",
        "The broker stopped after the last update. How do I start it again?",
        "Who wrote the song This Is My Street?",
        "Is there a limit?",
        "visibility timeout",
        "Wem gehört der Hafen?",
        "¿Qué he hecho?",
        "它有多少?",
        "",
        "?!",
    ],
)
def test_a_question_that_stands_alone_does_not_refer_back(question):
    assert text_before_reference(question) is None


def test_a_follow_up_question_starts_from_the_entities_of_the_conversation(retriever):
    alone = retriever.retrieve("Who owns it?")
    assert "tariff" not in found(alone)
    result = retriever.retrieve("Who owns it?", history=["What is the Tariff Engine?", "It computes prices."])
    assert found(result)[0] == "tariff"
    assert "Tariff Engine" in names(result)
    assert result.decided.startswith("the conversation names Tariff Engine; ")
    assert [step.text for step in result.hits[0].path[:2]] == ["Who owns it?", "Tariff Engine"]
    assert result.question == "Who owns it?"


def test_the_entities_and_passages_of_a_result_are_carried_over(retriever):
    first = retriever.retrieve("What is the Tariff Engine?")
    second = retriever.retrieve("Who owns it?", history=[first])
    assert found(second)[0] == "tariff"
    third = retriever.retrieve("And what else does he own?", history=[first, second])
    assert "Tariff Engine" in names(third), "a follow-up question hands on what it took over"


def test_the_last_turn_counts_more_than_the_turns_before_it(retriever):
    history = ["What is the Quay Planner?", "What is the Tariff Engine?"]
    assert names(retriever.retrieve("Who owns it?", history=history))[-2:] == ["Tariff Engine", "Quay Planner"]
    assert found(retriever.retrieve("Who owns it?", history=history))[0] == "tariff"
    assert found(retriever.retrieve("Who owns it?", history=history[::-1]))[0] == "quay"


def test_what_an_answer_mentions_besides_does_not_displace_the_subject_of_the_question(retriever):
    answer = "The Harbour Gate reports to it, and Tomas Vael and Rosa Millan use the Quay Planner."
    result = retriever.retrieve("Who owns it?", history=["What is the Tariff Engine?", answer])
    assert result.decided.startswith("the conversation names Tariff Engine; ")
    assert set(found(result)[:2]) == {"gate", "tariff"}, "the passages that mention it"


def test_only_the_last_turns_are_looked_at(retriever):
    silence = ["Good."] * 6
    history = ["What is the Tariff Engine?", *silence]
    assert "Tariff Engine" not in names(retriever.retrieve("Who owns it?", history=history))
    assert "Tariff Engine" in names(retriever.retrieve("Who owns it?", history=history[:-1]))


@pytest.mark.parametrize("question", ["Who owns the Quay Planner?", "Where does Tomas Vael live?", "prices", "Hafen"])
@pytest.mark.parametrize("method", ["hybrid", "graph", "vector", "keyword", "agentic"])
def test_any_other_question_is_not_changed(index, question, method):
    retriever = GraphRetriever(index, cache=None, method=method)
    alone, after = retriever.retrieve(question), retriever.retrieve(question, history=["What is the Tariff Engine?"])
    assert [(hit.chunk.id, hit.score) for hit in after.hits] == [(hit.chunk.id, hit.score) for hit in alone.hits]
    assert after.decided == alone.decided


def test_nothing_from_outside_the_scope_comes_in(index, retriever):
    everything = retriever.retrieve("What is the Quay Planner?")
    for history in (["What is the Quay Planner?"], [everything]):
        result = GraphRetriever(index, cache=None).retrieve("Who owns it?", history=history, where={"tenant": "a"})
        alone = GraphRetriever(index, cache=None).retrieve("Who owns it?", where={"tenant": "a"})
        assert found(result) == found(alone)
        assert not {"Quay Planner", "Rosa Millan"} & set(names(result))
        assert "Quay Planner" not in result.decided


def test_history_is_part_of_the_cache_key_only_where_it_matters(retriever):
    history = ["What is the Tariff Engine?"]
    alone = retriever.retrieve("Who owns it?")
    assert found(retriever.retrieve("Who owns it?", history=history)) != found(alone)
    assert "cache" in retriever.retrieve("Who owns it?", history=history).trace.stages
    assert "cache" in retriever.retrieve("Who owns it?", history=[]).trace.stages
    retriever.retrieve("Where does Tomas Vael live?")
    assert "cache" in retriever.retrieve("Where does Tomas Vael live?", history=history).trace.stages


@pytest.mark.parametrize("strategy", ["Neighbourhood", "SpreadingActivation", "RelatedEntities"])
def test_other_strategies_begin_at_the_entities_of_the_conversation(index, strategy):
    retriever = GraphRetriever(index, graph=getattr(strategies, strategy)(), method="graph")
    result = retriever.retrieve("Who owns it?", history=["What is the Tariff Engine?"])
    assert "Tariff Engine" in names(result)
    assert "tariff" in found(result)
