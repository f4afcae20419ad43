"""Answers do not depend on how an index came to be: bit by bit the same from base, segments and parts."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

NAMES = ["Auth Service", "OAuth Provider", "Mara Lindqvist", "Keyring", "Ledger", "Uppsala", "Harbour Team"]
QUESTIONS = ["Who runs the Keyring in Uppsala?", "the Ledger of Mara Lindqvist", '"Auth Service" tokens', "harbour"]


def document(number: int) -> Document:
    first, second, third = (NAMES[(number * step) % len(NAMES)] for step in (1, 3, 5))
    text = (
        f"{first} trusts {second} since {1990 + number % 9}. Later {third} asked {first} for tokens of kind {number}."
    )
    return Document(f"d{number:03}", text, first if number % 4 else "", {"part": number % 3})


def answers(index: KnowledgeIndex) -> list[object]:
    retriever, found = GraphRetriever(index, cache=None), list[object]()
    for question in QUESTIONS:
        for method in ("keyword", "vector", "graph", "hybrid"):
            for where in (None, {"part": 1}):
                hits = retriever.retrieve(question, k=8, method=method, where=where).hits
                found.append([(hit.chunk.id, hit.score) for hit in hits])
    entities = index.graph.entities(limit=20, where={"part": {"in": [0, 2]}})
    found.append([(entity.id, entity.mentions) for entity in entities])
    return found


def change(index: KnowledgeIndex) -> None:
    index.delete([f"d{number:03}" for number in range(0, 60, 7)])
    index.add([document(number) for number in range(60, 90)])
    index.add([Document("d001", "The Keyring left the Harbour Team for Uppsala.")])
    index.graph.rename("Harbour Team", "Port Team")


@pytest.fixture(scope="module")
def expected():
    with KnowledgeIndex(WordLlama(), progress=False) as index:
        index.add([document(number) for number in range(60)])
        change(index)
        assert index.verify(), str(index.verify())
        return answers(index)


def test_one_by_one(expected):
    with KnowledgeIndex(WordLlama(), progress=False) as index:
        for number in range(60):
            index.add([document(number)])
        change(index)
        assert answers(index) == expected
        index.rebuild()
        assert answers(index) == expected
        assert index.verify(), str(index.verify())


def test_from_a_base_that_lacks_the_last_changes(expected, tmp_path):
    with KnowledgeIndex.open(tmp_path, WordLlama(), progress=False) as index:
        index.add([document(number) for number in range(40)])
        index.rebuild()
        index.add([document(number) for number in range(40, 60)])
        with KnowledgeIndex.open(tmp_path, WordLlama(), read_only=True) as reader:
            change(index)
            assert answers(index) == expected
            assert answers(reader) == expected
            assert index.erase() in (True, False)
            assert answers(index) == expected
    with KnowledgeIndex.open(tmp_path, WordLlama(), read_only=True) as reader:
        assert answers(reader) == expected
        assert reader.verify(), str(reader.verify())


def test_an_explanation_that_is_read_after_a_new_base_has_the_same_paths(tmp_path):
    with KnowledgeIndex.open(tmp_path, WordLlama(), progress=False) as index:
        index.add([document(number) for number in range(40)])
        index.delete([document(number).id for number in range(5)])
        retriever = GraphRetriever(index, cache=False)
        at_once, later = retriever.retrieve(QUESTIONS[0], explain=True), retriever.retrieve(QUESTIONS[0])
        assert index.erase()
        assert later.facts[:2] == at_once.facts[:2]
        assert [hit.path for hit in later.hits] == [hit.path for hit in at_once.hits]
