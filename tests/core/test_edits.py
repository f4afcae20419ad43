"""Edits of the graph: each is applied everywhere, survives what happens to documents, and is undone exactly."""

from __future__ import annotations

import pytest
from support import snapshot

from graphrag_core import Document, Extraction, Fact, GraphRetriever, KnowledgeIndex, Mention
from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.testing import CountingEmbedder, HashEmbedder

DOCUMENTS = [
    Document("auth", "Auth Service calls Keyring.", "Auth Service"),
    Document("key", "Keyring is sold by Solheim Systems.", "Keyring"),
    Document("vendor", "Solheim Sys is based in Bergen.", "Solheim Sys"),
]
KNOWN = {
    "auth": [("Auth Service", "calls", "Keyring")],
    "key": [("Keyring", "sold_by", "Solheim Systems")],
    "vendor": [("Solheim Sys", "based_in", "Bergen")],
    "new": [("Login Page", "calls", "Keyring")],
}


class Triples:
    """Extracts given triples, and the title as the subject."""

    identity = "triples"

    def extract(self, chunks):
        return [self._extract(chunk) for chunk in chunks]

    def _extract(self, chunk):
        facts = tuple(Fact((s, o), f"{s} {r} {o}", r) for s, r, o in KNOWN.get(chunk.document_id, ()))
        names = dict.fromkeys(name for fact in facts for name in fact.entities)
        return Extraction(tuple(Mention(name, subject=name == chunk.title) for name in names), facts)


def make(documents=DOCUMENTS, **settings):
    index = KnowledgeIndex(HashEmbedder(), extractor=Triples(), progress=False, **settings)
    index.add(documents)
    return index


def triples(index):
    return sorted((*fact.entities[:1], fact.relation, *fact.entities[1:]) for fact in index.graph.relations(limit=None))


BEFORE = [
    ("auth service", "calls", "keyring"),
    ("keyring", "sold_by", "solheim systems"),
    ("solheim sys", "based_in", "bergen"),
]


# -- listing


def test_entities_are_listed_by_mentions_prefix_type_and_limit():
    index = make()
    assert [entity.name for entity in index.graph.entities(limit=1)] == [
        "Keyring"
    ]  # the only one that two passages mention
    assert {entity.name for entity in index.graph.entities("sol")} == {"Solheim Systems", "Solheim Sys"}
    assert index.graph.entities(type="vendor") == []
    assert len(index.graph.entities(limit=None)) == 5


# -- each edit, with values worked out by hand


def test_a_renamed_entity_is_found_by_both_names_everywhere():
    index = make()
    edit = index.graph.rename("keyring", "Secret Vault")
    vault = index.graph.entity("Keyring")
    assert (vault.id, vault.name, vault.aliases, vault.mentions) == ("secret vault", "Secret Vault", ("Keyring",), 2)
    assert index.graph.entity("secret  vault") == vault
    assert triples(index)[0] == ("auth service", "calls", "secret vault")
    retriever = GraphRetriever(index)
    for question in ("Who sells Keyring?", "Who sells the Secret Vault?"):
        result = retriever.retrieve(question)
        assert [entity.name for entity in result.entities] == ["Secret Vault"]
        assert "- Secret Vault -> sold by -> Solheim Systems" in result.context(500)
    assert [one.text for one in index.graph.edits()] == ["renamed 'Keyring' to 'Secret Vault'"]
    assert edit.number == 1
    assert index.verify()


def test_merged_entities_are_one():
    index = make()
    index.graph.merge(["Solheim Sys"], "Solheim Systems")
    merged = index.graph.entity("Solheim Sys")
    assert (merged.name, merged.aliases, merged.mentions) == ("Solheim Systems", ("Solheim Sys",), 2)
    assert [entity.name for entity, _ in index.graph.neighbours("Solheim Systems")] == ["Bergen", "Keyring"]
    assert index.verify()


def test_a_deleted_entity_is_gone_with_its_links():
    index = make()
    index.graph.delete_entity("Keyring")
    assert index.graph.entity("Keyring") is None
    assert index.graph.neighbours("Auth Service") == []
    assert triples(index) == [BEFORE[2]]
    assert GraphRetriever(index).retrieve("Keyring").entities == ()
    assert index.get("key") == DOCUMENTS[1]
    assert index.verify()


def test_a_deleted_relation_is_gone_and_its_ends_stay():
    index = make()
    index.graph.delete_relation(("Auth Service", "calls", "Keyring"))
    assert triples(index) == BEFORE[1:]
    assert index.graph.neighbours("Auth Service") == []
    assert index.graph.entity("Auth Service").mentions == 1
    result = GraphRetriever(index).retrieve("What does the Auth Service call?")
    assert all(fact.relation != "calls" for fact in result.facts)
    assert index.verify()


def test_a_sentence_can_be_deleted_by_its_fact():
    index = KnowledgeIndex(progress=False)
    index.add([Document("a", "Mara Lindqvist met Tomas Vael. Mara Lindqvist likes Oslo.")])
    fact = next(fact for fact in index.graph.facts("Tomas Vael") if "met" in fact.text)
    index.graph.delete_relation(fact.id)
    assert [fact.text for fact in index.graph.facts("Mara Lindqvist")] == ["Mara Lindqvist likes Oslo."]


