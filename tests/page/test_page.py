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
    CROWD,
    EVIL,
    HOSTILE,
    LINKED,
    NOTHING,
    PLAIN,
    PORTAL,
    TONGUES,
    TWO_PARTS,
    entity,
    explained,
    explained_hit,
    passage,
)
from parsed import parse
from support import SERVICES

from graphrag_apps.page import page, svg
from graphrag_apps.page.templates import asset
from graphrag_core import Chunk, Entity, Fact, GraphRetriever, Hit, KnowledgeIndex, Result
from graphrag_core.result import Channel, Lazy, Step
from graphrag_core.testing import HashEmbedder


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


def test_a_passage_that_only_the_graph_found_is_added_and_its_logarithm_is_not_shown():
    hits = (replace(PORTAL.hits[2], channels={"graph": Channel(1, -4.2)}),)
    card = parse(replace(PORTAL, hits=hits).html()).one("li", "hit")
    assert card.one("span", "graph-only").text == "added by the graph"
    assert card.one("p", "channels").text == "graph #1"


def test_a_number_is_not_marked_in_another_one():
    hit = replace(PLAIN.hits[0], chunk=replace(PLAIN.hits[0].chunk, text="Version 4.0 replaces what version 2 did."))
    root = parse(replace(PLAIN, question="What is new in version 3.0?", hits=(hit,)).html())
    assert {mark.text.lower() for mark in root.all("mark")} == {"version"}


def test_a_custom_channel_is_shown_too():
    hits = (replace(PLAIN.hits[0], channels={"tea leaves": Channel(3, 0.25)}),)
    root = parse(replace(PLAIN, hits=hits).html())
    assert "tea leaves #3 0.25" in root.one("p", "channels").text
    assert root.one("p", "legend").one("i").classes == ["channel", "other"]


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


def test_a_picture_without_the_page_has_the_question_above_it():
    picture = parse(svg(PORTAL)).one("svg", "graph")
    assert picture.one("text", "title").text == PORTAL.question
    assert not parse(PORTAL.html()).one("svg", "graph").all("text", "title")


def test_the_score_says_what_it_is():
    titles = [
        parse(replace(PORTAL, scores_are_probabilities=known).html()).all("span", "score")[0].attributes["title"]
        for known in (True, False)
    ]
    assert titles == ["probability that the passage belongs to the answer", "score"]


def test_all_facts_are_listed():
    facts = parse(PORTAL.html()).one("details", "facts")
    assert facts.one("summary").text == "4 facts support this result"
    assert "Mars — Venus Mars is far from Venus." in [item.text for item in facts.all("li")]


def test_long_labels_are_shortened_and_complete_in_the_tooltip():
    graph = parse(CROWD.html()).one("svg", "graph")
    box = graph.all("g", "passage")[0]
    assert "…" in "".join(text.text for text in box.all("text"))
    assert CROWD.hits[0].chunk.title.strip() in box.one("title").text
    assert CROWD.hits[0].chunk.title.strip() in box.attributes["aria-label"]


def test_parts_of_one_document_can_be_told_apart():
    cards = parse(TWO_PARTS.html()).all("li", "hit")
    assert [card.one("span", "name").text for card in cards] == ["Guide · 1", "Guide · 2", "untitled"]


def test_a_card_shows_the_sentence_that_matches_and_the_whole_passage_on_request():
    text = "Installation\n============\n\n" + "Nothing of note is said in this sentence of the page. " * 12
    chunk = Chunk("g.rst#2", "g.rst", text + "The **visibility timeout** is `3600` seconds.", "Guide",
                  headings=("Installation",), page=7, start=512)  # fmt: skip
    made = Result("What is the visibility timeout?", "keyword", (Hit(chunk, 1.0),))
    card = parse(made.html()).one("li", "hit")
    snippet, whole = card.all("p", "text")
    assert snippet.text.endswith("The visibility timeout is 3600 seconds.")
    assert "===" not in card.text
    assert [mark.text for mark in snippet.all("mark")] == ["visibility", "timeout"]
    assert card.one("span", "name").text == "Guide - Installation"
    assert card.one("p", "source").text == "g.rst#2 · page 7 · from character 512"
    assert card.one("details", "whole").one("summary").text == "Whole passage"
    assert "**visibility timeout**" in whole.text


def test_the_confidence_is_the_same_everywhere_and_shown_only_where_there_is_one():
    led = replace(PORTAL, confidence=0.9)
    assert led.details(led.hits[0])["confidence"] == led.to_dict()["confidence"] == 0.9
    assert "0.90" in parse(led.html()).one("p", "meter").text
    assert "confidence 0.90" in led.explain()
    assert "confidence 0.79" in PORTAL.explain()
    assert "confidence" not in PLAIN.explain()
    assert "confidence" not in PLAIN.details(PLAIN.hits[0])
    assert PLAIN.to_dict()["confidence"] is None
    assert not parse(PLAIN.html()).all("p", "meter")


def test_the_numbers_of_the_gate_are_in_the_details_alone():
    assert LINKED.details(LINKED.hits[0])["gate"] == LINKED.gate
    assert "62%" not in LINKED.html() + LINKED.explain()


