"""The page in a real browser. ``make test-browser`` finds or installs one; without, these are skipped."""

from __future__ import annotations

import pytest
from browser import visits
from results import sample_results

HIGHLIGHTED = "#graph .box.highlighted"
LABEL = "e.getAttribute('aria-label').split('\\n')[0]"


@pytest.fixture
def visit(browser, tmp_path):
    """Opens the page of a result from disk."""
    with visits(browser) as opened:

        def shown(result, **settings):
            file = tmp_path / "page.html"
            file.write_text(result.html(), "utf-8")
            return opened(file.as_uri(), **settings)

        yield shown


@pytest.fixture(scope="module")
def results():
    return sample_results()


@pytest.mark.parametrize("name", ["linked", "paths", "plain", "nothing", "crowd", "evil"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everything_is_drawn_and_labels_fit_their_boxes(visit, results, name, width):
    seen, result = visit(results[name], width=width), results[name]
    assert len(seen.all("#graph .passage", "1")) == len(result.hits)
    assert len(seen.all(".hit", "1")) == len(result.hits)
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


def test_selecting_a_card_highlights_its_path_and_a_link_leads_to_the_other_passage(visit, results):
    seen = visit(results["paths"], reduced_motion="reduce")
    seen.page.click(".hit:nth-child(2) .select")
    highlighted = set(seen.all(HIGHLIGHTED, LABEL))
    assert any(one.startswith("Question: ") for one in highlighted)
    assert {"Name in the question: Quay 7", "Passage: 2. Supplier news"} <= highlighted
    assert any(one.startswith("Fact: The water level sensor") for one in highlighted)
    faded = seen.all("#graph .box:not(.highlighted)", "parseFloat(getComputedStyle(e).opacity)")
    assert max(faded) < 0.5
    assert "froze and was replaced." in seen.page.text_content("#details")
    assert seen.all(".select", "e.getAttribute('aria-pressed')")[:3] == ["false", "true", "false"]
    seen.page.click(".hit:nth-child(2) .link button")
    assert seen.all(".hit.highlighted", "e.dataset.hits") == ["1"]
    seen.page.keyboard.press("Escape")
    assert seen.all(HIGHLIGHTED, LABEL) == []
    assert "Click a passage" in seen.page.text_content("#details")


def test_the_graph_is_shown_without_the_script(visit, results):
    seen = visit(results["linked"], java_script_enabled=False)
    assert seen.page.locator("#graph .passage").count() == 5
    assert seen.page.locator("#graph .passage").first.is_visible()
    assert seen.page.locator("#zoom").is_hidden()


def test_injected_markup_could_not_run_or_reach_the_network(visit, results):
    seen = visit(results["linked"])
    got_in = """<img src="https://example.org/x.png" onerror="window.ran = 1"><p onclick="window.ran = 1">x</p>"""
    seen.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", got_in)
    seen.page.locator("p").last.click()
    refused = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert seen.page.evaluate(refused) == "refused"
    assert seen.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in said for said in seen.said)
    assert seen.said
    seen.said.clear()
