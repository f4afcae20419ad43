"""Reports: differences, types, wins and losses, latency, JSON, and a page that a real browser shows."""

from __future__ import annotations

import json

import pytest

from graphrag_apps.compare import (
    METHODS,
    MRR,
    WITHOUT_GRAPH,
    Answered,
    Question,
    Recall,
    Report,
    compare,
)
from graphrag_core import Chunk, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import FileError, InputError
from graphrag_core.testing import HashEmbedder

EVIL = "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">\x1b[31m $x_1$"


def answered(plain, hybrid, kind="", text="?", milliseconds=None):
    """A question with two gold documents, of which the methods found these."""
    found = {**dict.fromkeys(METHODS, tuple(plain)), "hybrid": tuple(hybrid)}
    return Answered(Question(text, ("a", "b"), type=kind), found, milliseconds=milliseconds or {})


@pytest.fixture
def report():
    return Report(
        3,
        (
            answered("xyz", "axb", "bridge", "won by two"),
            answered("axz", "abz", "bridge", "won by one"),
            answered("abx", "xay", "single", "lost"),
            answered("abx", "abx", "single", "same"),
        ),
    )


def test_a_difference_is_paired(report):
    found = report.difference(Recall(3))
    assert found.value == pytest.approx((1 + 0.5 - 0.5 + 0) / 4)
    assert (found.better, found.worse, found.same) == (2, 1, 1)
    # Of the 8 combinations of signs of 1, 0.5 and 0.5, the sum is at least 1 or at most -1 for 6.
    assert found.p_value == 6 / 8
    assert not found.significant
    assert found.too_few
    assert not Report(3, report.answered * 2).difference().too_few
    assert report.difference("mrr@3").value == pytest.approx((1 + 0 - 0.5 + 0) / 4)


def test_each_type_has_a_report(report):
    parts = report.by_type()
    assert list(parts) == ["bridge", "single"]
    assert parts["bridge"].difference().value == 0.75
    assert parts["single"].mean("hybrid", Recall(3)).value == 0.75
    assert Report(3, (answered("a", "b"),)).by_type() == {}


def test_wins_and_losses_are_the_questions_themselves(report):
    changed = [(answer.question.text, gain) for answer, gain in report.changed()]
    assert changed == [("won by two", 1), ("won by one", 0.5), ("lost", -0.5)]


def test_latency_is_a_percentile():
    found = Report(3, tuple(answered("a", "b", milliseconds={"hybrid": ms}) for ms in range(1, 102)))
    assert found.latency("hybrid") == (51, 96)
    assert found.latency("vector") is None


def test_measures_need_enough_results(report):
    with pytest.raises(InputError, match="recall@10 needs more results than were retrieved"):
        report.mean("hybrid", "recall@10")
    with pytest.raises(InputError, match="'other' was not asked"):
        report.mean("other", "recall@3")


def test_a_report_is_json(report):
    found = json.loads(json.dumps(report.to_dict()))
    assert found["measures"] == ["recall@3", "all@3", "ndcg@3", "mrr@3"]
    assert found["methods"]["hybrid"]["measures"]["recall@3"]["mean"] == pytest.approx(0.875)
    assert found["differences"][WITHOUT_GRAPH]["recall@3"]["better"] == 2
    assert found["types"]["bridge"]["differences"][WITHOUT_GRAPH]["recall@3"]["value"] == 0.75
    assert found["answers"][0]["found"]["hybrid"] == ["a", "x", "b"]
    assert json.dumps(Report(3).to_dict())


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(
            [
                Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
                Document("oauth", "It speaks to Keyring.", "OAuth Provider"),
                Document("menu", f"Soup is served on Monday. {EVIL}", f"Menu {EVIL}"),
            ]
        )
        yield index


def test_methods_are_timed_and_questions_embedded_once(index, monkeypatch):
    embedded = []
    real = type(index.embedding).query
    monkeypatch.setattr(type(index.embedding), "query", lambda self, text: embedded.append(text) or real(self, text))
    found = compare(GraphRetriever(index), [Question("Who trusts?", ("auth",)), Question("Soup?", ("menu",))], k=2)
    assert embedded == ["Who trusts?", "Soup?"]
    assert all(set(answer.milliseconds) == set(METHODS) for answer in found.answered)


def test_more_results_are_retrieved_for_a_larger_measure(index):
    found = compare(GraphRetriever(index), [Question("Who trusts?", ("auth",))], k=1, measures=["recall@1", MRR(3)])
    assert found.measures == (Recall(1), MRR(3))
    assert len(found.answered[0].found["vector"]) == 3


def test_another_retriever_is_compared(index):
    others = {"ids": lambda _: ["auth", "menu"], "chunks": lambda _: [Chunk("x", "x", "It speaks to Keyring.")]}
    questions = [Question("Who?", ("auth",)), Question("What?", evidence=("speaks to Keyring",))]
    found = compare(GraphRetriever(index), questions, k=2, others=others)
    assert found.methods == (*METHODS, "ids", "chunks")
    assert found.values("ids", "recall@2") == [1, 0]
    assert found.values("chunks", "recall@2") == [0, 1]
    assert found.difference("recall@2", "ids", "chunks").value == 0
    with pytest.raises(InputError, match="need other names"):
        compare(GraphRetriever(index), questions, others={"vector": others["ids"]})


def test_no_verdict_without_both_methods(index):
    found = compare(GraphRetriever(index), [Question("Who?", ("auth",))], methods=["vector"])
    assert found.verdict.startswith("No verdict")
    assert found.to_dict()["differences"] == {}
    assert "<h1>No verdict" in found.html()


# -- the page


@pytest.fixture
def evil_report(index):
    questions = [
        Question(f"Who trusts? {EVIL}", ("oauth", EVIL), type=EVIL, answer=EVIL),
        Question("Who is behind the Auth Service?", ("auth", "oauth"), type="bridge"),
        Question("Soup?", evidence=("Soup is served", f"nowhere {EVIL}")),
    ]
    return compare(GraphRetriever(index), questions, k=2, others={EVIL: lambda _: ["auth"]})


def test_the_page_is_the_same_every_time(evil_report):
    page = evil_report.html()
    assert page == evil_report.html()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_page_draws_a_bar_for_each_method_and_for_each_difference(report):
    page = report.html()
    assert page.count('<svg class="bar"') == len(report.methods) + len(report.measures)
    assert '<rect x="0" y="2" width="87.5" height="6"/>' in page, "recall@3 of hybrid, in percent"
    assert "By type of question" in page


def test_a_report_without_gold_has_a_page(index):
    page = compare(GraphRetriever(index), [Question("Who?")], k=2).html()
    assert "The graph changes" in page
    assert "Time of a query" in page


def test_a_page_that_cannot_be_written_is_an_error(report, tmp_path):
    with pytest.raises(FileError, match="cannot be written"):
        report.save(tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_and_runs_nothing(browser, evil_report, tmp_path, scheme):
    path = tmp_path / "report.html"
    evil_report.save(path)
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert page.title().startswith("Does the graph help?")
    assert messages == []
    assert requests == [path.as_uri()]
    assert page.locator("svg.bar").count() >= 4
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
