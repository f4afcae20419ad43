"""Any sequence of changes leaves the index that the surviving documents alone would make, in both engines."""

from __future__ import annotations

import random

import pytest
from changes import CHUNKER, operations, perform
from hypothesis import HealthCheck, given, settings
from support import snapshot
from torture.tenants import Tenants

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), chunker=CHUNKER, batch_size=2, **options)


def assert_same(lived: dict[str, object], embedded: dict[str, object]) -> None:
    """Compare engines: scores of keyword search differ in the last digits, and so may the order of equal ones."""
    for mine, other in zip(lived.pop("keywords"), embedded.pop("keywords"), strict=True):
        assert dict(mine) == pytest.approx(dict(other), rel=1e-4)
    assert lived == embedded


@settings(max_examples=15, suppress_health_check=QUIET)
@given(operations)
def test_the_index_is_that_of_the_surviving_documents(urls, steps):
    present: dict[str, Document] = {}
    with (
        opened(urls()) as lived,
        opened(urls()) as fresh,
        KnowledgeIndex(HashEmbedder(), chunker=CHUNKER, batch_size=2) as embedded,
    ):
        for step in steps:
            perform(lived, step, present)
        fresh.add(sorted(present.values(), key=lambda d: d.id, reverse=True))
        embedded.add(present.values())
        assert lived.verify(), str(lived.verify())
        assert snapshot(lived) == snapshot(fresh)
        assert_same(snapshot(lived), snapshot(embedded))


@pytest.mark.parametrize("seed", range(3))
def test_random_tenants_see_what_they_would_see_alone(urls, seed):
    def make(embedder, **options) -> KnowledgeIndex:
        return KnowledgeIndex.open(urls(), embedder, **options)

    with Tenants(random.Random(seed), make) as tenants:
        for _ in range(2):
            tenants.change()
            assert tenants.compare() > 0


ACME = {"tenant": "acme"}


def documents(tenant: str, texts: list[str]) -> list[Document]:
    return [Document(f"{tenant}-{at:03}", text, metadata={"tenant": tenant}) for at, text in enumerate(texts)]


def test_the_spelling_of_a_name_is_that_of_the_scope(url):
    with KnowledgeIndex.open(url) as index:
        index.add(documents("umbrella", ["KeyRing Vault failed. KeyRing Vault broke."] * 5))
        index.add(documents("acme", ["Keyring Vault failed.", "Keyring Vault works.", "KeyRing Vault too."]))
        assert index.graph.entity("keyring vault").name == "KeyRing Vault"
        assert index.graph.entity("keyring vault", where=ACME).name == "Keyring Vault"


def test_an_index_does_not_see_the_others_of_its_database(urls):
    with KnowledgeIndex.open(urls(), HashEmbedder()) as one, KnowledgeIndex.open(urls(), HashEmbedder()) as other:
        one.add(documents("acme", ["The keyring failed.", "Ada Lovelace met Charles Babbage."]))
        other.add(documents("acme", ["The gateway failed."]))
        other.delete("acme-000")
        assert len(other) == 0
        assert len(one) == 2
        assert one.verify(), str(one.verify())
        assert not GraphRetriever(other).retrieve("keyring").hits
        assert other.graph.entities() == []
