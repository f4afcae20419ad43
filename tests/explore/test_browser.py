"""The explorer in a real browser, served by a real server. ``make test-browser`` finds or installs one."""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import pairwise

import pytest

if "BROWSER_NEEDED" not in os.environ:
    pytest.importorskip("fastapi", reason="no FastAPI: install the extra serve")

from browser import Visit, visits
from serving import served

from graphrag_apps.demo import sample_documents
from graphrag_apps.explore import Explorer, static_page
from graphrag_apps.serve import ApiKeys, Gateway, Limits, create_app
from graphrag_core import (
    Document,
    Extraction,
    Fact,
    GraphRetriever,
    KnowledgeIndex,
    Mention,
)

QUESTION = "What happens if we replace the vendor of the OAuth Provider?"
HOSTILE = [
    "<img src=x onerror=alert(1)> Corp",
    "</script><script>alert(2)</script> Ltd",
    "Safe\u202eevil\u202c Name",
    "${alert(3)} {{7*7}} Gmbh",
    "javascript:alert(4) Inc",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "</title></style></textarea><svg onload=alert(5)>",
    "' onmouseover='alert(6)' \" onfocus=\"alert(7)",
    "&lt;b&gt;&#60;script&#62;Co",
    "../../%2e%2e/#/entity/x?y=1&z",
    "\U0001f600 \u200d\u0301\u0301 Zalgo",
    "W" * 900,
]
NODES = "Explore.graph.cy.nodes().length"
OVERLAPS = """(() => {
    const shown = [...document.querySelectorAll('#labels .label:not(.hidden)')].map(e => e.getBoundingClientRect());
    let count = 0;
    for (let i = 0; i < shown.length; i++) for (let j = i + 1; j < shown.length; j++) {
        const a = shown[i], b = shown[j];
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) count++;
    }
    return [shown.length, count];
})()"""


class Typed:
    """Finds names in a text of the form "Name:type, Name:type", and facts between neighbouring ones."""

    identity = "typed"

    def extract(self, chunks):
        found = []
        for chunk in chunks:
            pairs = [part.rsplit("|", 1) for part in chunk.text.split("; ")]
            names = [name for name, _ in pairs]
            facts = [Fact((a, b), f"{a} joins {b}.", "joins") for a, b in pairwise(names)]
            found.append(Extraction(tuple(Mention(name, kind) for name, kind in pairs), tuple(facts)))
        return found


@contextmanager
def serving(index, **settings):
    """Serve an index on a free port, and give the address of the explorer."""
    gateway = Gateway(index, limits=Limits(seconds=300), **settings)
    with served(create_app(gateway)) as url:
        yield f"{url}/explore/"


@pytest.fixture(scope="module")
def address():
    index = KnowledgeIndex()
    index.add(sample_documents())
    with serving(index) as address:
        yield address


@pytest.fixture(scope="module")
def typed():
    """Two tenants, two types, a name that both have."""
    index = KnowledgeIndex(extractor=Typed(), chunker=None)
    index.add(
        [
            Document("a", "Ada|person; Engine|thing; Charles|person", "", {"tenant": "a", "year": 2020}),
            Document("b", "Engine|thing; Zuse|person; Relay|thing", "", {"tenant": "b", "year": 1941}),
        ]
    )
    with serving(index) as address:
        yield address


class Explored(Visit):
    def ready(self):
        self.page.wait_for_selector("body[data-state=ready]")

    def follow(self, action):
        """Do what changes the view, and wait for the new one."""
        self.page.evaluate("document.body.dataset.state = 'waiting'")
        action()
        self.ready()

    def title(self):
        return self.page.text_content("#details h1")

    def nodes(self):
        return self.page.evaluate(NODES)

    def at(self, entity):
        """Where an entity is drawn, on the screen."""
        return self.page.evaluate(
            """id => {
                const at = Explore.graph.nodeOf(id).renderedPosition();
                const box = document.getElementById('graph').getBoundingClientRect();
                return [box.left + at.x, box.top + at.y];
            }""",
            entity,
        )

    def shown(self):
        return set(self.page.evaluate("Explore.graph.cy.nodes().filter(n => n.visible()).map(n => n.data('name'))"))


@pytest.fixture
def visit(browser):
    """Opens the explorer, and waits until it shows something."""
    with visits(browser, Explored) as opened:

        def shown(url=None, **settings):
            seen = opened(url, **{"reduced_motion": "reduce", **settings})
            if url:
                seen.ready()
            return seen

        yield shown


