"""Settings are chosen by cross-validation, and noise is not recommended. Questions are generated from documents."""

from __future__ import annotations

import numpy as np
import pytest
from support import SERVICES

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, config
from graphrag_core.errors import InputError
from graphrag_core.evaluation import (
    SETTINGS,
    Difference,
    Question,
    Recall,
    Setting,
    Tuning,
    compare,
    generate_questions,
    tune,
)
from graphrag_core.evaluation.tune import _held_out
from graphrag_core.testing import HashEmbedder

WORDS = "amber birch cedar delta ember fjord grove haven inlet jetty knoll ledge marsh north orbit pearl".split()


@pytest.fixture
def index():
    """Documents of which each is found by its keyword, and by vector hardly: the other words are shared."""
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document(word, f"Notes on {word} and {other}.") for word in WORDS for other in [WORDS[0]]])
        yield index


QUESTIONS = [Question(f"What is there on {word}?", (word,)) for word in WORDS]
RIGHT, WRONG = Setting("right"), Setting("wrong", {"vector_weight": 0.0, "text_weight": 1.0})


def tuning(gains, *, repeats=1):
    """A tuning of a default and one other setting that differ so."""
    values = np.array([[0.5] * len(gains), [0.5 + gain for gain in gains]] * repeats)
    held_out, choices = _held_out(values, [""] * len(gains), 5, 0)
    best = (RIGHT, WRONG)[int(values[1].mean() > values[0].mean())]
    names = {("right", "wrong")[place]: count for place, count in choices.items()}
    return Tuning(Recall(5), (RIGHT, WRONG), values, names, Difference.of(held_out.tolist()), best)


def test_a_clear_gain_is_recommended():
    found = tuning([0.25] * 30 + [0.0] * 10)
    assert found.held_out.value == pytest.approx(0.1875)
    assert found.recommended is WRONG
    assert found.verdict.startswith("Use wrong: held-out gain +18.8 points recall@5 (95 % interval +15.6 to")


def test_noise_is_not_recommended():
    found = tuning([0.5, -0.5] * 10 + [0.5])
    assert found.best is WRONG, "it has the better mean"
    assert found.recommended is None
    assert "may be chance" in found.verdict


def test_a_gain_below_one_point_is_not_recommended():
    found = tuning([0.005] * 40)
    assert found.held_out.interval.low > 0
    assert found.recommended is None
    assert "below one point" in found.verdict


def test_nothing_better_keeps_the_default():
    found = tuning([-0.25] * 20)
    assert (found.best, found.recommended) == (RIGHT, None)
    assert found.verdict == "Keep the right settings: none of 1 others is better on these questions."


def test_no_question_judges_a_setting_that_it_chose():
    """Each setting is right on one question alone: the others choose another one, so that nothing is gained."""
    count = 20
    values = np.vstack([np.full(count, 0.5), np.where(np.eye(count, dtype=bool), 1.0, 0.45)])
    gains, choices = _held_out(values, [""] * count, 5, 0)
    assert gains.max() == 0
    assert set(choices) == {0}


def test_every_type_is_in_every_fold():
    """The setting is right for questions of one type, which the training part always has seen."""
    types = ["a"] * 10 + ["b"] * 10
    values = np.array([[0.0] * 20, [1.0] * 10 + [0.0] * 10])
    gains, choices = _held_out(values, types, 5, 0)
    assert gains.tolist() == [1.0] * 10 + [0.0] * 10
    assert choices == {1: 25}


def test_settings_are_arguments_of_a_retriever(index):
    for setting in SETTINGS:
        GraphRetriever(index, **config.retriever_arguments(setting.arguments))
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert SETTINGS[0].arguments == {}


def test_every_question_is_embedded_once_and_asked_with_every_setting(index, monkeypatch):
    embedded, asked = [], []
    monkeypatch.setattr(
        type(index.embedding), "query", lambda self, text: embedded.append(text) or np.ones(64, np.float32) / 8
    )
    found = tune(index, QUESTIONS, on_query=lambda setting, question: asked.append((setting, question)))
    assert embedded == [question.text for question in QUESTIONS]
    assert asked == [(setting, question) for setting in SETTINGS for question in QUESTIONS]
    assert found.values.shape == (len(SETTINGS), len(QUESTIONS))