def test_a_path_may_start_at_a_better_hit_and_references_are_words():
    fact = Fact(("tasks", "→workers"), "See [workers](#workers).", "refers_to", id="f")
    known = {"tasks": entity("Tasks"), "→workers": Entity("→workers", "Workers - Pools")}
    first = Hit(passage("Tasks"), 1.0, {"keyword": Channel(1, 9.0)})
    path = (Step("question", "", "?"), Step("chunk", "Tasks", "Tasks"), Step("fact", "f", fact.text),
            Step("entity", "→workers", "Workers - Pools"), Step("chunk", "Pools", "Pools"))  # fmt: skip
    second = explained_hit(passage("Pools"), 0.5, channels={"graph": Channel(1, 1.0)}, path=path)
    made = explained("How?", "hybrid", (first, second), facts=(fact,), known=known)
    root = parse(made.html())
    said = "Tasks (passage 1) → Tasks refers to Workers - Pools: See workers. → Workers - Pools → this passage"
    assert root.all("p", "path")[1].text == said
    assert said in made.explain()
    graph = root.one("svg", "graph")
    assert len(graph.all("path", "line")) == 2, "question to passage, and passage to passage"
    assert [line.hits for line in graph.all("path", "link")] == [[2]]
    assert [note.text for note in graph.all("text", "note")] == ["Workers - Pools"]
    assert graph.one("g", "link").one("title").text == "Tasks refers to Workers - Pools: See workers."
    assert "Tasks refers to Workers - Pools See" in root.one("details", "facts").text


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


def test_a_link_is_told_once_and_leads_to_the_other_card():
    root = parse(LINKED.html())
    cards = root.all("li", "hit")
    assert cards[1].one("p", "path").text.endswith("Keyring (mentioned in passage 1) → this passage")
    assert not cards[1].all("p", "link")
    assert cards[2].one("p", "link").text == "Mentions Tallinn, as does passage 2."
    told = "About Notice of the whole contract, which passage 1 mentions."
    assert cards[3].one("p", "link").text == told
    assert cards[3].one("p", "path").text == "Found by the graph rank 1."
    assert [card.one("p", "link").one("button").attributes["data-to"] for card in cards[2:]] == ["2", "1"]
    explained = LINKED.explain()
    assert explained.count("mentioned in passage 1") == 1
    assert "about Keyring, which passage 1 mentions" not in explained
    assert "keyword rank 3; mentions Tallinn, as does passage 2" in explained


def test_links_are_drawn_between_the_passages_with_their_names():
    graph = parse(LINKED.html()).one("svg", "graph")
    links = graph.all("path", "link")
    assert [link.hits for link in links] == [[3], [4]], "the path to passage 2 shows its link"
    assert [note.text for note in graph.all("text", "note")] == ["Tallinn", "Notice of the whole contr…"]
    marks = [mark.one("title").text for mark in graph.all("g", "link")]
    assert marks[0] == "mentions Tallinn, as does passage 2"
    linked = [box.attributes.get("data-linked") for box in graph.all("g", "passage")]
    assert linked == ["4", "3", None, None]
    assert not parse(PORTAL.html()).one("svg", "graph").all("path", "link")


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


def test_hostile_text_is_shown_as_it_is():
    root = parse(EVIL.html())
    assert root.one("h1").text == HOSTILE
    assert root.all("span", "chip")[0].text == HOSTILE
    assert "alert(1)" in root.all("p", "text")[0].text
    assert HOSTILE in root.one("details", "facts").text
    EVIL.html().encode()


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_the_picture_alone_is_well_formed(answer):
    root = ET.fromstring(svg(answer))  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{*}rect")) == len(root.findall(".//{*}g[@data-node]"))


def test_texts_keep_their_own_direction():
    root = parse(TONGUES.html())
    for element in [root.one("h1"), *root.all("span", "name"), *root.all("p", "text"), *root.all("q")]:
        assert element.attributes["dir"] == "auto"
    assert root.one("html").attributes["lang"] == "en"


def test_everything_that_can_be_selected_has_focus_role_and_label():
    root = parse(PORTAL.html())
    for part in root.one("svg", "graph").all("g"):
        if "data-hits" in part.attributes:
            assert part.attributes["tabindex"] == "0"
            assert part.attributes["role"] == "button"
            assert part.attributes["aria-label"]
    assert all(button.attributes.get("aria-label") or button.text for button in root.all("button"))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(theme):
    """As the web content accessibility guidelines ask: 4.5 to 1."""
    colours = {
        name: both.split(", ")[theme]
        for name, both in re.findall(r"--([\w-]+): light-dark\((.*?)\)", asset("graphrag_apps.page", "colours.css"))
    }

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return sum(
            share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
        )

    for word, behind in [
        *((w, b) for w in ("text", "text-soft", "text-faint", "accent-text") for b in ("background", "surface")),
        ("accent-text", "accent-tint"),
    ]:
        low, high = sorted((luminance(colours[word]), luminance(colours[behind])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (word, behind)


def test_the_same_answer_gives_the_same_page():
    assert CROWD.html() == CROWD.html()


def test_anything_with_the_attributes_of_a_result_can_be_drawn():
    class Mine:
        def __getattr__(self, name):
            return getattr(PORTAL, name)

    assert page(Mine()) == PORTAL.html()


def test_a_real_result_is_drawn():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(SERVICES)
        result = GraphRetriever(index).retrieve("Who runs what the Auth Service delegates logins to?", k=3)
        assert isinstance(result, Result)
        graph = parse(result.html()).one("svg", "graph")
    assert len(graph.all("g", "passage")) == 3
    assert graph.all("path", "mention")
