"""Which passages are copies: none that holds an answer of its own is hidden."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine import copies
from graphrag_core.engine.copies import is_copy, signatures
from graphrag_core.engine.graph import snapshot
from graphrag_core.testing import HashEmbedder

LICENCE = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    "documentation files, to deal in the software without restriction, including the rights to use, copy, modify, "
    "merge, publish, distribute, sublicense and sell copies of the software, and to permit persons to whom the "
    "software is furnished to do so, subject to the following conditions."
)
SECTION = (
    "The service named {0} listens on all interfaces and writes its log to the usual place, rotates it once a day and "
    "keeps it for a month; it is restarted when it fails, its memory is limited by the kernel, and its health is "
    "checked by the balancer every few seconds, with a limit of {1} connections that are open at the same time."
)


def found(*texts, k=10, **settings):
    built = KnowledgeIndex(HashEmbedder(), progress=False, chunker=None)
    built.add([Document(f"d{i}", text, settings.get("title", "")) for i, text in enumerate(texts)])
    return GraphRetriever(built, k=k, method="keyword").retrieve(settings.get("question", "service software log"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SECTION.format("billing", 40), SECTION.format("billing", 60)),
        (SECTION.format("billing", 40), SECTION.format("search", 40)),
        (SECTION.format("BILLING_URL", 40), SECTION.format("SEARCH_URL", 40)),
        (SECTION.format("billing", 40), SECTION.format("billing", 40).replace("is restarted", "is not restarted")),
    ],
    ids=["number", "word", "identifier", "negation"],
)
def test_texts_of_one_template_that_differ_in_a_value_are_both_found(one, other):
    assert {hit.chunk.text for hit in found(one, other)} == {one, other}
    assert not is_copy(one, other)
    assert not is_copy(other, one)


def test_a_longer_text_is_not_hidden_by_a_shorter_one():
    short = SECTION.format("billing", 40)
    long = f"{short} Mara Lund wrote it in Uppsala."
    assert set(signatures("", short)) & set(signatures("", long))
    assert is_copy(short, long)
    assert not is_copy(long, short)


def test_licences_of_other_owners_are_copies():
    one, other = (f"Copyright (c) {year} {owner}\n\n{LICENCE}" for year, owner in ((2019, "Mara"), (2024, "Lund Ltd")))
    assert [len(hit.copies) for hit in found(one, other)] == [1]


MANUAL = (
    "The “first” office of the harbour files each ship's papers, and offers a well-known command-line client for "
    "LC_MESSAGES — which isn't final. Traffic information flows through the channel, and the difficult part is that "
    "a specific affinity of tides and berths is not fixed before the morning, when the pilot confirms the arrival."
)


@pytest.mark.parametrize(
    "changed",
    [
        {"“": '"', "”": '"', "—": "--", "'": "’"},
        {"fi": "ﬁ", "ffi": "ﬃ", "fl": "ﬂ"},
        {"information": "infor-\nmation", "command-line": "command-\nline", "confirms": "con\xadfirms"},
        {"command-line": "commandline", "harbour": "har bour", "well-known": "wellknown"},
        {" ": "\N{NO-BREAK SPACE}\n", "berths": "**berths**", "client": "`client`", "pilot": "[pilot](pilot.html)"},
        {"LC_MESSAGES": "LC MESSAGES"},
        {"The “first”": "## 3.2 The first"},
        {"the channel": "Section 2.1 [the channel], page 12"},
    ],
    ids=["quotes", "ligatures", "hyphenation", "hyphens", "spaces and markup", "underscores", "section number", "page"],
)
def test_a_text_of_another_format_is_a_copy(changed):
    other = MANUAL
    for old, new in changed.items():
        other = other.replace(old, new)
    assert other != MANUAL
    for one, two in ((MANUAL, other), (other, MANUAL)):
        assert [len(hit.copies) for hit in found(one, two, question="harbour ship papers")] == [1]


def test_sections_of_two_versions_are_both_found():
    texts = [f"{version} Changes\n\n{MANUAL}" for version in ("3.2", "3.3")]
    assert len(found(*texts, question="harbour ship papers")) == 2


def test_a_chunk_with_very_many_similar_ones_is_compared_with_none(monkeypatch):
    compared = []
    monkeypatch.setattr(copies, "is_copy", lambda *both: compared.append(both) or is_copy(*both))
    rows = [SECTION.format("billing", number) for number in range(300)]
    assert len(found(*rows, SECTION.format("billing", 7), k=5)) == 5
    assert len(compared) < 2_000


def test_equal_chunks_cost_no_comparison(monkeypatch):
    compared = []
    monkeypatch.setattr(copies, "is_copy", lambda *both: compared.append(both) or is_copy(*both))
    hits = found(*[LICENCE] * 200, k=5)
    assert [len(hit.copies) for hit in hits] == [100]
    assert not compared


def test_the_copies_of_copies_are_not_asked_for(monkeypatch):
    asked = []
    of = snapshot.StoreSnapshot.copies
    monkeypatch.setattr(
        snapshot.StoreSnapshot, "copies", lambda self, kind, keys: asked.extend(keys) or of(self, kind, keys)
    )
    other = "The software of the log is served by the service."
    hits = found(*[LICENCE] * 90, other, k=2)
    assert {len(hit.copies) for hit in hits} == {89, 0}
    assert len(asked) < 5
