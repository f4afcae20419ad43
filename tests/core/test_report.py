"""Reports: differences, types, wins and losses, latency, JSON, and a page that a real browser shows."""

from __future__ import annotations

import json

import pytest

from graphrag_apps.compare import (
    METHODS,
    WITHOUT_GRAPH,
    Answered,
    Question,
    Report,
    compare,
)
from graphrag_core import Chunk, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
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
    found = report.difference("recall@3")
    assert found.value == pytest.approx((1 + 0.5 - 0.5 + 0) / 4)
    assert (found.better, found.worse, found.same) == (2, 1, 1)
    # Of the 8 combinations of signs of 1, 0.5 and 0.5, the sum is at least 1 or at most -1 for 6.
    assert found.p_value == 6 / 8
    assert found.cells == ("+25.0", "too few questions", "0.750")
    assert Report(3, report.answered * 2).difference().cells[1] != "too few questions"
    assert report.difference("mrr@3").value == pytest.approx((1 + 0 - 0.5 + 0) / 4)


def test_each_type_has_a_report(report):
    parts = report.by_type()
    assert list(parts) == ["bridge", "single"]
    assert parts["bridge"].difference().value == 0.75
    assert parts["single"].mean("hybrid", "recall@3").value == 0.75
    assert Report(3, (answered("a", "b"),)).by_type() == {}


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


# -- the page


@pytest.fixture
def evil_report(index):
    questions = [
        Question(f"Who trusts? {EVIL}", ("oauth", EVIL), type=EVIL),
        Question("Who is behind the Auth Service?", ("auth", "oauth"), type="bridge"),
        Question("Soup?", evidence=("Soup is served", f"nowhere {EVIL}")),
    ]
    return compare(GraphRetriever(index), questions, k=2, others={EVIL: lambda _: ["auth"]})


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
