"""Mishaps that an index must come through: interruptions, damage, other threads, foreign output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import MappingProxyType

import pytest
from support import SERVICES, snapshot, vector_search

from graphrag_core import Chunker, Document, Extraction, Fact, KnowledgeExtractor, KnowledgeIndex, LLMExtractor, Mention
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.errors import DocumentError, EmbedderMismatch, ExtractionError, IndexClosed
from graphrag_core.testing import HashEmbedder


class Reads:
    """An extractor that gives what it is told to."""

    def __init__(self, extraction: Extraction) -> None:
        self.extraction = extraction

    def extract(self, chunks):
        return [self.extraction for _ in chunks]


def test_a_failed_first_call_leaves_a_new_index_new(tmp_path):
    with KnowledgeIndex.open(
        tmp_path, HashEmbedder(), extractor=Reads(Extraction(facts=(Fact(("A", "B"), "x", weight=float("nan")),)))
    ) as index:
        with pytest.raises(ExtractionError, match="cannot be stored"):
            index.add(SERVICES)
        assert index.stats().embedder == ""
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        assert index.add(SERVICES).added == 4
        assert index.stats().dim == 16


@pytest.mark.parametrize(
    "document", [Document("a", "🙂🙂"), Document("a", "# Auth Service"), Document("a", "Same", "Same")]
)
def test_a_document_without_a_fact_is_indexed(index, document):
    index.add([document])
    assert index.stats().facts == 0
    assert index.verify()


def test_an_index_may_be_closed_by_another_thread(tmp_path):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder())
    thread = threading.Thread(target=index.close)
    thread.start()
    thread.join()
    KnowledgeIndex.open(tmp_path, HashEmbedder()).close()


def test_closing_waits_for_an_add_in_another_thread(tmp_path):
    index = KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=5)
    begun = threading.Event()

    def stream():
        for i in range(40):
            begun.set()
            yield Document(str(i), f"Text {i} of Ada Lovelace.")

    errors = []

    def add():
        try:
            index.add(stream())
        except IndexClosed as error:
            errors.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    begun.wait()
    index.close()
    thread.join()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as again:
        assert len(again) == 40
        assert again.verify()


def test_rebuild_repairs_files_and_flipped_bytes_are_noticed(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add(SERVICES)
        index.rebuild()
    (path,) = tmp_path.glob("*.base")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        assert index.verify(), str(index.verify())
        index.rebuild()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        assert index.verify(), str(index.verify())


def test_documents_are_never_torn_by_a_replacement(index):
    long = [f"{word} " * 3_000 for word in ("one", "two")]
    index.add([Document("a", long[0])])
    torn = []
    stop = threading.Event()

    def look():
        while not stop.is_set():
            document = index.get("a")
            if document is None or document.text not in long:
                torn.append(document)

    thread = threading.Thread(target=look)
    thread.start()
    for turn in range(8):
        index.add([Document("a", long[turn % 2])])
    stop.set()
    thread.join()
    assert torn == []


def test_readers_and_a_writer_at_once(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), batch_size=2) as writer:
        writer.add(SERVICES)
        readers = [KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=True) for _ in range(2)]
        for turn in range(6):
            writer.add([Document(f"t{turn}{i}", f"Turn {turn} of Ada Lovelace, part {i}.") for i in range(3)])
            writer.delete([f"t{turn - 1}0"])
            for reader in readers:
                reader.refresh()
                assert reader.verify(), str(reader.verify())
                assert snapshot(reader) == snapshot(writer)
        for reader in readers:
            reader.close()


def test_a_reader_of_a_new_index_is_held_to_its_embedder(tmp_path):
    with (
        KnowledgeIndex.open(tmp_path, HashEmbedder()) as writer,
        KnowledgeIndex.open(tmp_path, HashEmbedder(16), read_only=True) as reader,
    ):
        writer.add(SERVICES)
        with pytest.raises(EmbedderMismatch):
            reader.refresh()


def test_verify_is_true_in_the_middle_of_a_long_add():
    with KnowledgeIndex(HashEmbedder(), batch_size=2) as index:
        seen = []

        def stream():
            for i in range(10):
                if i == 7:
                    seen.append(index.verify())
                yield Document(str(i), f"Text {i} of Ada Lovelace.")

        index.add(stream())
        assert seen[0], str(seen[0])


def test_strange_output_of_an_extractor_does_no_harm():
    odd = Extraction(
        (Mention("Foo \ud83d", "ty\x00pe", "said \udfff"), Mention("\x00"), Mention("A", aliases=("A", ""))),
        (
            Fact(("Foo \ud83d", "", "B"), "text \ud83d\x00", "likes\x00"),
            Fact(("A", "A"), "A likes A", "likes"),
            Fact((), "nothing"),
        ),
    )
    with KnowledgeIndex(HashEmbedder(), extractor=Reads(odd)) as index:
        index.add([Document("1", "Some text.")])
        assert index.graph.entity("foo").type == "type"
        assert {fact.entities for fact in index.graph.facts("a")} == {("a", "a")}
        assert index.verify(), str(index.verify())
        assert index.delete("1") == 1
        assert index.stats().entities == 0


def test_strange_answers_of_a_model_do_no_harm():
    answers = iter(
        [
            '{"entities": [{"name": "Foo \\ud83d"}], "relations": []}',
            'x \ud83d {"entities": [{"name": "Bar"}]}',
            "{}",
            '[{"name": "IBM"}]',
        ]
    )
    extractor = LLMExtractor(lambda prompt: next(answers), retries=0, concurrency=1, progress=False)
    with KnowledgeIndex(HashEmbedder(), extractor=extractor) as index:
        report = index.add([Document(str(i), f"Text {i}.") for i in range(4)])
        assert list(report.problems) == ["2"]
        assert index.graph.entity("Foo") is not None
        assert index.graph.entity("Bar") is not None
        assert index.graph.entity("IBM") is not None
        assert index.verify()


def test_equal_chunks_are_asked_about_once():
    calls = []

    def complete(prompt):
        calls.append(prompt)
        return '{"entities": [{"name": "IBM"}], "relations": []}'

    with KnowledgeIndex(HashEmbedder(), extractor=LLMExtractor(complete, progress=False)) as index:
        index.add([Document(str(i), "The same text.") for i in range(8)])
        assert index.graph.entity("IBM").mentions == 8
    assert len(calls) == 1


def test_changed_triples_are_read_again():
    engine = IndexEngine()
    extractors = [KnowledgeExtractor(knowledge={"1": [("A", "likes", name)]}) for name in ("B", "C")]
    KnowledgeIndex(HashEmbedder(), engine=engine, extractor=extractors[0]).add([Document("1", "Text.")])
    index = KnowledgeIndex(HashEmbedder(), engine=engine, extractor=extractors[1])
    assert index.add([Document("1", "Text.")]).replaced == 1
    assert index.graph.entity("B") is None


@pytest.mark.parametrize("metadata", [{0: "a"}, {"a": {False: 1}}, {0: 1, "b": 2}, {None: 1, "null": 2}])
def test_metadata_that_json_would_change_is_refused(index, metadata):
    with pytest.raises(DocumentError, match="not a text"):
        index.add([Document("a", "Text.", metadata=metadata)])


def test_metadata_comes_back_whatever_mapping_it_was(index):
    index.add([Document("a", "Text.", metadata=MappingProxyType({"x": "\\u0000", "list": (1, 2)}))])
    assert index.get("a").metadata == {"x": "\\u0000", "list": [1, 2]}


def test_a_collision_names_the_right_chunk():
    with KnowledgeIndex(HashEmbedder(), chunker=Chunker(max_tokens=5, overlap=0, whole_until=5)) as index:
        index.add([Document("a", "One two three four. Five six seven eight.")])
        with pytest.raises(DocumentError, match="'a#0'"):
            index.add([Document("x", "Text."), Document("a#0", "Short.")])


READ_ONLY = """
import encodings.cp437, os, sys
import graphrag_core.engine.engine, scipy.sparse  # before the files of Python cannot be read any more
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
from graphrag_core.errors import DiskError
folder = sys.argv[1]
if os.getuid() == 0:
    os.setuid(65534)
