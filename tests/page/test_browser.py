"""The page in a real browser. ``make test-browser`` finds or installs one; without, these are skipped."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from answers import ALL, CROWD, EVIL, LINKED, PORTAL

GRAPH = "document.getElementById('graph')"


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


def test_paths_are_thicker_than_text_matches_and_of_another_colour(visit):
    seen = visit(PORTAL)
    style = "[getComputedStyle(e).stroke, parseFloat(getComputedStyle(e).strokeWidth)]"
    won = seen.all("#graph .line:not(.match)", style)
    around = seen.all("#graph .line.match", style)
    assert won
    assert around
    assert min(width for _, width in won) > 1.9 * max(width for _, width in around)
    assert {colour for colour, _ in won}.isdisjoint(colour for colour, _ in around)


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


def test_selecting_a_passage_in_the_graph_highlights_its_card_and_scrolls_to_it(visit):
    seen = visit(CROWD, reduced_motion="reduce")
    seen.page.locator("#graph .passage").nth(15).click()
    assert seen.all(".hit.highlighted", "e.dataset.hits") == ["16"]
    top = seen.all(".hit.highlighted", "e.getBoundingClientRect().top")[0]
    assert 0 <= top <= 800
    seen.page.click(".hit:nth-child(1) .select")
    inside = "e.getBoundingClientRect().top >= document.getElementById('stage').getBoundingClientRect().top"
    assert seen.all("#graph .passage.highlighted", inside) == [True]


@pytest.mark.parametrize("kind", ["linked", "fact"])
def test_a_name_or_a_fact_highlights_every_path_through_it(visit, kind):
    seen = visit(PORTAL)
    seen.page.locator(f"#graph .box.{kind}").click()
    assert {"Passage: 2. Oauth", "Passage: 3. Team"} <= seen.highlighted()
    assert "Passage: 1. Partner Portal" not in seen.highlighted()


def test_hovering_shows_the_whole_text_and_leaving_hides_it(visit):
    seen = visit(CROWD)
    seen.page.locator("#graph .passage").first.hover()
    tip = seen.page.locator("#tip")
    assert tip.is_visible()
    assert CROWD.hits[0].chunk.title.strip() in tip.text_content()
    assert "keyword rank 1, vector rank 1; graph rank 1" in tip.text_content()
    assert "Passage: 1. " in "".join(seen.highlighted())
    seen.page.mouse.move(2, 2)
    assert tip.is_hidden()
    assert seen.highlighted() == set()


def test_hovering_over_a_fact_shows_its_sentence(visit):
    seen = visit(PORTAL)
    seen.page.locator("#graph .box.fact").hover()
    assert seen.page.text_content("#tip") == "Partner Portal needs Oauth."


def test_it_zooms_by_button_key_and_wheel_and_moves_by_dragging(visit):
    seen = visit(PORTAL)
    page = seen.page

    def width() -> float:
        return page.evaluate(f"{GRAPH}.getBoundingClientRect().width")

    fitting = width()
    page.click("[data-zoom=in]")
    assert width() == pytest.approx(fitting * 1.25, rel=0.01)
    page.focus("#stage")
    page.keyboard.press("+")
    assert width() == pytest.approx(fitting * 1.25**2, rel=0.01)
    page.keyboard.press("-")
    page.hover("#stage")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(f"{GRAPH}.getBoundingClientRect().width > {fitting * 2}")
    before = page.evaluate("[stage.scrollLeft, stage.scrollTop]")
    x, y = page.evaluate(
        "(() => { const at = stage.getBoundingClientRect(); return [at.right - 30, at.bottom - 30] })()"
    )
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 120, y - 40, steps=4)
    page.mouse.up()
    after = page.evaluate("[stage.scrollLeft, stage.scrollTop]")
    assert after[0] - before[0] == pytest.approx(120, abs=2)
    assert after[1] - before[1] == pytest.approx(40, abs=2)
    page.keyboard.press("0")
    assert width() == pytest.approx(fitting, rel=0.01)


def test_zooming_moves_nothing_else(visit):
    seen = visit(PORTAL)
    height = "document.querySelector('.panel').getBoundingClientRect().height"
    before = seen.page.evaluate(height)
    seen.page.click("[data-zoom=in]")
    assert seen.page.evaluate(height) == pytest.approx(before, abs=1)


def test_on_a_narrow_screen_selecting_does_not_scroll_the_graph_out_of_view(visit):
    seen = visit(PORTAL, width=390)
    seen.page.locator("#graph .passage").nth(3).click()
    at = seen.page.evaluate("scrollY")
    assert seen.all(".hit.highlighted", "e.dataset.hits") == ["4"]
    seen.page.wait_for_timeout(50)
    assert seen.page.evaluate("scrollY") == at


def test_the_wheel_alone_scrolls_the_page_and_does_not_zoom(visit):
    seen = visit(CROWD)
    before = seen.page.evaluate(f"{GRAPH}.getBoundingClientRect().width")
    seen.page.mouse.move(1100, 500)
    seen.page.mouse.wheel(0, 400)
    seen.page.wait_for_function("scrollY > 200")
    assert seen.page.evaluate(f"{GRAPH}.getBoundingClientRect().width") == before


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


def test_light_and_dark_follow_the_reader_and_the_switch(visit):
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = visit(PORTAL, color_scheme="light").page.evaluate(ground)
    seen = visit(PORTAL, color_scheme="dark")
    dark = seen.page.evaluate(ground)
    assert light != dark
    seen.page.click("#theme")
    assert seen.page.evaluate(ground) == light
    seen.page.click("#theme")
    assert seen.page.evaluate(ground) == dark


def test_print_has_no_controls_and_the_whole_text_of_a_passage(visit):
    seen = visit(PORTAL)
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#zoom").is_hidden()
    assert seen.page.locator("#details").is_hidden()
    assert seen.page.locator("#graph").is_visible()
    assert set(seen.all(".text", "getComputedStyle(e).webkitLineClamp")) == {"none"}


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


def test_a_notebook_shows_the_page_in_a_frame_and_keeps_its_own_styles(visit):
    around = "<!doctype html><meta charset=utf-8><style>p { color: rgb(1, 2, 3) }</style><p id=mine>Mine</p>"
    seen = visit(PORTAL, html=around + PORTAL._repr_html_())
    frame = seen.page.frame_locator("iframe")
    frame.locator(".hit:nth-child(2) .select").click()
    assert frame.locator("#graph .line.highlighted").count() == 4
    assert seen.page.locator(".hybrid-graphrag-still").is_hidden()
    assert seen.page.evaluate("getComputedStyle(mine).color") == "rgb(1, 2, 3)"


def test_where_frames_and_styles_are_removed_the_picture_is_shown(visit):
    still = PORTAL._repr_html_().split("</style>", 1)[1].split("<iframe", 1)[0]
    seen = visit(PORTAL, html=f"<!doctype html><meta charset=utf-8>{still}")
    assert seen.page.locator("img").is_visible()
    assert seen.page.evaluate("document.images[0].naturalWidth") > 500
    assert seen.page.locator("pre").text_content() == PORTAL.explain()
