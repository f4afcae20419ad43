"""Folders that earlier versions wrote can be opened, and nothing in them is embedded again."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, Mark, SentenceExtractor
from graphrag_core.errors import UnsupportedFormat
from graphrag_core.testing import CHAIN_QUESTION, CountingEmbedder

DATA = Path(__file__).parent / "data"


def extracted(number, tmp_path):
    with tarfile.open(DATA / f"index-format-{number}.tar.gz") as archive:
        archive.extractall(tmp_path / "kb", filter="data")
    return tmp_path / "kb"


@pytest.fixture
def folder(tmp_path):
    return extracted(1, tmp_path)


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


GUIDE = Document(
    "guide",
    "# Operations Guide\n\n## Rotating Keys\n\nRotate the **Signing Key** of the [OAuth Provider](oauth.md) with "
    "`rotate_keys`. Keyring stores it.\n\n## Backups\n\nBackups of Keyring run in Tallinn every night.\n",
)


def chunk_rows(folder):
    """Return the columns of chunks, and of documents, that do not depend on the order of adding."""
    with sqlite3.connect(folder / "records.sqlite") as db:
        chunks = db.execute(
            "SELECT id, terms, fact_terms, near_1, near_2, near_3, headings, text FROM chunks ORDER BY id"
        )
        documents = db.execute("SELECT id, title, heading, metadata, digest FROM documents ORDER BY id")
        return chunks.fetchall(), documents.fetchall()


@pytest.mark.parametrize("missing", [(), ("derived", "keywords")], ids=str)
def test_an_index_of_format_2_becomes_the_one_that_this_version_writes(tmp_path, missing):
    folder = extracted(2, tmp_path)
    for name in missing:
        shutil.rmtree(folder / name)
    with pytest.raises(UnsupportedFormat, match="open it once for writing"):
        KnowledgeIndex.open(folder, CountingEmbedder(), read_only=True)
    embedder = CountingEmbedder()
    with KnowledgeIndex.open(folder, embedder) as index:
        assert list(index.document_ids()) == ["auth", "guide", "keyring", "oauth"]
        assert index.get("guide") == GUIDE
        assert index.chunks("guide")[0].title == "Operations Guide"
        hits = GraphRetriever(index).retrieve(CHAIN_QUESTION, where={"tenant": "acme"}).hits
        assert [hit.chunk.id for hit in hits][:2] == ["auth", "oauth"]
        assert index.verify()
        assert embedder.texts == []
        documents = [index.get(name) for name in index.document_ids()]
    extractor = SentenceExtractor(identity="sentences 3")  # digests hold the identity of the one that was used
    with KnowledgeIndex.open(tmp_path / "fresh", CountingEmbedder(), extractor=extractor) as fresh:
        fresh.add(documents)
    assert chunk_rows(folder) == chunk_rows(tmp_path / "fresh")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("missing", [(), ("derived", "keywords")], ids=str)
def test_an_index_of_format_3_without_checksums_opens(tmp_path, missing, read_only):
    """It was written by the last release that stored none."""
    folder = extracted(3, tmp_path)
    for name in missing:
        shutil.rmtree(folder / name)
    embedder = CountingEmbedder()
    with KnowledgeIndex.open(folder, embedder, read_only=read_only) as index:
        told = [one for one in index.document_ids() if one not in ("auth", "guide", "keyring", "oauth")]
        assert len(told) == 1
        assert index.get("guide") == GUIDE
        assert index.entity("OAuth Provider").name == "Login Provider"
        hits = GraphRetriever(index).retrieve(CHAIN_QUESTION, where={"tenant": "acme"}).hits
        assert [hit.chunk.id for hit in hits][:2] == ["auth", "oauth"]
        assert index.verify(), str(index.verify())
        assert embedder.texts == []
        if not read_only:
            index.add([Document("vault", "Keyring owns the Vault.", "Vault")])
            index.delete("oauth")
            assert index.compact()
            assert index.verify(), str(index.verify())


def test_a_chunk_without_the_terms_of_its_facts_is_reported(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", CountingEmbedder()) as index:
        index.add([GUIDE])
        assert index.verify()
    with sqlite3.connect(tmp_path / "kb" / "records.sqlite") as db:
        db.execute("UPDATE chunks SET fact_terms = NULL WHERE ordinal = 0")
    with KnowledgeIndex.open(tmp_path / "kb", CountingEmbedder()) as index:
        assert "1 chunks lack the terms of their facts" in str(index.verify())
