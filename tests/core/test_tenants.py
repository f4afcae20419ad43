"""What a tenant sees does not depend on the names and statements of others."""

from __future__ import annotations

import random

import pytest
from changes import EXTRACTOR
from torture.tenants import Tenants

from graphrag_apps.ask import ask
from graphrag_core import Document, GraphRetriever
from graphrag_core.testing import HashEmbedder


def test_random_tenants_see_what_they_would_see_alone(open_index):
    with Tenants(random.Random(1), open_index) as tenants:
        for _ in range(2):
            tenants.change()
            assert tenants.compare() > 0


ACME = {"tenant": "acme"}


def documents(tenant: str, texts: list[str]) -> list[Document]:
    return [Document(f"{tenant}-{at:03}", text, metadata={"tenant": tenant}) for at, text in enumerate(texts)]


def test_the_spelling_of_a_name_is_that_of_the_scope(open_index):
    with open_index() as index:
        index.add(documents("umbrella", ["KeyRing Vault failed. KeyRing Vault broke."] * 5))
        index.add(documents("acme", ["Keyring Vault failed.", "Keyring Vault works.", "KeyRing Vault too."]))
        assert index.graph.entity("keyring vault").name == "KeyRing Vault"
        assert index.graph.entity("keyring vault", where=ACME).name == "Keyring Vault"
        assert [entity.name for entity in index.graph.entities("keyring", where=ACME)] == ["Keyring Vault"]


def test_a_scope_sees_nothing_else(open_index):
    with open_index() as index:
        index.add([*documents("umbrella", ["keyring"] * 5), *documents("acme", ["Keyring failed."] * 3)])
        found = GraphRetriever(index).retrieve("keyring", where=ACME, k=20)
        assert {hit.chunk.metadata["tenant"] for hit in found} == {"acme"}
        assert len(index.document_ids(ACME)) == 3


@pytest.mark.parametrize("method", ["hybrid", "keyword", "graph", "agentic"])
def test_a_word_that_only_others_use_changes_no_score(open_index, method):
    ours = documents("acme", ["The Keyring failed in May.", "Mara Lindqvist runs the Keyring.", "Tokens expire."])
    secret, other = "the quorum of the zephyr leaks Tokens", "the ballot of the gusts leaks Tokens"
    with open_index(HashEmbedder()) as one, open_index(HashEmbedder()) as twin:
        one.add([*ours, *documents("umbrella", [secret] * 4)])
        twin.add([*ours, *documents("umbrella", [other] * 4)])
        for question in (
            "Who runs the Keyring?",
            "Which quorum leaks Tokens in May?",
            '"quorum of the zephyr" Keyring',
        ):
            results = [
                GraphRetriever(index).retrieve(question, where=ACME, method=method, k=3) for index in (one, twin)
            ]
            found, expected = ([(hit.chunk.id, hit.score, hit.channels) for hit in result] for result in results)
            assert found == expected
            answers = [ask(GraphRetriever(index, method=method), question, where=ACME).text for index in (one, twin)]
            assert answers[0] == answers[1]


def test_an_alias_of_another_tenant_does_not_join_names(open_index):
    with open_index(extractor=EXTRACTOR) as index:
        index.add(documents("umbrella", ["Key Vault Service (KVS) failed.", "KVS works. Key Vault Service works."]))
        index.add(documents("acme", ["Key Vault Service failed.", "KVS is another thing."]))
        assert index.graph.entity("KVS").name == "Key Vault Service"
        assert index.graph.entity("KVS", where=ACME).name == "KVS"
        assert index.graph.entity("Key Vault Service", where=ACME).aliases == ()


def test_a_name_that_a_tenant_has_in_lower_case_only_is_not_there(open_index):
    with open_index() as index:
        index.add(documents("umbrella", ["Tariff Engine failed.", "Tariff Engine works with Keyring."]))
        index.add(documents("acme", ["They ask the tariff engine there about Keyring.", "Keyring failed."]))
        assert index.graph.entity("tariff engine") is not None
        assert index.graph.entity("tariff engine", where=ACME) is None
        assert [one.name for one in index.graph.entities(where=ACME)] == ["Keyring"]
        assert index.graph.neighbours("Keyring", where=ACME) == []


def test_a_scope_does_not_see_the_last_document_after_its_deletion(open_index):
    with open_index() as index:
        index.add(documents("acme", ["Keyring failed.", "Keyring met Mara Lindqvist."]))
        index.add([Document("zz", "Mara Lindqvist (ML) owns Keyring.", metadata={"tenant": "umbrella"})])
        GraphRetriever(index).retrieve("Keyring")
        index.delete("zz")
        index.add(documents("weyland", ["Gateway failed."]))
        index.delete("weyland-000")
        found = GraphRetriever(index).retrieve("Keyring and Mara Lindqvist", where={"tenant": {"in": ["acme", "x"]}})
        assert {hit.chunk.id for hit in found} == {"acme-000", "acme-001"}
        inside = {"__id__": "acme-001"}
        assert index.graph.entity("Mara Lindqvist", where=inside).mentions == 1


def test_an_index_does_not_see_the_others_of_its_database(open_index):
    with open_index() as one, open_index() as other:
        one.add(documents("acme", ["The keyring failed.", "Ada Lovelace met Charles Babbage."]))
        other.add(documents("acme", ["The gateway failed."]))
        other.delete("acme-000")
        assert len(other) == 0
        assert len(one) == 2
        assert one.verify(), str(one.verify())
        assert not GraphRetriever(other).retrieve("keyring").hits
        assert other.graph.entities() == []
