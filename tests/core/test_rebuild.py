"""``index.rebuild`` extracts again from the stored text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import snapshot

from graphrag_core import (
    Chunker,
    Document,
    Extraction,
    Fact,
    GraphRetriever,
    KnowledgeIndex,
    Mention,
)
from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.research import research_documents
from graphrag_core.strategies import SpreadingActivation
from graphrag_core.testing import CountingEmbedder, HashEmbedder

GUIDE = """# Auth Service

The Auth Service trusts the [Keyring](#keyring). Mara Lindqvist (ML) runs it, and ML wrote `token_store.py`.

## Keyring

The Keyring is sold by Solheim Systems in Uppsala. It keeps the keys of the Harbour Team.

Term
: A word of the glossary.
""" + "".join(f"\n## Part {n}\n\n" + f"Part {n} of the Ledger belongs to the Harbour Team. " * 30 for n in range(3))
DOCUMENTS = [
    Document("guide.md", GUIDE, metadata={"author": "Ada Lovelace"}),
    Document("b", "Charles Babbage met Ludwig Moser.", metadata={"author": "Ada Lovelace"}),
    *(
        Document(f"{piece}-{at}", text, metadata={"source": "pieces.txt", "start_index": at})
        for at, (piece, text) in enumerate(
            [("z", "Bruce Perens wrote the Social Contract."), ("a", "Later Bruce left Debian.")]
        )
    ),
    *research_documents(
        {
            "academic_papers": [
                {"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory of four graphs."}
            ]
        }
    ),
]
CHUNKER = Chunker(max_tokens=64, overlap=8, whole_until=128)
EDGES = ["author"]


class Shout:
    """An extractor that finds one entity and one fact in each chunk, and cannot read some documents."""

    identity = "shout"

    def __init__(self, unreadable=(), partly=()):
        self.unreadable, self.partly = unreadable, partly

    def extract(self, chunks):
        for chunk in chunks:
            if chunk.document_id in self.unreadable:
                raise ValueError("unreadable")
        return [
            Extraction((), (), "too slow") if chunk.document_id in self.partly else
            Extraction((Mention("Shouted Name"),), (Fact(("Shouted Name",), f"Shouted {chunk.id}."),))
            for chunk in chunks
        ]  # fmt: skip


def contents(index):
    """Return each document with its passages and facts."""
    facts = list(index.graph.iter_facts())
    found = {}
    for document in index.documents():
        chunks = index.chunks(document.id)
        ids = {chunk.id for chunk in chunks}
        own = [fact for fact in facts if fact.id.rpartition("/")[0] in ids]
        told = sorted((fact.text, fact.entities, fact.relation, fact.access_count) for fact in own)
        found[document.id] = document, chunks, told
    return found


def opened(path, embedder=None, **settings):
    given = {"chunker": CHUNKER, "embed_names": True, "edges": EDGES, "progress": False}
    return KnowledgeIndex.open(path, embedder or HashEmbedder(), **{**given, **settings})


def test_a_rebuilt_index_equals_a_new_one_and_no_passage_is_embedded(tmp_path):
    with opened(tmp_path / "new") as index:
        index.add(DOCUMENTS)
        wanted, everything = contents(index), snapshot(index)
    with opened(tmp_path / "old", extractor=Shout()) as index:
        index.add(DOCUMENTS)
        assert index.graph.entity("Shouted Name")
        passages = {chunk.text for document in index.documents() for chunk in index.chunks(document.id)}
    embedder = CountingEmbedder()
    with opened(tmp_path / "old", embedder, batch_size=2) as index:
        report = index.rebuild()
        assert (report.added, report.replaced, report.unchanged, report.problems) == (0, len(DOCUMENTS), 0, {})
        assert contents(index) == wanted
        assert snapshot(index) == everything
        assert embedder.texts
        assert not passages & set(embedder.texts), "facts and names only"
        assert index.graph.entity("Shouted Name") is None
        assert index.verify(), str(index.verify())
        del embedder.texts[:]
        index.rebuild()
        assert not embedder.texts, "all of them have vectors"
        assert contents(index) == wanted
        assert index.add(DOCUMENTS).unchanged == len(DOCUMENTS)
        assert index.verify(), str(index.verify())


def test_told_facts_edits_and_accesses_survive(tmp_path):
    with opened(tmp_path) as index:
        index.add(DOCUMENTS)
        index.memory.remember("Harbour Team", "owns", "Keyring", valid_from="2024-01-01", valid_to="2025-01-01")
        index.memory.remember("Harbour Team", "owns", "Ledger")
        index.graph.rename("Solheim Systems", "Solheim")
        index.graph.delete_entity("Debian")
        retriever = GraphRetriever(index, graph=SpreadingActivation(), method="graph", cache=None)
        retriever.retrieve("Keyring and Ledger")
    with opened(tmp_path) as index:
        before = contents(index)
        assert sum(fact[-1] for *_, facts in before.values() for fact in facts) > 2
        index.rebuild()
        assert contents(index) == before
        assert [edit.action for edit in index.graph.edits()] == ["rename", "delete_entity"]
        assert index.graph.entity("Solheim Systems").name == "Solheim"
        assert index.graph.entity("Debian") is None
        assert {fact.text for fact in index.graph.facts("Harbour Team") if fact.relation == "owns"} == {
            "Harbour Team owns Ledger"
        }


def test_documents_whose_extraction_fails_keep_what_they_had(tmp_path):
    with opened(tmp_path) as index:
        index.add(DOCUMENTS)
        before = contents(index)
    failing = Shout(unreadable={"b"}, partly={"z-0"})
    with opened(tmp_path, extractor=failing) as index:
        report = index.rebuild()
        after = contents(index)
        assert set(report.problems) == {"b", "z-0"}
        assert "Shout raised ValueError on document 'b': unreadable" in report.problems["b"]
        assert report.problems["z-0"] == "too slow"
        assert (report.replaced, report.unchanged) == (len(DOCUMENTS) - 2, 2)
        assert all((after[name] == before[name]) == (name in report.problems) for name in before)
        assert index.verify(), str(index.verify())
        failing.unreadable = failing.partly = ()
        assert index.add(DOCUMENTS).replaced == 2, "they are extracted again when they are added again"


def test_another_chunker_cuts_the_documents_again(tmp_path):
    with opened(tmp_path) as index:
        index.add(DOCUMENTS)
        chunks = index.chunks("guide.md")
    with opened(tmp_path, chunker=Chunker(max_tokens=32, overlap=0, whole_until=32)) as index:
        index.rebuild()
        assert len(index.chunks("guide.md")) > len(chunks)
        assert index.add(DOCUMENTS).unchanged == len(DOCUMENTS)


def test_rebuilding_needs_the_embedder_and_an_index_that_can_be_written(tmp_path):
    with opened(tmp_path) as index:
        index.add(DOCUMENTS)
    with KnowledgeIndex.open(tmp_path, progress=False) as index, pytest.raises(InputError, match="needs an embedder"):
        index.rebuild()
    with KnowledgeIndex.open(tmp_path, read_only=True) as index, pytest.raises(ReadOnlyIndex):
        index.rebuild()


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from graphrag_core import Combined, SentenceExtractor
from test_rebuild import opened

class Deadly(SentenceExtractor):
    def extract(self, chunks):
        if any(chunk.document_id == "b" for chunk in chunks):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().extract(chunks)

where = sys.argv[1]
with opened(where, extractor=Combined(Deadly()), batch_size=1) as index:
    index.rebuild()
"""


def kill_in_the_middle(folder):
    script = [sys.executable, "-c", KILLED, str(folder), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(script, check=False, env=environment).returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_in_the_middle_it_leaves_a_valid_index_that_the_next_call_finishes(tmp_path):
    with opened(tmp_path, extractor=Shout()) as index:
        index.add(DOCUMENTS)
    kill_in_the_middle(tmp_path)
    with opened(tmp_path) as index:
        assert index.verify(), str(index.verify())
        assert 0 < index.graph.entity("Shouted Name").mentions < sum(len(index.chunks(d.id)) for d in DOCUMENTS)
        index.rebuild()
        assert index.graph.entity("Shouted Name") is None
        found = contents(index)
    with opened(tmp_path / "new") as index:
        index.add(DOCUMENTS)
        assert contents(index) == found
