"""The same documents give the same results, whatever the order and the detours in which they were added."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mixed_documents import DOCUMENTS, QUESTIONS

from graphrag_core import Chunker, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.result import Trace
from graphrag_core.testing import HashEmbedder

METHODS = ("hybrid", "vector", "keyword", "graph", "agentic")
CHUNKER = Chunker(max_tokens=30, overlap=5, whole_until=40)


def make_index() -> KnowledgeIndex:
    return KnowledgeIndex(HashEmbedder(), chunker=CHUNKER, batch_size=5, embed_names=True)


def answers(index: KnowledgeIndex, where=None) -> dict[tuple[str, str], str]:
    """Everything that each method returns for each question, as text; floats in full."""
    retriever = GraphRetriever(index, k=12, cache=False)
    told = {}
    for question in QUESTIONS[::2]:
        for method in METHODS:
            result = replace(retriever.retrieve(question, method=method, where=where), trace=Trace())
            hits = [(hit.chunk.id, repr(hit.score), result.details(hit)) for hit in result.hits]
            facts = [(fact.id, fact.text, fact.entities) for fact in result.facts]
            told[question, method] = json.dumps([hits, facts, sorted(result.known), result.explain()], indent=1)
    return told


@cache
def expected(team: str | None = None) -> dict[tuple[str, str], str]:
    with make_index() as index:
        index.add(DOCUMENTS)
        return answers(index, {"team": team} if team else None)


def assert_same(found, wanted):
    for key, text in wanted.items():
        assert found[key] == text, key


permutations = st.permutations(range(len(DOCUMENTS)))
detours = st.lists(st.tuples(st.sampled_from(("delete", "change", "foreign")), st.integers(0, 99)), max_size=6)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(permutations, st.integers(1, len(DOCUMENTS)), detours)
@example(list(range(len(DOCUMENTS)))[::-1], 1, [("delete", 0), ("change", 8), ("foreign", 3)])
def test_results_do_not_depend_on_the_order_of_the_documents(order, size, steps):
    """Documents come in batches; in between some are deleted, changed or joined by others that go again."""
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    with make_index() as index:
        for number, batch in enumerate(batches):
            index.add(DOCUMENTS[at] for at in batch)
            for what, at in steps[number :: len(batches)]:
                document = DOCUMENTS[order[at % len(order)]]
                if what == "delete":
                    index.delete([document.id])
                elif what == "change":
                    index.add([replace(document, text=f"Keyring met Lord Byron. {document.text[::-1]}")])
                else:
                    index.add([Document(f"foreign-{at}", f"The Red Fox of Missolonghi wrote to IBM in 18{at:02}.")])
        index.delete([f"foreign-{at}" for _, at in steps])
        index.add(DOCUMENTS[at] for at in reversed(order))  # what is missing or was changed
        assert index.verify(), str(index.verify())
        assert_same(answers(index), expected())
        assert_same(answers(index, {"team": "jobs"}), expected("jobs"))


NAMES = ["Auth Service", "Redis", "Ada Lovelace", "Lord Byron", "IBM", "北京大学", "`kg_store`", "Vienna", "Karl's Bar"]
VERBS = ["trusts", "met", "wrote to", "is part of", "sits in"]
sentences = st.builds("{} {} {}.".format, st.sampled_from(NAMES), st.sampled_from(VERBS), st.sampled_from(NAMES))
sections = st.builds(
    "# {}\n\n{} See [x](d{}).\n\n## {}\n\n{}".format,
    st.sampled_from(NAMES), sentences, st.integers(0, 9), st.sampled_from(NAMES), sentences,
)  # fmt: skip
documents = st.builds(
    Document,
    id=st.integers(0, 99).map("d{}".format),
    text=st.one_of(st.lists(sentences, min_size=1, max_size=6).map(" ".join), sections),
    title=st.sampled_from(["", "", *NAMES[:4]]),
    metadata=st.sampled_from([{"team": "x"}, {"team": "y"}]),
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(documents, min_size=4, max_size=14, unique_by=lambda one: one.id), st.randoms(use_true_random=False))
def test_results_are_equal_to_the_last_bit_for_any_documents(corpus, chance):
    """Sums are taken in the order of keys, which is that of addition: no rounding may let it through."""
    shuffled = chance.sample(corpus, len(corpus))
    with make_index() as one, make_index() as other:
        one.add(corpus)
        other.add(shuffled[: len(corpus) // 2])
        other.delete([document.id for document in chance.sample(corpus, 3)])
        other.add(shuffled)
        for where in (None, {"team": "x"}):
            for question in ("Who met Ada Lovelace in Vienna?", "auth service kg_store", "IBM and 北京大学"):
                for method in METHODS[:-1]:
                    found = [
                        replace(
                            GraphRetriever(index, k=10, cache=False).retrieve(question, method=method, where=where),
                            trace=Trace(),
                        )
                        for index in (one, other)
                    ]
                    assert found[0] == found[1], (question, method, where)


def test_results_are_the_same_on_disk_and_after_reopening(tmp_path):
    documents = random.Random(14).sample(DOCUMENTS, len(DOCUMENTS))
    for start in range(0, len(documents), 9):
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), chunker=CHUNKER, embed_names=True) as index:
            index.add(documents[start : start + 9])
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), read_only=True) as index:
        assert_same(answers(index), expected())