def test_a_tuning_is_written_for_the_retriever_and_keeps_other_settings(index, tmp_path):
    bad = {"vector_weight": 1.0, "text_weight": 0.0, "use_graph": False, "inverses": {"feeds": "fed_by"}}
    found = tune(index, QUESTIONS, base=bad, measure="recall@1")
    assert found.settings[0].name == "current"
    assert found.base == {"inverses": {"feeds": "fed_by"}}
    assert found.recommended is not None, found.verdict
    path = tmp_path / "hybrid-graphrag.toml"
    path.write_text('kb = "here"  # mine\n\n[retriever]\nvector_weight = 1.0\n')
    assert found.write(path)
    loaded = config.load(path)
    assert loaded.options == {"kb": "here"}
    assert loaded.retriever_settings == {"inverses": {"feeds": "fed_by"}, **found.recommended.arguments}
    report = compare(GraphRetriever(index, **loaded.retriever), QUESTIONS, k=1)
    assert report.mean("hybrid", "recall@1").value == found.mean(found.best).value


def test_nothing_is_written_without_a_recommendation(index, tmp_path):
    found = tune(index, QUESTIONS, settings=SETTINGS[:1])
    assert not found.write(tmp_path / "file.toml")
    assert not (tmp_path / "file.toml").exists()
    assert found.to_dict()["recommended"] is None


def test_the_time_is_bounded(index):
    found = tune(index, QUESTIONS, seconds=0)
    assert found.settings == SETTINGS[:1]
    assert found.not_tried == SETTINGS[1:]


def test_few_questions_are_an_error(index):
    with pytest.raises(InputError, match="3 questions have gold in the index: tuning needs at least 10"):
        tune(index, [*QUESTIONS[:3], Question("Who?"), Question("Why?", ("nowhere",))])


# -- generated questions


def people(count):
    """A city for each pair of people; the city's page says who founded it."""
    documents = []
    for number in range(count):
        city, person, founder = f"Cityburg{number}", f"Ada Person{number}", f"Rosa Founder{number}"
        documents += [
            Document(f"p{number}", f"{person} lives in {city}. The weather is fine there.", person),
            Document(f"c{number}", f"{city} lies on a river. It was founded by {founder}.", city),
        ]
    return documents


@pytest.fixture
def cities():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(people(8))
        yield index


def test_bridge_questions_name_the_far_end_and_not_the_bridge(cities):
    questions = generate_questions(cities, 10)
    bridges = [question for question in questions if question.type == "bridge"]
    assert len(bridges) == 5
    for question in bridges:
        number = question.gold[0][1:]
        assert question.text == f"Ada Person{number} lives in what, which was founded by what?"
        assert question.gold == (f"p{number}", f"c{number}")
        assert question.answer == f"Rosa Founder{number}"
        assert f"Cityburg{number}" not in question.text


def test_controls_are_answered_by_one_passage(cities):
    singles = [question for question in generate_questions(cities, 10) if question.type == "single"]
    assert len(singles) == 5
    for question in singles:
        (gold,) = question.gold
        assert question.text.endswith("what?")
        assert question.answer in cities.get(gold).text
        assert question.answer not in question.text


def test_the_same_seed_gives_the_same_questions(cities):
    assert generate_questions(cities, 6, seed=1) == generate_questions(cities, 6, seed=1)
    assert generate_questions(cities, 6, seed=1) != generate_questions(cities, 6, seed=2)


def test_a_report_on_generated_questions_says_what_they_are(cities):
    report = compare(GraphRetriever(cities), generate_questions(cities, 8))
    assert "favour the graph by construction" in report.note
    assert report.verdict.startswith("On generated questions: the graph")
    assert not compare(GraphRetriever(cities), [Question("Who?", ("p1",))]).note


def test_documents_without_links_give_no_questions():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Soup is served on Monday.", "Menu"), Document("b", "It rains.", "Weather")])
        with pytest.raises(InputError, match="no bridge question can be generated"):
            generate_questions(index, 4)
        with pytest.raises(InputError, match="count is 0"):
            generate_questions(index, 0)


def test_real_names_give_readable_questions():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(SERVICES)
        texts = [question.text for question in generate_questions(index, 4)]
        assert all(text.endswith("what?") for text in texts), texts
