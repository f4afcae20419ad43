"""What the explorer's page is told: bounded, within its scope, safe to display."""

from __future__ import annotations

import json
import re

import pytest

from graphrag_apps.demo import sample_documents
from graphrag_apps.explore import Explorer, server_page, static_page
from graphrag_core import Document, Extraction, GraphRetriever, KnowledgeIndex, Mention
from graphrag_core.errors import FilterError

DOCUMENTS = [
    Document("auth", "The Auth Service delegates sign-in to the OAuth Provider.", "Auth Service", {"tenant": "a"}),
    Document("oauth", "The OAuth Provider speaks to Keyring.", "OAuth Provider", {"tenant": "a"}),
    Document("keyring", "Keyring is made in Tallinn by Ada Lovelace.", "Keyring", {"tenant": "a", "year": 2021}),
    Document("vault", "The Secret Vault of Zanzibar speaks to the OAuth Provider.", "Secret Vault", {"tenant": "b"}),
]
SECRET = re.compile("vault|zanzibar", re.IGNORECASE)


@pytest.fixture
def index():
    with KnowledgeIndex() as index:
        index.add(DOCUMENTS)
        yield index


@pytest.fixture
def explorer(index):
    return Explorer(GraphRetriever(index))


class Mentions:
    """An extractor that finds the same names in every chunk."""

    def __init__(self, *mentions):
        self.mentions = mentions

    def extract(self, chunks):
        return [Extraction(self.mentions) for _ in chunks]


def names(nodes):
    return [node["name"] for node in nodes]


def everything(explorer, where=None):
    """Every answer about the names that occur, as JSON."""
    answers = [explorer.overview(where)]
    for name in ("auth service", "oauth provider", "keyring", "secret vault", "zanzibar", "tallinn"):
        answers += [
            explorer.search(name[:3], where),
            explorer.entity(name, where),
            explorer.neighbours(name, where),
            explorer.passages(name, where),
            explorer.facts(name, where),
            explorer.between(name, "oauth provider", where),
        ]
    answers += [explorer.community(one["id"], where) for one in answers[0]["communities"]]
    answers.append(explorer.question("Who makes what the OAuth Provider speaks to?", where))
    return json.dumps(answers)


def test_the_start_page_has_sizes_and_the_graph_of_the_top_entities(explorer):
    overview = explorer.overview()
    assert (overview["documents"], overview["passages"]) == (4, 4)
    assert overview["entities"] == len(overview["graph"]["nodes"])
    assert {"OAuth Provider", "Keyring", "Tallinn"} <= set(names(overview["graph"]["nodes"]))
    ids = {node["id"] for node in overview["graph"]["nodes"]}
    assert all(edge["source"] in ids and edge["target"] in ids for edge in overview["graph"]["edges"])


def test_titles_and_menu_words_are_not_on_the_start_page():
    pages = {
        "Using the whole profiler": "The Massif profiler reads what Malloc wrote. Malloc asks the Kernel for pages.",
        "Writing a new tool": "Massif and Malloc share the Kernel. The Kernel counts.",
    }
    with KnowledgeIndex() as index:
        index.add([Document(name, f"# {name}\n\n{text}", name) for name, text in pages.items()])
        shown = names(Explorer(GraphRetriever(index)).overview()["graph"]["nodes"])
    assert {"Massif", "Malloc", "Kernel"} <= set(shown)
    assert not set(pages) & set(shown)


@pytest.fixture(scope="module")
def demo():
    with KnowledgeIndex() as index:
        index.add(sample_documents())
        yield Explorer(GraphRetriever(index))


def test_a_name_that_begins_with_the_text_comes_before_one_that_contains_it(explorer):
    assert names(explorer.search("oau")["entities"]) == ["OAuth Provider"]
    assert names(explorer.search("provider")["entities"]) == ["OAuth Provider"]
    found = names(explorer.search("auth")["entities"])
    assert found == ["Auth Service", "OAuth Provider"]
    assert explorer.search("OAUTH provider")["exact"]
    assert explorer.search("")["entities"] == []
    assert explorer.search("qqq")["entities"] == []


def test_an_entity_has_its_passages_facts_and_neighbours(explorer):
    answer = explorer.entity("OAuth Provider")
    assert answer["entity"]["name"] == "OAuth Provider"
    assert answer["passages"]["total"] == 3
    about = [passage["about"] for passage in answer["passages"]["items"]]
    assert about == [True, False, False]
    assert [text for text, marked in answer["passages"]["items"][0]["pieces"] if marked] == ["OAuth Provider"]
    assert "The OAuth Provider speaks to Keyring." in [fact["text"] for fact in answer["facts"]["items"]]
    assert {"Auth Service", "Keyring", "Secret Vault"} <= set(names(answer["neighbours"]["nodes"]))
    assert explorer.entity("nobody")["entity"] is None


