"""Folders that earlier versions wrote can be opened, and nothing in them is embedded again."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import CHAIN_QUESTION, CountingEmbedder

STORED = Path(__file__).parent / "data" / "index-format-1.tar.gz"


@pytest.fixture
def folder(tmp_path):
    with tarfile.open(STORED) as archive:
        archive.extractall(tmp_path / "kb", filter="data")
    return tmp_path / "kb"


@pytest.mark.parametrize("missing", [(), ("derived",), ("keywords",), ("derived", "keywords")], ids=str)
def test_an_index_of_format_1_opens_whatever_of_its_search_indexes_is_there(folder, missing):
    for name in missing:
        shutil.rmtree(folder / name)
    embedder = CountingEmbedder()
    with KnowledgeIndex.open(folder, embedder) as index:
        assert list(index.document_ids()) == ["auth", "keyring", "oauth"]
        assert index.entity("as").name == "Auth Service"
        hits = GraphRetriever(index).retrieve(CHAIN_QUESTION, where={"tenant": "acme"}).hits
        assert [hit.chunk.id for hit in hits][:2] == ["auth", "oauth"]
        assert "keyring" in {hit.chunk.id for hit in hits}
        assert index.verify()
        assert embedder.texts == []


def test_an_index_of_format_1_can_be_changed(folder):
    embedder = CountingEmbedder()
    unchanged = Document("keyring", "Keyring is a company from Tallinn.", "Keyring", {"tenant": "acme", "year": 2023})
    with KnowledgeIndex.open(folder, embedder) as index:
        assert index.add([unchanged]).unchanged == 1
        assert embedder.texts == []
        index.delete("oauth")
        index.add([Document("vault", "Keyring owns the Vault.", "Vault")])
        assert index.verify()
    with KnowledgeIndex.open(folder, CountingEmbedder(), read_only=True) as index:
        assert index.document_ids() == ["auth", "keyring", "vault"]
