"""Adding, replacing, deleting, reading back."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from changes import EXTRACTOR
from support import SERVICES, keyword_search, snapshot, vector_search

from graphrag_core import (
    Document,
    KnowledgeExtractor,
    KnowledgeIndex,
)
from graphrag_core.errors import (
    DiskError,
    EmbedderMismatch,
    IndexClosed,
    InputError,
    NotAnIndex,
    ReadOnlyIndex,
    UnsupportedFormat,
)
from graphrag_core.testing import CountingEmbedder, HashEmbedder


def test_an_unchanged_document_costs_nothing():
    embedder = CountingEmbedder()
    with KnowledgeIndex(embedder) as index:
        assert index.add(SERVICES).added == 4
        embedder.texts.clear()
        report = index.add(SERVICES)
        assert (report.added, report.replaced, report.unchanged) == (0, 0, 4)
        assert embedder.texts == []


def test_a_changed_document_replaces_its_old_self():
    embedder = CountingEmbedder()
    with KnowledgeIndex(embedder) as index:
        index.add(SERVICES)
        embedder.texts.clear()
        changed = Document("auth", SERVICES[0].text + " Grace Hopper reviews it.", "Auth Service")
        assert index.add([changed]).replaced == 1
        assert index.get("auth") == changed
        assert index.graph.entity("Grace Hopper") is not None
        unchanged_sentences = [t for t in embedder.texts if t == "Auth Service: The Auth Service issues tokens."]
        assert unchanged_sentences == [], "a sentence that stays was embedded again"
        assert index.verify()


def test_a_change_of_metadata_alone_embeds_nothing():
    embedder = CountingEmbedder()
    with KnowledgeIndex(embedder) as index:
        index.add(SERVICES)
        embedder.texts.clear()
        index.add([Document("oauth", SERVICES[1].text, "OAuth Provider", {"team": "platform"})])
        assert embedder.texts == []
        assert [c.id for c, _ in keyword_search(index, "Mara", 5, {"team": "platform"})] == ["oauth"]
        assert index.verify()


def test_deletion_takes_everything_of_the_document_and_nothing_else(services):
    assert services.delete(["oauth", "unknown"]) == 1
    assert "oauth" not in services
    assert services.get("oauth") is None
    assert services.graph.entity("OAuth Provider") is not None, "auth still speaks of it"
    with KnowledgeIndex(HashEmbedder()) as fresh:
        fresh.add([d for d in SERVICES if d.id != "oauth"])
        assert snapshot(services) == snapshot(fresh)


def test_deleted_text_is_in_no_file(tmp_path):
    word = "xylophonequartz"
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add([*SERVICES, Document("secret", f"The {word} Protocol met Zanzibarbara.")])
        index.delete("secret")
        index.erase()
    left = [p for p in tmp_path.rglob("*") if p.is_file() and word[:8].encode() in p.read_bytes().lower()]
    assert left == []
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        assert index.verify()


def test_documents_come_back_as_they_were_put_in(index):
    documents = [
        Document("b", "  Leading blanks, trailing newline.\n", "", {"nested": {"a": [1, {"b": None}]}, "π": 3.14}),
        Document("a", "مرحبا بالعالم. שלום עולם 👩‍👩‍👧‍👦 🎉.", "👋"),
        Document("c", "One sentence. " * 2_000, "Long"),
    ]
    index.add(documents)
    assert list(index.documents()) == sorted(documents, key=lambda d: d.id)
    assert len(index.chunks("c")) > 10
    assert all(documents[2].text[c.start :].startswith(c.text) for c in index.chunks("c"))
    assert index.verify()


def test_an_iterator_is_read_batch_by_batch(tmp_path):
    seen = []

    def stream():
        for i in range(25):
            seen.append(len(index))
            yield Document(str(i), f"Passage {i} of Ada Lovelace.")

    with KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=10) as index:
        assert index.add(stream()).added == 25
        assert (seen[0], seen[15], seen[24]) == (0, 10, 20)


def test_whole_batches_stay_when_a_later_one_fails():
    documents = [Document(str(i), f"Passage {i} of Ada Lovelace.") for i in range(5)]
    with KnowledgeIndex(HashEmbedder(), batch_size=2) as index:
        with pytest.raises(InputError):
            index.add([*documents[:3], Document("bad", "")])
        assert sorted(d.id for d in index.documents()) == ["0", "1"]
        assert index.verify()
        assert index.graph.entity("Ada Lovelace").mentions == 2


def test_stated_aliases_are_one_entity_inside_the_document_that_says_so():
    with KnowledgeIndex(HashEmbedder(), extractor=EXTRACTOR) as index:
        index.add(
            [
                Document("1", "International Business Machines (IBM) sells mainframes."),
                *(Document(str(at), f"We bought {at} from IBM.") for at in (2, 3)),
            ]
        )
        long, short = index.graph.entity("International Business Machines"), index.graph.entity("IBM")
        assert (long.aliases, long.mentions) == (("IBM",), 1)
        assert (short.id, short.aliases, short.mentions) == ("ibm", (), 2), "the one that more passages mention"
        index.delete(["2", "3"])
        assert index.graph.entity("IBM") == long
        index.add([Document("2", "We bought it from IBM."), Document("3", "IBM is blue.")])
        index.delete("1")
        assert index.graph.entity("IBM") == short
        assert index.graph.entity("International Business Machines") is None
        assert index.verify(), str(index.verify())


def test_triples_are_facts_with_relations():
    extractor = KnowledgeExtractor(key="triples")
    triples = {"triples": [["Auth Service", "depends_on", "OAuth Provider"], ["", "broken", "x"], "no triple"]}
    with KnowledgeIndex(HashEmbedder(), extractor=extractor) as index:
        index.add([Document("1", "…about them.", metadata=triples)])
        assert index.stats().relations == {"depends_on": 1}
        assert index.graph.neighbours("auth service")[0][1] == 1.0
        assert index.graph.facts("oauth provider")[0].text == "Auth Service depends_on OAuth Provider"


def test_a_folder_opens_again_as_it_was(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        index.add(SERVICES)
        before = snapshot(index)
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        assert snapshot(index) == before
        assert index.verify()


def test_one_writer_and_many_readers(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as writer:
        writer.add(SERVICES[:2])
        with KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=True) as reader:
            writer.add(SERVICES[2:])
            writer.delete("auth")
            assert len(reader) == 3, "a reader sees each commit"
            assert "auth" not in [c.id for c, _ in keyword_search(reader, "tokens", 3)]
            assert reader.refresh()
            assert not reader.refresh()
            assert snapshot(reader) == snapshot(writer)
            assert reader.verify()
            with pytest.raises(ReadOnlyIndex):
                reader.add(SERVICES)
            with pytest.raises(ReadOnlyIndex):
                reader.delete("mara")


def test_a_reader_notices_that_its_path_leads_to_another_index(tmp_path):
    for name, documents in (("old", SERVICES[:1]), ("new", SERVICES[1:])):
        with KnowledgeIndex.open(tmp_path / name, HashEmbedder()) as index:
            index.add(documents)
    link = tmp_path / "kb"
    link.symlink_to(tmp_path / "old")
    with KnowledgeIndex.open(link, HashEmbedder(), read_only=True) as reader:
        assert reader.document_ids() == ["auth"]
        link.unlink()
        link.symlink_to(tmp_path / "new")
        assert reader.document_ids() == ["log", "mara", "oauth"]
        assert reader.refresh()
        assert [chunk.id for chunk, _ in keyword_search(reader, "Uppsala")] == ["mara"]
        assert reader.verify()
        assert not reader.refresh()


def test_an_index_of_an_older_release_says_what_to_do(tmp_path):
    KnowledgeIndex.open(tmp_path, HashEmbedder()).close()
    with sqlite3.connect(tmp_path / "records.sqlite") as db:
        db.execute("PRAGMA user_version = 4")
    db.close()
    for read_only in (False, True):
        with pytest.raises(UnsupportedFormat, match=r"format 4.*index the documents again into another folder.*add"):
            KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=read_only)


def test_another_embedder_is_refused_with_both_names(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(32)):
        pass
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add(SERVICES)
    with pytest.raises(EmbedderMismatch, match=r"hash-64 .* hash-32"):
        KnowledgeIndex.open(tmp_path, HashEmbedder(32))
    with pytest.raises(InputError, match="embed_names=False"):
        KnowledgeIndex.open(tmp_path, HashEmbedder(), embed_names=True)
    with KnowledgeIndex.open(tmp_path) as index:
        assert index.delete("log") == 1, "looking and deleting need no embedder"
        with pytest.raises(InputError, match="needs an embedder"):
            index.add([Document("new", "Text.")])


def test_use_after_closing_is_refused(tmp_path):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder())
    index.close()
    index.close()
    for use in (index.stats, index.verify, lambda: index.add(SERVICES), lambda: index.get("x"), lambda: len(index)):
        with pytest.raises(IndexClosed):
            use()


def test_a_folder_that_is_no_index_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear", "utf-8")
    with pytest.raises(NotAnIndex, match="choose another folder"):
        KnowledgeIndex.open(tmp_path, HashEmbedder())
    with pytest.raises(DiskError):
        KnowledgeIndex.open(tmp_path / "letter.txt", HashEmbedder())
    with pytest.raises(NotAnIndex):
        KnowledgeIndex.open(tmp_path / "nothing", HashEmbedder(), read_only=True)
    assert not (tmp_path / "nothing").exists()


def test_threads_read_while_one_writes(index):
    index.add(SERVICES)
    failures: list[BaseException] = []
    stop = threading.Event()

    def read():
        try:
            while not stop.is_set():
                for chunk, _ in keyword_search(index, "Ada tokens", 5) + vector_search(index, "Ada", 5):
                    assert chunk.text
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test wants to see it
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in readers:
        thread.start()
    for turn in range(15):
        index.add([Document(f"x{turn % 3}", f"Ada Lovelace, turn {turn}, met the Auth Service.")])
        if turn % 2:
            index.delete(f"x{turn % 3}")
    stop.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert index.verify()
