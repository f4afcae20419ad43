"""Text from documents, entities and questions can never become markup."""

from __future__ import annotations

import re

import pytest
from answers import HOSTILE, explained, hit, passage
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed import parse

from graphrag_apps.compare import WITHOUT_GRAPH, Answered, Question, Report
from graphrag_apps.explore import Explorer, static_page
from graphrag_apps.page import frame, page, svg
from graphrag_core import Document, Entity, Extraction, Fact, GraphRetriever, KnowledgeIndex, Mention, Result
from graphrag_core.result import Link

INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def said_everywhere(text: str) -> Result:
    """A result whose every text is the given one."""
    return explained(
        text,
        text,
        (
            hit(passage("id", f"x{text}", text), text, facts=(text,), graph_expansion=text),
            hit(passage("id2"), words=(text,), covers=(text,), link=Link(1, "id", "g", text, "about")),
        ),
        (Entity("e", text, text, text, (text,)),),
        facts=(Fact(("e", "f"), text, text, value=text),),
        known={"f": Entity("f", text)},
        route=text,
        decided=text,
        expansion_skipped=text,
        fallback=text,
        trust=text,
        uncovered=(text,),
    )


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(), min_size=1) | st.sampled_from([HOSTILE, "{{ 7 * 7 }}", "{% raw %}", "&amp;", "<!--"]))
def test_any_text_comes_back_as_text_from_between_tags_and_from_attributes(text):
    root = parse(page(said_everywhere(text)))
    shown = DIRECTIONS.sub("", INVALID.sub("\ufffd", text))
    assert root.one("h1").text == shown
    chip = root.one("span", "chip")
    assert (chip.text, chip.attributes["title"]) == (shown, shown)
    assert [word.text for word in root.all("span", "missing")] == [shown]
    assert root.one("p", "link").one("b").text == shown
    assert root.one("details", "facts").all("span")[0].text == shown
    assert root.one("g", "question").one("title").text == shown
    assert root.one("g", "question").attributes["aria-label"] == f"Question: {shown}"
    assert len(root.all("script")) == len(root.all("style")) == 1


def test_what_no_file_can_hold_is_replaced():
    root = parse(page(said_everywhere("a\x00b\ud800c\x1bd\x85e\ttab")))
    assert root.one("h1").text == "a\ufffdb\ufffdc\ufffdd\ufffde\ttab"
    result = said_everywhere("\udcff\x00")
    for written in (page(result), svg(result), frame(result, "\udcff\x00")):
        assert "\x00" not in written
        written.encode()


class Extractor:
    """Finds one name in every chunk."""

    def __init__(self, name):
        self.name = name

    def extract(self, chunks):
        return [Extraction((Mention(self.name),)) for _ in chunks]


def test_no_page_has_a_character_that_changes_the_direction_of_text():
    text = "invoice\u202efdp.exe\u202c \u2066x\u2069 \u200e\u200f\u061cend"
    result, found = said_everywhere(text), {"hybrid": (text,), WITHOUT_GRAPH: ("x",)}
    report = Report(3, (Answered(Question(text, (text,), type=text), found, titles={text: text}),), tuple(found))
    pages = [page(result), svg(result), frame(result, text), report.html()]
    with KnowledgeIndex(extractor=Extractor(text)) as index:
        index.add([Document(text, f"{text} is here.", text)])
        pages.append(static_page(Explorer(GraphRetriever(index)), question=text, entity=text))
    for written in pages:
        assert "invoicefdp.exe" in written
        assert not DIRECTIONS.search(written)
        assert not re.search(r"\\u(?:061c|200[ef]|202[a-e]|206[6-9])", written), "nor in data for a script"


def test_what_is_returned_is_plain_text_that_escapes_nothing_it_is_joined_with():
    result = said_everywhere("x")
    assert {type(written) for written in (page(result), svg(result), frame(result, "x"))} == {str}


@pytest.mark.parametrize("text", ["</style><b>", "</script><b>", "]]><b>", "--><b>", "'\"><b>"])
def test_no_text_closes_what_it_stands_in(text):
    for written in (page(said_everywhere(text)), frame(said_everywhere(text), text)):
        assert "<b>" not in re.sub("<b>#[0-9]+</b>|<b>this passage</b>", "", written)
