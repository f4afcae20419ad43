"""Which names are entities: those of each document, but for generic headings and addresses that lead nowhere."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from changes import CHUNKER

from graphrag_core import Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.filters import parse
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("a", "We like Session objects. You open a new session object here.", "Engine", {"kind": "x"}),
    Document("b", "The old session object is closed. A big session pool helps.", "Pools", {"kind": "x"}),
    Document("c", "We asked Mara and Redis about it. The worker is idle.", "Workers", {"kind": "y"}),
    Document("d", "They left Uppsala with Mara. It uses a small session cache.", "People", {"kind": "y"}),
]


def index(*documents, **settings):
    built = KnowledgeIndex(HashEmbedder(16), progress=False, **settings)
    built.add(documents)
    return built


def everything(built, snapshot):
    """Return all entities that the chunks of a snapshot mention, with addresses, in the order of their numbers."""
    ids = [chunk.id for document in built.document_ids() for chunk in built.engine.chunks_of(document)]
    chunks = np.array([*snapshot.find_chunks(ids).values()], np.int64)
    return np.unique(snapshot.walk(chunks).targets)


def entities(built, where=None):
    with built.engine.snapshot(where) as snapshot:
        return sorted(entity.id for entity in snapshot.entities(everything(built, snapshot)))


def edges(built):
    with built.engine.snapshot() as snapshot:
        nodes = everything(built, snapshot)
        names = [entity.id for entity in snapshot.entities(nodes)]
        found = snapshot.neighbours(nodes, to="chunks")
        chunks = [chunk.id for chunk in snapshot.chunks(found.targets)]
        owners = np.repeat(np.array(names), found.counts).tolist()
        return sorted(zip(owners, chunks, found.weights.tolist(), strict=True))


def test_other_documents_do_not_change_what_is_a_name():
    alone = index(DOCUMENTS[2])
    built = index(*DOCUMENTS, Document("e", "A mara is a rodent, and the mara lives in herds. A redis is none."))
    assert {"mara", "redis"} <= set(entities(alone))
    assert {"mara", "redis", "uppsala", "engine"} <= set(entities(built))
    assert [edge for edge in edges(built) if edge[1] == "c"] == edges(alone)
    assert entities(built, parse({"kind": "x"})) == entities(index(*DOCUMENTS[:2]))


def test_a_name_of_another_document_is_no_mention_in_lower_case():
    built = index(
        Document("a", "We asked the Auth Service about it."), Document("b", "The auth service is idle again.", "B")
    )
    assert [edge for edge in edges(built) if edge[0] == "auth service"] == [("auth service", "a", 1.0)]


def test_a_deletion_leaves_what_the_others_alone_would_have():
    built = index(*DOCUMENTS)
    built.delete(["b", "d"])
    alone = index(DOCUMENTS[0], DOCUMENTS[2])
    assert entities(built) == entities(alone)
    assert edges(built) == edges(alone)


def test_the_order_of_addition_does_not_matter():
    one, other = index(*DOCUMENTS), KnowledgeIndex(HashEmbedder(16), progress=False)
    for document in reversed(DOCUMENTS):
        other.add([document])
    assert edges(one) == edges(other)


def test_a_title_is_a_name_however_often_it_is_a_word():
    assert "session" in entities(index(Document("e", "A session groups work. Close the session.", "Session")))


def test_a_triple_names_what_it_says():
    known = {"a": [("Session", "part of", "Engine")]}
    built = index(*DOCUMENTS, extractor=KnowledgeExtractor(knowledge=known))
    assert "session" in entities(built)


def test_a_heading_of_many_documents_is_generic_unless_the_text_speaks_of_it():
    text = (
        "# {0}\n\nThe page explains what a {0} is.\n\n## Retry queue\n\nNothing is known about it so far, says Mara.\n"
    )
    pages = [Document(name, text.format(name), name) for name in ("Alpha", "Beta", "Gamma", "Delta", "Omega")]
    assert "retry queue" not in entities(index(*pages))
    assert "retry queue" in entities(index(*pages[:2]))
    spoken = [Document(f"s{i}", f"It is number {i} of the Retry Queue of the list.", f"S{i}") for i in range(6)]
    assert "retry queue" in entities(index(*pages, *spoken))


_BETA = f"# Beta\n\n{'It is a page of the manual. ' * 9}\n\n## Retries\n\n{'It is sent again after a while. ' * 9}\n"
LINKED = [
    Document("guide/a.md", "# Alpha\n\nThe broker is explained in the [guide of brokers](b.md#retries) at length.\n"),
    Document("guide/b.md", _BETA),
]


def test_an_address_leads_to_its_section_and_shows_its_label():
    built = index(*LINKED)
    with built.engine.snapshot() as snapshot:
        all_entities = snapshot.entities(everything(built, snapshot))
        assert Counter(e.name for e in all_entities)["Beta - Retries"] == 2  # in its document, and in the project
        assert Counter(e.id for e in all_entities)["beta"] > 1  # the name, and the addresses of the document
        top = snapshot.entities(snapshot.top_entities(50))
        assert top
        assert not any(e.name[0] == "→" or e.id[0] == "→" for e in (*top, *all_entities))
        assert snapshot.find_entities(["→guide/b", "beta"]).keys() == {"beta"}
        assert snapshot.linked_share > 0


def test_a_dangling_address_is_left_out_and_comes_back():
    built = index(LINKED[0])
    assert "beta retries" not in entities(built)
    built.add([LINKED[1]])
    assert "beta retries" in entities(built)
    built.delete(["guide/b.md"])
    assert "beta retries" not in entities(built)


def test_nothing_that_a_user_sees_names_an_address():
    built = index(*LINKED)
    assert ("Beta - Retries", 1.0) in [(entity.name, weight) for entity, weight in built.graph.neighbours("Alpha")]
    assert ("alpha", "beta retries") in [fact.entities for fact in built.graph.facts("Alpha")]
    for name in ("Alpha", "Beta", "Retries"):
        assert "→" not in f"{built.graph.entity(name)} {built.graph.facts(name)} {built.graph.neighbours(name)}"
    result = GraphRetriever(built).retrieve("After which while is it sent again, says the guide of brokers of Alpha?")
    assert [fact for fact in result.facts if fact.relation == "refers_to"]
    assert "→" not in f"{result.entities} {result.facts} {result.known} {[hit.path for hit in result]}"


def test_addresses_are_not_counted_as_entities():
    built = index(*LINKED)
    assert built.stats().entities == len([name for name in set(entities(built)) if name != "beta retries"])


def test_numbers_are_not_among_the_top_entities():
    built = index(*(Document(str(i), f"In 1999 Mara met Redis number {i} in Uppsala.", f"T{i}") for i in range(4)))
    with built.engine.snapshot() as snapshot:
        assert "1999" in entities(built)
        assert [e.id for e in snapshot.entities(snapshot.top_entities(3))] != []
        assert "1999" not in [e.id for e in snapshot.entities(snapshot.top_entities(10))]


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("开放授权提供商", "开放授权提供商与钥匙环公司通信。"),
        ("中华人民共和国全国人民代表大会常务委员会", "法案由中华人民共和国全国人民代表大会常务委员会通过。"),
        ("分散合意機構", "この設計は分散合意機構に基づく。"),
    ],
)
def test_chinese_and_japanese_titles_are_found_inside_their_document(title, text):
    pages = f"# {title}\n\n这是第一篇文章的内容。\n\n## 另一篇\n\n{text}\n"
    built = index(Document("a", pages), chunker=CHUNKER)
    with built.engine.snapshot() as snapshot:
        entity = snapshot.find_entities([title])[title]
        edges = snapshot.neighbours(np.array([entity]), to="chunks")
        assert any(text in chunk.text for chunk in snapshot.chunks(edges.targets))
    built.delete(["a"])
    assert title not in entities(built)
