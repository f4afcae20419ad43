"""The page says what a result knows, and nothing in it can run but its own script."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import webbrowser
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed import parse
from results import HOSTILE, Named, said_everywhere, sample_results

from graphrag_apps.compare import WITHOUT_GRAPH, Answered, Question, Report
from graphrag_apps.explore import Explorer, static_page
from graphrag_apps.page import frame, page, svg
from graphrag_core import Document, GraphRetriever, KnowledgeIndex

NAMES = ["linked", "paths", "plain", "nothing", "crowd", "evil"]
INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
STORED = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def results():
    return sample_results()


def test_it_shows_the_question_what_it_names_and_what_decided(results):
    result = results["linked"]
    root = parse(result.html())
    assert root.one("h1").text == result.question
    assert [mark.text for mark in root.one("h1").all("mark")] == ["OAuth Provider"]
    assert [chip.text for chip in root.all("span", "chip")] == ["OAuth Provider"]
    header = root.one("header").text
    assert "Method hybrid" in " ".join(header.split())
    assert result.decided[1:] in header
    assert root.one("head").one("title").text.startswith("Why: What happens if we replace")
    assert " ms: " in root.one("footer").text
    assert [word.text for word in root.all("span", "missing")] == list(result.uncovered)


def test_each_hit_has_a_card_with_its_channels_path_words_and_link(results):
    result = results["linked"]
    cards = parse(result.html()).all("li", "hit")
    assert [card.hits for card in cards] == [[rank] for rank in range(1, len(result.hits) + 1)]
    for card, hit in zip(cards, result.hits, strict=True):
        for name, channel in hit.channels.items():
            assert f"{name} #{channel.rank}" in card.one("p", "channels").text
        assert {word.text for word in card.all("span", "word")} == {*hit.words, *hit.covers}
        told = [link.one("button").attributes["data-to"] for link in card.all("p", "link")]
        assert told == ([str(hit.link.rank)] if hit.link else [])
    assert cards[0].one("p", "path").text == "OAuth Provider → this passage"
    found = parse(results["paths"].html()).all("li", "hit")
    assert "froze and was replaced." in found[1].one("p", "path").text
    assert found[2].one("p", "path").text.startswith("Found by plain search: vector rank ")


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_draws_every_hit_and_every_step_of_its_path(results, name):
    result = results[name]
    graph = parse(result.html()).one("svg", "graph")
    assert len(graph.all("g", "passage")) == len(result.hits)
    assert len(graph.all("g", "question")) == 1
    drawn = {(rank, "fact" in box.classes) for box in graph.all("g", "box") for rank in box.hits}
    for rank, hit in enumerate(result.hits, 1):
        assert ((rank, True) in drawn) == any(step.kind == "fact" for step in hit.path)
    for part in graph.all("g"):
        if "data-hits" in part.attributes:
            assert (part.attributes["tabindex"], part.attributes["role"]) == ("0", "button")
            assert part.attributes["aria-label"]
    picture = ET.fromstring(svg(result))  # noqa: S314 - our own
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(picture.findall(".//{*}rect")) == len(graph.all("g", "box"))


def test_an_empty_result_and_a_skipped_graph_say_so(results):
    root = parse(results["nothing"].html())
    assert "No known entity in the question" in root.one("header").text
    assert root.one("p", "decided").text == root.one("p", "empty").text == "No passage was found."
    assert "Keyword search alone." in parse(results["plain"].html()).one("header").text


@pytest.mark.parametrize("name", NAMES)
def test_only_the_pages_own_style_and_script_may_run(results, name):
    text = results[name].html()
    root = parse(text)
    (meta,) = [one for one in root.all("meta") if one.attributes.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(part.strip().split(" ", 1) for part in meta.attributes["content"].split(";"))
    assert set(rules) == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}
    assert rules["default-src"] == "'none'"
    for kind, rule in (("style", "style-src"), ("script", "script-src")):
        digest = base64.b64encode(hashlib.sha256(root.one(kind).text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    everything = root.all()
    assert not [one.name for one in everything if one.name in ("img", "iframe", "object", "embed", "form", "a", "base")]
    assert not [key for one in everything for key in one.attributes if key.startswith("on") or key in ("style", "src")]
    own = re.sub(r"<script>.*</script>|sha256-[\w+/=]+", "", text, flags=re.DOTALL)
    assert set(re.findall(r"(?:https?:)?//[\w.-]+", own)) <= {"http://www.w3.org"}


# -- text of documents, entities and questions can never become markup


@settings(max_examples=40, deadline=None)
@given(st.text(STORED, min_size=1) | st.sampled_from([HOSTILE, "{{ 7 * 7 }}", "{% raw %}", "&amp;", "<!--"]))
def test_any_text_comes_back_as_text_from_between_tags_and_from_attributes(text):
    result = said_everywhere(text)
    root = parse(page(result))
    shown = DIRECTIONS.sub("", INVALID.sub("\ufffd", result.question))
    assert root.one("h1").text == shown
    assert root.one("g", "question").one("title").text == shown
    assert root.one("g", "question").attributes["aria-label"] == f"Question: {shown}"
    assert len(root.all("script")) == len(root.all("style")) == 1
    for written in (page(result), svg(result), frame(result, text)):
        assert type(written) is str, "plain text, which escapes nothing that it is joined with"
        assert "\x00" not in written
        written.encode()


@pytest.mark.parametrize("text", ["</style><b>", "</script><b>", "]]><b>", "--><b>", "'\"><b>"])
def test_no_text_closes_what_it_stands_in(text):
    result = said_everywhere(text)
    for written in (page(result), frame(result, text)):
        own = r"<b>#[0-9]+</b>|<b>this passage</b>|<b>(?:[^<]|<(?!b>))*</b>(?= <span dir)"
        assert not re.search(r"<b>(?!#|this passage)", re.sub(own, "", written))


def test_no_page_has_a_character_that_changes_the_direction_of_text():
    text = "invoice\u202efdp.exe\u202c \u2066x\u2069 \u200e\u200f\u061cend"
    result, found = said_everywhere(text), {"hybrid": (text,), WITHOUT_GRAPH: ("x",)}
    report = Report(3, (Answered(Question(text, (text,), type=text), found, titles={text: text}),), tuple(found))
    pages = [page(result), svg(result), frame(result, text), report.html()]
    with KnowledgeIndex(extractor=Named(text)) as index:
        index.add([Document(text, f"{text} is here.", text)])
        pages.append(static_page(Explorer(GraphRetriever(index)), question=text, entity=text))
    for written in pages:
        assert "invoicefdp.exe" in written
        assert not DIRECTIONS.search(written)
        assert not re.search(r"\\u(?:061c|200[ef]|202[a-e]|206[6-9])", written), "nor in data for a script"


# -- a result shows itself


def test_a_viewer_without_frames_and_styles_shows_a_picture_and_the_words(results):
    root = parse(results["linked"]._repr_html_())
    assert root.one("pre").text == results["linked"].explain()
    kind, _, data = root.one("img").attributes["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode().startswith("<svg ")


def test_it_is_displayed_in_a_notebook_and_written_elsewhere(results, monkeypatch, tmp_path, capsys):
    shown, opened, result = [], [], results["linked"]
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display = SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert result.show() is None
    assert shown == [result]
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = result.show()
    assert path.parent == tmp_path
    assert path.read_text("utf-8") == result.html()
    assert str(path) in capsys.readouterr().err
    assert not opened
    result.show(tmp_path / "why not.html", browser=True)
    assert opened == [(tmp_path / "why not.html").as_uri()]
