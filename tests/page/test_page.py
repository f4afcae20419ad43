"""The page says what a result knows, and nothing in it can run but its own script."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from answers import (
    ALL,
    EVIL,
    HOSTILE,
    LINKED,
    NOTHING,
    PLAIN,
    PORTAL,
)
from parsed import parse

from graphrag_apps.page import svg
from graphrag_core.result import Lazy


def policy(root) -> dict[str, str]:
    (meta,) = [m for m in root.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy"]
    return dict(part.strip().split(" ", 1) for part in meta.attributes["content"].split(";"))


def skeleton(element) -> list:
    """The elements and names of attributes, without a word of text."""
    below = [skeleton(child) for child in element.children if not isinstance(child, str)]
    return [element.name, sorted(element.attributes), below]


def test_it_shows_the_question_what_it_names_and_how_it_was_answered():
    root = parse(PORTAL.html())
    assert root.one("h1").text == PORTAL.question
    assert [mark.text for mark in root.one("h1").all("mark")] == ["Partner Portal"]
    assert [chip.text for chip in root.all("span", "chip")] == ["Partner Portal"]
    header = root.one("header").text
    assert "Method" in header
    assert "hybrid" in header
    assert "0.79" in header
    moved = "1 of 4 passages was added or moved up by the graph."
    assert f"The graph led: the question names Partner Portal; {moved}" in header
    assert "Route: The question names what a passage is about." in header
    assert root.one("head").one("title").text == "Why: Who runs what the Partner Portal signs in with?"
    assert root.one("footer").text == "1.8 ms: embed 0.5 · search 1.2"


def test_each_hit_has_a_card_with_its_channels_and_its_path():
    cards = parse(PORTAL.html()).all("li", "hit")
    assert [card.hits for card in cards] == [[1], [2], [3], [4]]
    assert cards[0].one("p", "text").text == "The Partner Portal signs in with Oauth."
    assert cards[1].one("p", "path").text == "Partner Portal → Partner Portal needs Oauth. → Oauth → this passage"
    assert "vector #2 0.5" in cards[1].one("p", "channels").text
    assert cards[2].one("span", "graph-only").text == "moved up by the graph"  # vector search has it, too
    assert cards[3].one("p", "path").text == "Found by plain search: vector rank 2."


def test_the_graph_draws_every_step_of_a_path_and_nothing_else():
    graph = parse(PORTAL.html()).one("svg", "graph")
    kinds = [box.classes[1] for box in graph.all("g", "box")]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "question": 1,
        "named": 1,
        "fact": 1,
        "passage": 4,
        "linked": 1,
    }
    assert [line.hits for line in graph.all("path", "fact")] == [[2, 3], [2, 3]]
    assert graph.one("g", "fact").one("title").text == "Partner Portal needs Oauth."
    assert "“Partner Portal" in graph.one("g", "fact").text
    assert not graph.all("g", "mark")


def test_the_words_that_each_hit_adds_are_shown_at_the_hit_and_above():
    root = parse(LINKED.html())
    words = [
        [(word.text, "new" in word.classes) for word in card.all("span", "word")] for card in root.all("li", "hit")
    ]
    assert words == [[("vendor", True), ("Oauth", True)], [("maintains", True)], [("Oauth", False)], []]
    above = [(group.all("b", "rank"), group.all("span", "word")) for group in root.all("span", "covered")]
    said = [([rank.text for rank in ranks], [word.text for word in group]) for ranks, group in above]
    assert said == [(["1"], ["vendor", "Oauth"]), (["2"], ["maintains"]), ([], ["winter"])]
    assert "words of the question: vendor, Oauth\n" in LINKED.explain()
    assert "  in no passage: winter\n" in LINKED.explain()


def test_a_link_is_told_and_leads_to_the_other_card():
    root = parse(LINKED.html())
    cards = root.all("li", "hit")
    assert cards[1].one("p", "path").text.endswith("Keyring → this passage")
    assert cards[2].one("p", "link").text == "Mentions Tallinn, as does passage 2."
    told = "About Notice of the whole contract, which passage 1 mentions."
    assert cards[3].one("p", "link").text == told
    assert cards[3].one("p", "path").text == "Found by the graph rank 1."
    assert [card.one("p", "link").one("button").attributes["data-to"] for card in cards[1:]] == ["1", "2", "1"]
    explained = LINKED.explain()
    assert "about Keyring, which passage 1 mentions" in explained
    assert "keyword rank 3; mentions Tallinn, as does passage 2" in explained


def test_an_empty_result_says_so():
    root = parse(NOTHING.html())
    assert "No known entity in the question" in root.one("header").text
    assert root.one("p", "decided").text == "No passage was found."
    assert root.one("p", "empty").text == "No passage was found."
    assert len(root.one("svg", "graph").all("g", "box")) == 1


def test_the_reason_for_skipping_the_graph_and_the_fallback_are_shown():
    header = parse(PLAIN.html()).one("header").text
    assert "Keyword search alone: the graph was not used." in header
    assert "Fallback: No embedder was given: keywords carry the question." in header


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_only_the_pages_own_style_and_script_may_run(answer):
    root = parse(answer.html())
    rules = policy(root)
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}
    for name, rule in (("style", "style-src"), ("script", "script-src")):
        digest = base64.b64encode(hashlib.sha256(root.one(name).text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    everything = root.all()
    assert not [e.name for e in everything if e.name in ("img", "iframe", "object", "embed", "form", "a", "base")]
    assert not [key for e in everything for key in e.attributes if key.startswith("on") or key in ("style", "src")]
    text = re.sub(r"<script>.*</script>|sha256-[\w+/=]+", "", answer.html(), flags=re.DOTALL)
    outside = re.findall(r"(?:https?:)?//[\w.-]+", text)
    assert set(outside) <= {"http://www.w3.org"}


def test_hostile_text_changes_no_element_and_no_attribute():
    """The page of an answer full of markup is built like the page of the same answer full of harmless words."""
    meek = "q" * len(HOSTILE)

    def tamed(value):
        if isinstance(value, str):
            return value.replace(HOSTILE, meek).replace(HOSTILE.lower(), meek)
        if isinstance(value, tuple):
            return tuple(tamed(item) for item in value)
        if isinstance(value, dict):
            return {tamed(key): tamed(item) for key, item in value.items()}
        if isinstance(value, Lazy):
            return Lazy.of(tamed(value.value))
        if hasattr(value, "__dataclass_fields__"):
            return replace(value, **{name: tamed(getattr(value, name)) for name in value.__dataclass_fields__})
        return value

    def without_lines(node):
        name, attributes, below = node
        return [name, attributes, [without_lines(child) for child in below if child[0] not in ("text", "mark")]]

    evil, meekened = (skeleton(parse(answer.html())) for answer in (EVIL, tamed(EVIL)))
    assert without_lines(evil) == without_lines(meekened)


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_the_picture_alone_is_well_formed(answer):
    root = ET.fromstring(svg(answer))  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{*}rect")) == len(root.findall(".//{*}g[@data-node]"))


def test_everything_that_can_be_selected_has_focus_role_and_label():
    root = parse(PORTAL.html())
    for part in root.one("svg", "graph").all("g"):
        if "data-hits" in part.attributes:
            assert part.attributes["tabindex"] == "0"
            assert part.attributes["role"] == "button"
            assert part.attributes["aria-label"]
    assert all(button.attributes.get("aria-label") or button.text for button in root.all("button"))