def test_neighbours_come_in_pages_with_the_edges_to_what_is_drawn(explorer):
    whole = explorer.neighbours("oauth provider")
    pages = [explorer.neighbours("oauth provider", offset=at, limit=1) for at in range(whole["total"])]
    assert [page["nodes"][0]["id"] for page in pages] == [node["id"] for node in whole["nodes"]]
    ends = {(edge["source"], edge["target"]) for edge in explorer.neighbours("tallinn", drawn=["keyring"])["edges"]}
    assert ("keyring", "tallinn") in ends
    assert explorer.neighbours("oauth provider", offset=1000)["nodes"] == []
    assert explorer.neighbours("nobody")["total"] == 0


def test_a_question_has_an_answer_passages_and_their_paths(explorer):
    answer = explorer.question("What does the OAuth Provider speak to?")
    assert answer["answer"]["kind"] in ("extract", "none")
    assert answer["hits"][0]["rank"] == 1
    assert " led" in answer["decided"]
    assert ": the question names OAuth Provider" in answer["decided"]
    kinds = {node["kind"] for node in answer["network"]["nodes"]}
    assert {"question", "named", "passage"} <= kinds
    keys = {node["key"] for node in answer["network"]["nodes"]}
    assert all(edge["source"] in keys and edge["target"] in keys for edge in answer["network"]["edges"])
    assert explorer.question("What does the OAuth Provider speak to?", answer=False)["answer"] is None


def test_nothing_of_another_tenant_is_seen_counted_or_named(explorer):
    assert SECRET.search(everything(explorer))
    assert not SECRET.search(everything(explorer, {"tenant": "a"}))
    assert explorer.overview({"tenant": "a"})["documents"] == 3
    assert explorer.entity("oauth provider", {"tenant": "a"})["passages"]["total"] == 2


def test_what_was_added_is_seen_and_what_was_deleted_is_not(index, explorer):
    assert explorer.search("vault")["entities"]
    index.delete("vault")
    assert explorer.search("vault")["entities"] == []
    assert not SECRET.search(everything(explorer))
    index.add([Document("new", "Marie Curie met Ada Lovelace.")])
    assert names(explorer.search("marie")["entities"]) == ["Marie Curie"]


def test_a_filter_that_cannot_be_used_is_refused(explorer):
    with pytest.raises(FilterError):
        explorer.overview({"year": {"about": 3}})


def test_hostile_names_are_safe_to_display():
    hostile = "Evil\u202eCorp <script>alert(1)</script>\x07 Service"
    with KnowledgeIndex(extractor=Mentions(Mention(hostile))) as index:
        index.add([Document("d", f"{hostile} is here.", "A \u2066title\x07")])
        explorer = Explorer(GraphRetriever(index))
        text = json.dumps(
            [explorer.overview(), explorer.entity(hostile), explorer.question("evil")], ensure_ascii=False
        )
        assert not re.search(
            "[\u202a-\u202e\u2066-\u2069\x00-\x08]", re.sub(r'"(id|name|chunk_id|key|value)": "[^"]*"', "", text)
        )
        page = static_page(explorer, entity=hostile)
        assert "<script>alert" not in page


# -- pages


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_an_export_holds_as_many_entities_as_asked_and_no_link_leads_outside(explorer):
    data = data_of(static_page(explorer, entity="OAuth Provider", max_nodes=3))
    assert len(data["entities"]) == 3
    assert data["start"] == {"kind": "entity", "value": "oauth provider"}
    for answer in data["entities"].values():
        assert {node["id"] for node in answer["neighbours"]["nodes"]} <= data["entities"].keys()
    assert {node["id"] for node in data["overview"]["graph"]["nodes"]} <= data["entities"].keys()
    for answer in data["communities"].values():
        assert len(answer["graph"]["nodes"]) == answer["community"]["entities"], "a community is drawn whole"


def test_pages_refer_to_nothing_outside_and_have_no_inline_script_but_their_own(explorer):
    for page in (server_page(), static_page(explorer)):
        markup = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", page)
        assert not re.search(r"(src|href)=.?(https?:)?//", markup)
        assert not re.search(r"\son\w+=", markup)
        assert 'style="' not in markup
    assert "<script>" not in server_page()


def test_an_export_is_the_same_each_time_and_within_its_scope(index, explorer):
    question = "What does the OAuth Provider speak to?"
    pages = [static_page(Explorer(GraphRetriever(index)), question=question, where={"tenant": "a"}) for _ in range(2)]
    assert pages[0] == pages[1]
    assert not SECRET.search(json.dumps(data_of(pages[0])))
    assert data_of(pages[0])["questions"][question]["hits"]