def test_the_start_page_shows_entities_in_colours_and_no_label_over_another(visit, address):
    seen = visit(address)
    assert seen.title() == "Overview"
    assert 30 < seen.nodes() <= 100
    count, overlaps = seen.page.evaluate(OVERLAPS)
    assert count > 15
    assert overlaps == 0
    colours = seen.page.evaluate("[...new Set(Explore.graph.cy.nodes().map(n => n.data('colour')))].length")
    assert colours > 2
    assert seen.page.locator("#legend li").count() == seen.page.locator(".communities li").count() > 1


def test_a_name_is_suggested_while_typing_and_opened_by_a_click(visit, address):
    seen = visit(address)
    seen.page.fill("#query", "oaut")
    seen.page.wait_for_selector("#suggestions li")
    assert "OAuth Provider" in seen.page.text_content("#suggestions li")
    assert seen.page.get_attribute("#query", "aria-expanded") == "true"
    seen.follow(lambda: seen.page.click("#suggestions li:first-child"))
    assert seen.title() == "OAuth Provider"
    headings = seen.page.locator("#details h2").all_text_contents()
    assert headings == ["Neighbours", "Facts", "Passages"]
    assert seen.page.locator("#details mark").first.text_content() == "OAuth Provider"


def test_a_question_shows_its_answer_passages_and_paths(visit, address):
    seen = visit(address)
    seen.page.fill("#query", QUESTION)
    seen.follow(lambda: seen.page.keyboard.press("Enter"))
    assert seen.title() == QUESTION
    seen.page.wait_for_selector("#answer .answer h2")
    assert seen.page.text_content("#answer h2") == "What comes nearest in these documents"
    assert seen.page.locator(".hit").count() == 5
    assert seen.page.locator("#boxes .box.passage").count() == 5
    seen.page.click(".hit:nth-child(3) .select")
    assert seen.page.get_attribute(".hit:nth-child(3) .select", "aria-pressed") == "true"
    assert 0 < seen.page.locator("#boxes .box.faded").count() < seen.page.locator("#boxes .box").count()
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("#boxes .box.faded").count() == 0
    seen.follow(lambda: seen.page.mouse.click(*seen.at("oauth provider")))
    assert seen.title() == "OAuth Provider"


def test_everything_can_be_done_with_the_keyboard(visit, address):
    seen = visit(address)
    press = seen.page.keyboard.press
    press("/")
    seen.page.keyboard.type("keyr")
    seen.page.wait_for_selector("#suggestions li")
    press("ArrowDown")
    assert seen.page.get_attribute("#suggestions li:first-child", "aria-selected") == "true"
    seen.follow(lambda: press("Enter"))
    assert seen.title() == "Keyring"
    assert seen.page.evaluate("document.activeElement.id") == "graph"
    start = seen.page.evaluate("Explore.graph.focused.id()")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        press(key)
    assert seen.page.text_content("#status")
    while seen.page.evaluate("Explore.graph.focused.id()") == start:
        press("ArrowRight")
        press("ArrowDown")
    name = seen.page.evaluate("Explore.graph.focused.data('name')")
    count = seen.nodes()
    seen.follow(lambda: press("Enter"))
    assert seen.title() == name
    press("e")
    seen.page.wait_for_selector("#expand:disabled")
    assert seen.nodes() >= count
    press("?")
    assert seen.page.locator("#help").is_visible()
    press("Escape")
    assert seen.page.locator("#help").is_hidden()
    press("f")
    assert seen.page.locator("#filters").is_visible()
    press("Escape")
    assert seen.page.locator("#filters").is_hidden()
    seen.follow(lambda: press("Escape"))
    assert seen.title() == "Overview"


def test_a_scope_restricts_everything_and_a_malformed_one_is_explained(visit, typed):
    seen = visit(typed)
    seen.page.click("#filter")
    seen.page.fill("#scope", "nonsense")
    seen.page.keyboard.press("Enter")
    assert "field=value" in seen.page.text_content("#message")
    seen.page.fill("#scope", "year>=2000")
    seen.follow(lambda: seen.page.keyboard.press("Enter"))
    assert seen.shown() == {"Ada", "Engine", "Charles"}
    seen.follow(lambda: seen.page.evaluate("location.hash = '#/entity/engine' + location.hash.slice(2)"))
    assert "Zuse" not in seen.page.text_content("#details")
    seen.follow(lambda: seen.page.click("#scopes .remove"))
    assert "Zuse" in seen.page.text_content("#details")