try:
    KnowledgeIndex.open(folder, HashEmbedder())
except DiskError as error:
    assert "read_only=True" in str(error)
else:
    raise AssertionError("a folder that cannot be written was opened for writing")
with KnowledgeIndex.open(folder, HashEmbedder(), read_only=True) as reader:
    assert GraphRetriever(reader).retrieve("tokens", k=1, method="keyword").hits[0].chunk.id == "auth"
    assert reader.verify(), str(reader.verify())
print("read")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_a_folder_that_cannot_be_written_can_be_read():
    folder = Path(tempfile.mkdtemp())
    try:
        with KnowledgeIndex.open(folder / "kb", HashEmbedder()) as index:
            index.add(SERVICES)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / "kb")],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.stdout.strip() == "read", done.stderr
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)


def test_long_texts_are_read_in_linear_time_enough_to_finish():
    quoted = " ".join(f'They read "The Book {i}" and liked it.' for i in range(6_000))
    opening = " ".join(f"Keyring{i} is new." for i in range(12_000))
    with KnowledgeIndex(HashEmbedder(), chunker=None) as index:
        index.add([Document("q", quoted), Document("o", opening)])
        assert index.graph.entity("The Book 17") is not None


def test_vector_search_takes_the_question_of_any_length(services):
    assert len(vector_search(services, "auth " * 19_999, 3)) == 3
