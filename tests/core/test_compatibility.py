"""Folders that earlier versions wrote can be opened, and nothing in them is embedded again."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, Mark
from graphrag_core.errors import UnsupportedFormat
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


def test_an_index_of_format_1_is_upgraded_by_the_first_writer(folder):
    with pytest.raises(UnsupportedFormat, match="open it once for writing"):
        KnowledgeIndex.open(folder, CountingEmbedder(), read_only=True)
    KnowledgeIndex.open(folder).close()
    with KnowledgeIndex.open(folder, CountingEmbedder(), read_only=True) as index:
        assert index.document_ids() == ["auth", "keyring", "oauth"]
        assert "keyring" in {hit.chunk.id for hit in GraphRetriever(index).retrieve(CHAIN_QUESTION).hits}
        assert index.verify()


def test_an_index_of_format_1_stores_marks_and_headings_after_its_upgrade(folder):
    document = Document("vault", "# Vault\n\nKeyring owns it.", "Vault", marks=(Mark("anchor", 0, 7, "vault"),))
    with KnowledgeIndex.open(folder, CountingEmbedder()) as index:
        index.add([document])
    with KnowledgeIndex.open(folder, CountingEmbedder()) as index:
        assert index.get("vault") == document
        assert index.add([document]).unchanged == 1
        assert index.add([replace(document, marks=())]).replaced == 1
        assert index.get("auth").marks == ()
        assert index.chunks("auth")[0].headings == ()
        assert index.verify()


def test_an_index_of_format_1_can_be_changed(folder):
    embedder = CountingEmbedder()
    same = Document("keyring", "Keyring is a company from Tallinn.", "Keyring", {"tenant": "acme", "year": 2023})
    with KnowledgeIndex.open(folder, embedder) as index:
        assert index.add([same]).replaced == 1  # as this version cuts and reads documents otherwise
        assert embedder.texts == []  # but the texts are the same
        assert index.add([same]).unchanged == 1
        index.delete("oauth")
        index.add([Document("vault", "Keyring owns the Vault.", "Vault")])
        assert index.verify()
    with KnowledgeIndex.open(folder, CountingEmbedder(), read_only=True) as index:
        assert index.document_ids() == ["auth", "keyring", "vault"]