def test_a_server_with_keys_asks_for_one_keeps_it_for_the_tab_and_stays_in_its_scope(visit):
    index = KnowledgeIndex(extractor=Typed(), chunker=None)
    index.add(
        [
            Document("a", "Ada|person; Engine|thing; Charles|person", "", {"tenant": "a"}),
            Document("b", "Engine|thing; Zuse|person; Relay|thing", "", {"tenant": "b"}),
        ]
    )
    key, secret = ApiKeys.generate("a", {"tenant": "a"})
    with serving(index, keys=ApiKeys([key])) as address:
        seen = visit()
        seen.page.goto(address)
        seen.page.wait_for_selector("#key[open]")
        seen.page.fill("#key-input", "wrong")
        seen.page.click("#key-form button")
        seen.page.wait_for_selector("#key-text >> text=refused")
        seen.page.fill("#key-input", secret)
        seen.page.click("#key-form button")
        seen.ready()
        assert seen.shown() == {"Ada", "Engine", "Charles"}
        assert secret not in seen.page.url
        seen.page.reload()
        seen.ready()
        seen.page.fill("#query", "zuse")
        seen.page.wait_for_selector("#suggestions li")
        assert "Ask" in seen.page.text_content("#suggestions")
        assert seen.page.locator("#suggestions .dot").count() == 0
        assert all("401" in text for text in seen.said)
        seen.said.clear()


def test_hostile_names_are_text_and_do_nothing(visit):
    index = KnowledgeIndex(extractor=Typed(), chunker=None)
    index.add([Document(f"d{at}", "; ".join(f"{name}|<b>type</b>" for name in HOSTILE), HOSTILE[0]) for at in range(3)])
    with serving(index) as address:
        seen = visit(address)
        assert seen.page.evaluate("document.images.length") == 0
        drawn = seen.page.evaluate("Explore.graph.drawn()")
        assert len(drawn) == len(HOSTILE)
        for entity in drawn:
            seen.follow(lambda entity=entity: seen.page.evaluate("id => { location.hash = '#/' }", entity))
            seen.follow(lambda entity=entity: seen.page.evaluate("id => Explore.graph.onOpen(id)", entity))
            seen.page.mouse.move(*seen.at(entity))
        seen.page.fill("#query", "<img")
        seen.page.wait_for_selector("#suggestions li")
        assert seen.page.evaluate("document.images.length") == 0
        assert seen.page.evaluate("document.scripts.length") == 4
        texts = seen.page.evaluate("document.body.textContent")
        assert "\u202e" not in texts
        assert "<img src=x onerror=alert(1)>" in texts


def test_injected_markup_could_not_run_or_reach_the_network(visit, address):
    seen = visit(address)
    got_in = (
        """<img src="https://example.org/x.png" onerror="window.ran = 1"><p id="p" onclick="window.ran = 1">x</p>"""
    )
    seen.page.evaluate("html => document.getElementById('details').insertAdjacentHTML('afterbegin', html)", got_in)
    seen.page.evaluate("document.getElementById('p').click()")
    refused = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert seen.page.evaluate(refused) == "refused"
    assert seen.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in said for said in seen.said)
    seen.said.clear()
    seen.outside.clear()


def test_an_export_works_from_disk(visit, tmp_path):
    with KnowledgeIndex() as index:
        index.add(sample_documents())
        explorer = Explorer(GraphRetriever(index))
        pages = {
            "question": static_page(explorer, question=QUESTION, max_nodes=40),
            "entity": static_page(explorer, entity="OAuth Provider", max_nodes=20),
            "start": static_page(explorer),
        }
    for name, page in pages.items():
        (tmp_path / f"{name}.html").write_text(page, "utf-8")
    seen = visit((tmp_path / "question.html").as_uri())
    assert seen.title() == QUESTION
    assert seen.page.locator(".hit").count() == 5
    assert seen.page.locator(".answer").count() == 1
    seen = visit((tmp_path / "start.html").as_uri(), color_scheme="dark")
    assert seen.title() == "Overview"
    seen = visit((tmp_path / "entity.html").as_uri(), width=390)
    assert seen.title() == "OAuth Provider"
    seen.page.fill("#query", "keyr")
    seen.page.wait_for_selector("#suggestions li")
    seen.follow(lambda: seen.page.keyboard.press("Enter"))
    assert seen.title() == "Keyring"
    seen.page.click("#expand")
    seen.follow(seen.page.go_back)
    assert seen.title() == "OAuth Provider"
    drawn = seen.nodes()
    seen.page.fill("#query", "Nobody At All")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("#message:visible")
    assert 'it has no entity "Nobody At All"' in seen.page.text_content("#message")
    assert (seen.title(), seen.nodes()) == ("OAuth Provider", drawn), "the view stays"
