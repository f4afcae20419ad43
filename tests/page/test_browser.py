"""The page in a real browser. ``make test-browser`` finds or installs one; without, these are skipped."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from answers import ALL, EVIL, LINKED, PORTAL


@dataclass
class Visit:
    """An open page and everything it did that a page should not."""

    page: object
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def all(self, selector: str, expression: str) -> list:
        return self.page.eval_on_selector_all(selector, f"all => all.map(e => {expression})")

    def highlighted(self) -> set[str]:
        return set(self.all("#graph .box.highlighted", "e.getAttribute('aria-label').split('\\n')[0]"))


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a page from disk; whatever else it asks for is refused and noted."""
    contexts, visits = [], []

    def opened(answer, *, html=None, width=1280, height=800, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        file = tmp_path / f"{len(contexts)}.html"
        file.write_text(html or answer.html(), "utf-8")
        visit = Visit(page)
        visits.append(visit)
        page.on("console", lambda message: visit.said.append(message.text))
        page.on("pageerror", lambda error: visit.said.append(str(error)))
        page.on("dialog", lambda dialog: (visit.said.append(dialog.message), dialog.dismiss()))

        def guard(route):
            if route.request.url == file.as_uri():
                route.continue_()
            else:
                visit.requests.append(route.request.url)
                route.abort()

        context.route("**/*", guard)
        page.goto(file.as_uri())
        return visit

    yield opened
    for context in contexts:
        context.close()
    for seen in visits:
        assert seen.requests == []
        assert seen.said == []


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
@pytest.mark.parametrize("width", [360, 1280])
def test_everything_is_drawn_and_labels_fit_their_boxes(visit, answer, width):
    seen = visit(answer, width=width)
    assert len(seen.all("#graph .passage", "1")) == len(answer.hits)
    assert len(seen.all(".hit", "1")) == len(answer.hits)
    outside = """(() => {
        const box = e.querySelector('rect').getBBox();
        return [...e.querySelectorAll('text')].filter(t => {
            const at = t.getBBox();
            return at.x < box.x || at.x + at.width > box.x + box.width
                || at.y < box.y || at.y + at.height > box.y + box.height;
        }).map(t => t.textContent)
    })()"""
    assert [labels for labels in seen.all("#graph .box", outside) if labels] == []
    assert seen.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_selecting_a_card_highlights_and_describes_its_path(visit):
    seen = visit(PORTAL, reduced_motion="reduce")
    seen.page.click(".hit:nth-child(3) .select")
    way = {f"Question: {PORTAL.question}", "Name in the question: Partner Portal (service)", "Name in a fact: Oauth"}
    way |= {"Fact: Partner Portal needs Oauth."}
    assert seen.highlighted() == way | {"Passage: 3. Team"}
    assert seen.all("#graph .line.highlighted", "e.dataset.hits") == ["1 2 3", "2 3", "2 3", "3"]
    faded = seen.all("#graph .box:not(.highlighted)", "parseFloat(getComputedStyle(e).opacity)")
    assert max(faded) < 0.5
    assert "Partner Portal needs Oauth." in seen.page.text_content("#details")
    pressed = seen.all(".select", "e.getAttribute('aria-pressed')")
    assert pressed == ["false", "false", "true", "false"]
    seen.page.click(".hit:nth-child(3) .select")
    assert seen.highlighted() == set()
    seen.page.click(".hit:nth-child(2) .select")
    seen.page.keyboard.press("Escape")
    assert seen.highlighted() == set()
    assert "Click a passage" in seen.page.text_content("#details")


def test_a_link_is_highlighted_with_both_its_passages_and_leads_to_the_other(visit):
    seen = visit(LINKED, reduced_motion="reduce")
    style = "getComputedStyle(e).stroke"
    assert len(set(seen.all("#graph .line.link", style)) & set(seen.all("#graph .line:not(.link)", style))) == 0
    seen.page.click(".hit:nth-child(3) .select")
    assert {"Passage: 2. Keyring", "Passage: 3. Contract"} <= seen.highlighted()
    assert "Passage: 1. Oauth" not in seen.highlighted()
    assert seen.all("#graph .line.link.highlighted", "e.dataset.hits") == ["3"]
    assert "Mentions Tallinn, as does passage 2." in seen.page.text_content("#details")
    seen.page.click(".hit:nth-child(3) .link button")
    assert seen.all(".hit.highlighted", "e.dataset.hits") == ["2"]
    inside = "e.getBBox().x >= 0 && e.getBBox().x + e.getBBox().width <= e.ownerSVGElement.viewBox.baseVal.width"
    assert all(seen.all("#graph .line.link", inside))


def test_the_keyboard_reaches_and_selects_everything(visit):
    seen = visit(PORTAL)
    seen.page.focus("#stage")
    for _ in range(5):  # the question, a name, a fact, a name, a passage
        seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.classList.contains('passage')")
    assert seen.page.locator("#tip").is_visible()
    seen.page.keyboard.press("Enter")
    assert seen.all(".hit.highlighted", "e.dataset.hits") == ["1"]
    assert seen.page.get_attribute("#graph .passage", "aria-pressed") == "true"


def test_the_graph_is_shown_without_the_script(visit):
    seen = visit(PORTAL, java_script_enabled=False)
    assert seen.page.locator("#graph .passage").count() == 4
    assert seen.page.locator("#graph .passage").first.is_visible()
    assert seen.page.locator("#zoom").is_hidden()


def test_hostile_text_does_nothing_even_when_selected(visit):
    seen = visit(EVIL)
    for part in seen.page.locator("#graph [tabindex]").all():
        part.hover()
        part.click()
        seen.page.keyboard.press("Escape")
    seen.page.locator(".hit .select").first.click()
    assert seen.page.evaluate("document.scripts.length") == 1
    assert seen.page.locator("img").count() == 0


def test_injected_markup_could_not_run_or_reach_the_network(visit):
    seen = visit(PORTAL)
    got_in = """<img src="https://example.org/x.png" onerror="window.ran = 1"><p onclick="window.ran = 1">x</p>"""
    seen.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", got_in)
    seen.page.locator("p").last.click()
    refused = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert seen.page.evaluate(refused) == "refused"
    assert seen.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in said for said in seen.said)
    assert seen.said
    seen.said.clear()
