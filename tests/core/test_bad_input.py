"""Bad input gives an error of ours that names it, and the index stays as it was."""

from __future__ import annotations

import sqlite3
from functools import reduce

import pytest
from support import keyword_search, snapshot

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import (
    DocumentError,
    FilterError,
    NotAnIndex,
    UnsupportedFormat,
)
from graphrag_core.testing import HashEmbedder

GOOD = Document("good", "A good one by Ada Lovelace.")
CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
BAD = {
    "empty": (Document("bad", ""), "empty"),
    "blank": (Document("bad", " \n\t "), "empty"),
    "NUL": (Document("bad", "a\x00b"), "NUL character at 1"),
    "surrogate": (Document("bad", "ab\ud800"), "surrogate pair at 2"),
    "bytes": (Document("bad", b"bytes"), "bytes, not str"),  # type: ignore[arg-type]
    "title": (Document("bad", "text", title="\x00"), "title has a NUL"),
    "bytes inside": (Document("bad", "text", metadata={"a": {"tags": [b"x"]}}), "'a.tags' is b'x' of type bytes"),
    "NaN": (Document("bad", "text", metadata={"x": float("nan")}), "'x' is nan"),
    "key": (Document("bad", "text", metadata={1: "x"}), "key 1 of 'metadata' is not a text"),
    "deep metadata": (
        Document("bad", "text", metadata=reduce(lambda one, _: {"a": one}, range(51), {})),
        "nested deeper",
    ),
    "nested key": (Document("bad", "text", metadata={"a": [{(1, 2): "x"}]}), "the key (1, 2) of 'a' is not a text"),
    "nested surrogate": (Document("bad", "text", metadata={"a": [{"\ud800": 1}]}), "': the metadata has half"),
    "endless number": (Document("bad", "text", metadata={"a": [10**5000]}), "cannot be stored"),
    "circle": (Document("bad", "text", metadata={"a": CIRCLE}), "contains itself"),
    "list": (Document("bad", "text", metadata=["x"]), "not a mapping"),  # type: ignore[arg-type]
    "metadata NUL": (Document("bad", "text", metadata={"x": "a\x00"}), "metadata has a NUL"),
    "metadata surrogate": (Document("bad", "text", metadata={"x": "\udfff"}), "metadata has half"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_named_and_nothing_of_its_call_is_kept(services, name):
    before = snapshot(services)
    document, problem = BAD[name]
    with pytest.raises(DocumentError, match=r"document 'bad'") as raised:
        services.add([GOOD, document])
    assert problem in str(raised.value)
    assert raised.value.document_id == "bad"
    assert snapshot(services) == before


def test_ids_that_come_twice_are_refused(services):
    before = snapshot(services)
    with pytest.raises(DocumentError, match=r"'twin'.*twice"):
        services.add([Document("twin", "One."), GOOD, Document("twin", "Two.")])
    assert snapshot(services) == before
    with KnowledgeIndex(HashEmbedder(), batch_size=1) as index, pytest.raises(DocumentError, match="twice"):
        index.add([Document("twin", "One."), Document("twin", "Two.")])


def test_strange_but_good_text_is_indexed(index):
    index.add(
        [
            Document("line", "word " * 200_000),
            Document("nospace", "x" * 200_000),
            Document("rtl", "שלום עולם. مرحبا بالعالم."),
            Document("emoji", "👩‍👩‍👧‍👦🎉 🏴󠁧󠁢󠁳󠁣󠁴󠁿"),
            Document("control", "bell \x07 escape \x1b[31m tab\t\r\n"),
            Document("cjk", "漢字かな交じり文" * 500),
            Document("marks", "e\u0301" * 1_000 + " \u200f\u202e"),
            Document("huge number", "text", metadata={"n": 10**400, "m": -(10**30), "f": 1e308}),
        ]
    )
    assert index.verify()
    assert index.get("line").text == "word " * 200_000
    assert max(len(c.text) for c in index.chunks("line")) < 5_000


@pytest.mark.parametrize(
    "where",
    [
        {"team": {"like": "x"}},
        {"team": {}},
        {"team": [["a"]]},
        {"year": {"between": [2020]}},
        {"year": {"between": 2020}},
        {"team": {"$ilike": "x%"}},
        {"team": {"in": "abc"}},
        {"team": {"gt": None}},
        {"$where": "1"},
        {"and": {"team": "x"}},
        {"": 1},
        {3: 1},
        {"year": {"eq": 2**70}},
        {"year": {"exists": 1}},
        "team",
    ],
)
def test_a_bad_filter_is_refused(services, where):
    with pytest.raises(FilterError):
        keyword_search(services, "tokens", 3, where)


def test_an_sqlite_file_of_another_kind_and_another_format_are_refused(tmp_path):
    other = sqlite3.connect(tmp_path / "records.sqlite")
    other.execute("CREATE TABLE cats (name)")
    other.close()
    with pytest.raises(NotAnIndex, match="not an index"):
        KnowledgeIndex.open(tmp_path, HashEmbedder())
    (tmp_path / "records.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(NotAnIndex):
        KnowledgeIndex.open(tmp_path, HashEmbedder())
    newer = tmp_path / "newer"
    KnowledgeIndex.open(newer, HashEmbedder()).close()
    database = sqlite3.connect(newer / "records.sqlite")
    for version, advice in ((99, "upgrade hybrid-graphrag"), (2, "index the documents again into another folder")):
        database.execute(f"PRAGMA user_version = {version}")
        for read_only in (False, True):
            with pytest.raises(UnsupportedFormat, match=f"format {version}, .*: {advice}"):
                KnowledgeIndex.open(newer, HashEmbedder(), read_only=read_only)
    database.close()
    KnowledgeIndex.open(tmp_path / "free", HashEmbedder()).close()
    KnowledgeIndex.open(tmp_path / "free", HashEmbedder()).close()  # a refused opening holds no lock either