def test_relations_can_be_added_between_entities_that_did_not_exist():
    index = make()
    index.graph.add_relation("Harbour Team", "owns", "Keyring")
    assert [fact.text for fact in index.graph.relations("Harbour Team", "owns")] == ["Harbour Team owns Keyring"]
    assert [edit.action for edit in index.graph.edits()] == ["add_relation"]


# -- reversible


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.graph.rename("Keyring", "Vault"),
        lambda index: index.graph.merge(["Solheim Sys"], "Solheim Systems"),
        lambda index: index.graph.merge(["Solheim Sys", "Keyring"], "New One"),
        lambda index: index.graph.delete_entity("Keyring"),
        lambda index: index.graph.delete_relation(("Auth Service", "calls", "Keyring")),
        lambda index: index.graph.add_relation("Keyring", "used_by", "Others"),
        lambda index: index.graph.add_relation("Told", "prefers", "Tea", confidence=0.2),
        lambda index: index.graph.add_relation("Told", "prefers", "Milk", supersedes=True),
    ],
)
def test_every_edit_is_undone_exactly(change):
    index = make()
    index.memory.remember("Told", "prefers", "Tea")
    before, told = snapshot(index), index.memory.facts()
    edit = change(index)
    assert index.graph.edits() == [edit]
    assert snapshot(index) != before or index.memory.facts() != told
    assert index.graph.undo(edit.number) == edit
    assert snapshot(index) == before
    assert index.memory.facts() == told
    assert index.graph.edits() == []
    assert index.verify()


def test_edits_are_undone_in_any_order_and_numbers_are_not_used_twice():
    index = make()
    before = snapshot(index)
    first = index.graph.rename("Keyring", "Vault")
    second = index.graph.rename("Vault", "Safe")
    third = index.graph.merge(["Auth Service"], "Safe")
    index.graph.undo(first.number)
    assert index.graph.entity("Keyring").name == "Safe"
    assert index.graph.entity("Vault") is None
    index.graph.undo(third.number)
    assert index.graph.entity("Auth Service").name == "Auth Service"
    index.graph.undo(second.number)
    assert snapshot(index) == before
    assert index.graph.rename("Keyring", "Vault").number == 4
    with pytest.raises(InputError, match="no edit 1: the edits are 4"):
        index.graph.undo(1)


# -- lasting


def test_edits_survive_reindexing_reopening_and_erasing_and_hold_for_later_documents(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), extractor=Triples(), progress=False) as index:
        index.add(DOCUMENTS)
        index.graph.rename("Keyring", "Secret Vault")
        index.graph.merge(["Solheim Sys"], "Solheim Systems")
        index.graph.delete_relation(("Auth Service", "calls", "Keyring"))
        wanted = snapshot(index)
        index.delete(["auth", "key", "vendor"])
        index.add(DOCUMENTS)
        assert snapshot(index) == wanted
        index.erase()
        index.rebuild()
        assert snapshot(index) == wanted
    for _ in range(2):  # with and without a view on disk that has the edits
        with KnowledgeIndex.open(tmp_path, HashEmbedder(), extractor=Triples(), progress=False) as index:
            assert snapshot(index) == wanted
            assert index.verify()
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), extractor=Triples(), progress=False) as index:
        index.add([Document("new", "Login Page calls Keyring.", "Login Page")])
        assert ("login page", "calls", "secret vault") in triples(index)
        index.add([Document("plain", "The Secret Vault is slow.", "Secret Vault")])
        assert index.graph.entity("Keyring").name == "Secret Vault"
        assert index.verify()


def test_an_edit_embeds_nothing_and_a_reader_sees_it(tmp_path):
    embedder = CountingEmbedder()
    with KnowledgeIndex.open(tmp_path, embedder, extractor=Triples(), progress=False) as index:
        index.add(DOCUMENTS)
        count = len(embedder.texts)
        with KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=True) as reader:
            retriever = GraphRetriever(reader)
            assert [entity.name for entity in retriever.retrieve("Keyring").entities] == ["Keyring"]
            index.graph.rename("Keyring", "Vault")
            assert len(embedder.texts) == count
            assert reader.graph.entity("Keyring").name == "Vault"
            assert [entity.name for entity in retriever.retrieve("Keyring").entities] == ["Vault"]
            with pytest.raises(ReadOnlyIndex, match="open it for writing to change it"):
                reader.graph.rename("Vault", "Safe")


def test_edits_hold_inside_a_scope():
    documents = [Document(one.id, one.text, one.title, {"team": one.id}) for one in DOCUMENTS]
    index = make(documents)
    index.graph.rename("Keyring", "Vault")
    index.graph.delete_entity("Solheim Systems")
    result = GraphRetriever(index).retrieve("Keyring Solheim Systems", where={"team": "key"})
    assert [entity.name for entity in result.entities] == ["Vault"]


def test_what_cannot_be_edited_is_refused_with_a_hint():
    index = make()
    for wrong, hint in (
        (lambda: index.graph.rename("Nobody", "Somebody"), "there is no entity 'Nobody'"),
        (lambda: index.graph.rename("Keyring", "Bergen"), "use merge"),
        (lambda: index.graph.rename("Keyring", "--"), "needs a letter or digit"),
        (lambda: index.graph.merge(["Keyring"], "Keyring"), "nothing to merge"),
        (lambda: index.graph.delete_relation(("Keyring", "eats", "Bergen")), "no relation"),
        (lambda: index.graph.delete_relation("nowhere/0"), "no fact 'nowhere/0'"),
    ):
        with pytest.raises(InputError, match=hint):
            wrong()
    assert index.graph.edits() == []
