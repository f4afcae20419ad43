"""Inside a scope everything is as in an index with these documents alone, byte for byte."""

from __future__ import annotations

import random

import numpy as np
import pytest
from torture.tenants import Tenants

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.embedded import search_indexes
from graphrag_core.engine.embedded.search_indexes import ScopedKeywords
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.filters import parse
from graphrag_core.testing import HashEmbedder


@pytest.mark.parametrize("seed", range(3))
def test_random_tenants_see_what_they_would_see_alone(seed):
    with Tenants(random.Random(seed)) as tenants:
        for _ in range(2):
            tenants.change()
            assert tenants.compare() > 0


ACME = {"tenant": "acme"}


def documents(tenant: str, texts: list[str]) -> list[Document]:
    return [Document(f"{tenant}-{at:03}", text, metadata={"tenant": tenant}) for at, text in enumerate(texts)]


def test_document_frequencies_are_those_of_the_scope():
    mine = documents("acme", ["The keyring failed.", "The gateway failed.", "A ledger and a keyring."])
    others = documents("umbrella", ["keyring " * 3] * 200 + ["ledger"])
    with KnowledgeIndex() as shared, KnowledgeIndex() as alone:
        shared.add([*others, *mine])
        alone.add(mine)
        scores = [
            [(hit.chunk.id, hit.score) for hit in retriever.retrieve("keyring ledger", method="keyword", where=where)]
            for retriever, where in ((GraphRetriever(shared), ACME), (GraphRetriever(alone), None))
        ]
        assert scores[0] == scores[1]
        with shared.engine.snapshot(parse(ACME)) as snapshot:
            assert snapshot.term_counts(["keyr", "ledger", "gateway"]).tolist() == [2, 1, 1]
        shared.add(documents("weyland", ["keyring"]))
        shared.delete("umbrella-000")
        again = GraphRetriever(shared).retrieve("keyring ledger", method="keyword", where=ACME)
        assert [(hit.chunk.id, hit.score) for hit in again] == scores[1]


def test_a_change_of_the_scope_changes_its_statistics_and_costs_what_it_changes(monkeypatch):
    texts = [f"Keyring {at} failed with the gateway." for at in range(60)]
    built: list[int] = []
    original = ScopedKeywords._built
    monkeypatch.setattr(ScopedKeywords, "_built", lambda self, *args: built.append(1) or original(self, *args))
    with KnowledgeIndex() as shared:
        shared.add([*documents("acme", texts), *documents("umbrella", texts)])
        retriever = GraphRetriever(shared)
        retriever.retrieve("keyring gateway", method="keyword", where=ACME)
        assert built == [1]
        shared.add([Document("acme-new", "The ledger replaced the keyring.", metadata=ACME)])
        found = retriever.retrieve("ledger keyring", method="keyword", where=ACME)
        assert built == [1], "the index of the scope was changed, not built again"
        with KnowledgeIndex() as alone:
            alone.add(shared.documents(where=ACME))
            expected = GraphRetriever(alone).retrieve("ledger keyring", method="keyword")
        assert [(hit.chunk.id, hit.score) for hit in found] == [(hit.chunk.id, hit.score) for hit in expected]


def test_the_spelling_of_a_name_is_that_of_the_scope():
    with KnowledgeIndex() as index:
        index.add(documents("umbrella", ["KeyRing Vault failed. KeyRing Vault broke."] * 5))
        index.add(documents("acme", ["Keyring Vault failed.", "Keyring Vault works.", "KeyRing Vault too."]))
        assert index.graph.entity("keyring vault").name == "KeyRing Vault"
        assert index.graph.entity("keyring vault", where=ACME).name == "Keyring Vault"
        assert [entity.name for entity in index.graph.entities("keyring", where=ACME)] == ["Keyring Vault"]


def test_similar_names_are_merged_as_if_the_scope_were_alone():
    # More near names of others than a name is compared with.
    names = [
        f"Harbour Gateway Billing Ledger {word}" for word in "Alpha Beta Gamma Delta Epsilon Zeta Eta Iota".split()
    ]
    mine = documents("acme", [f"Harbour Gateway Billing Ledger {one} failed." for one in ("One", "Two")])
    settings = {"merge_similar": 0.7, "embed_names": True}
    with KnowledgeIndex(HashEmbedder(), **settings) as shared, KnowledgeIndex(HashEmbedder(), **settings) as alone:
        shared.add(documents("umbrella", [f"{name} failed. {name} works." for name in names * 2]))
        shared.add(mine)
        alone.add(mine)
        assert shared.graph.entities(where=ACME) == alone.graph.entities()


def test_a_scope_is_searched_exactly_if_it_would_be_alone():
    random = np.random.default_rng(1)
    vectors = random.standard_normal((6_000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = np.arange(6_000)
    mine = keys[::3]
    shared = FaissVectors(lambda: [(keys, vectors)], approximate_from=3_000)
    alone = FaissVectors(lambda: [(mine, vectors[mine])], approximate_from=3_000)
    assert not shared.exact
    assert alone.exact
    for query in random.standard_normal((20, 16)).astype(np.float32):
        (inside,), (expected,) = shared.search(query, 25, mine), alone.search(query, 25)
        assert inside[0].tolist() == expected[0].tolist()
        assert inside[1].tolist() == expected[1].tolist()


def test_hidden_facts_stay_in_the_statistics_as_they_do_alone():
    with KnowledgeIndex() as shared, KnowledgeIndex() as alone:
        shared.add(documents("umbrella", ["keyring"] * 9))
        shared.add(documents("acme", ["The keyring failed.", "The gateway failed."]))
        for at in range(4):
            shared.memory.reject(shared.memory.remember("Keyring", "owns", f"Gateway {at}", metadata=ACME))
        alone.add(shared.documents(where=ACME))
        inside = GraphRetriever(shared).retrieve("keyring gateway", where=ACME)
        assert [(hit.chunk.id, hit.score) for hit in inside] == [
            (hit.chunk.id, hit.score) for hit in GraphRetriever(alone).retrieve("keyring gateway")
        ]


def test_a_large_scope_shares_the_statistics_and_sees_nothing_else(monkeypatch):
    monkeypatch.setattr(search_indexes, "MOST_SCOPED", 2)
    with KnowledgeIndex() as index:
        index.add([*documents("umbrella", ["keyring"] * 5), *documents("acme", ["Keyring failed."] * 3)])
        found = GraphRetriever(index).retrieve("keyring", where=ACME, k=20)
        assert {hit.chunk.metadata["tenant"] for hit in found} == {"acme"}
