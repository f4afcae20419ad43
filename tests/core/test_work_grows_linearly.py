"""The work of indexing grows with the length of a document, not with its square."""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

SENTENCES = {
    "prose": "Service {i} of Ada Lovelace delegates word{i} to the OAuth Provider {j}. ",
    "lines": "Service {i} of Ada Lovelace delegates word{i} to the OAuth Provider {j}.\n\n",
    "one line": "Service {i} of Ada Lovelace delegates word{i} to the OAuth Provider {j} and ",
    "markdown": "## Part {i}\n\n- The `kg_store{i}` of **Ada Lovelace** calls [Part {j}](#part-{j}).\n\n"
    "Term{i}\n: It delegates to the OAuth Provider {j}.\n\n",
    "chinese": "北京大学的第{i}个模型由张江科技公司发布。",
    "chinese line": "北京大学研究人员使用{i}张江科技",
}


def text_of(kind: str, characters: int, first: int = 10_000) -> str:
    """Return a text with its own numbers, which no cache knows from another text."""
    unit = SENTENCES[kind]
    return "".join(unit.format(i=first + i, j=first + i // 2) for i in range(characters // len(unit)))


def calls(text: str, **settings) -> int:
    """Return how many functions run when a document is parsed and written."""
    index = KnowledgeIndex(HashEmbedder(), progress=False, **settings)
    profile = cProfile.Profile()
    profile.enable()
    index.add([Document("a", text, "Title")])
    profile.disable()
    assert index.graph.entities(limit=1)
    index.close()
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {}) for kind in SENTENCES), ("prose", {"chunker": None}), ("chinese", {"chunker": None})],
)
def test_four_times_the_text_is_four_times_the_work(kind, settings):
    calls(text_of(kind, 3_000), **settings)  # fills caches
    first = 30_000 if settings else 60_000  # caches do not know the numbers of the other settings
    once = calls(text_of(kind, 10_000, first), **settings)
    assert calls(text_of(kind, 40_000, first + 10_000), **settings) <= 4.6 * once


def test_a_long_document_is_searched_by_its_facts(tmp_path):
    text = " ".join(f"Service{i} delegates task{i} and word{i} to the Provider{i}." for i in range(1_000))
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), chunker=None, progress=False) as index:
        index.add([Document("long", text), Document("short", "Service7 is run by Ada Lovelace.")])
        assert index.verify(), str(index.verify())
        hits = GraphRetriever(index).retrieve("Which provider gets task999 of Service999?").hits
        assert hits[0].chunk.id == "long"


_HUGE = """
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
index = KnowledgeIndex(HashEmbedder(), chunker=None, progress=False)
units = "东京大学研究 アイウエオカ ひらがなの camelCase1Foo abcdefgh ABCD 1234567890 ...... a-1- (a".split()
index.add([Document(str(i), unit * (40_000 // len(unit))) for i, unit in enumerate(units)])
assert index.verify()
"""


def test_text_without_spaces_or_sentences_does_not_hang():
    """With a step for each pair of characters this would take hours."""
    subprocess.run([sys.executable, "-c", _HUGE], check=True, timeout=900)
