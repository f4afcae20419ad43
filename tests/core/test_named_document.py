"""A question that names a document gets the passages of that document first."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

SECTIONS = (
    "Account data is stored for two years after the account was closed, then it is deleted.",
    "We share payment data with banks that process a payment. We do not sell it.",
    "Cookies remember the language of a visitor. They are deleted after thirty days.",
    "A visitor may ask which data is stored, and may ask to delete it at any time.",
)


def policy(name: str, years: str) -> Document:
    text = "\n\n".join(f"{section} {section.replace('two', years)}" for section in SECTIONS)
    return Document(f"policies/{name}.txt", "\n\n".join([text] * 9))


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(WordLlama()) as index:
        index.add(
            [policy(name, years) for name, years in (("Zalora", "three"), ("Brightnest", "four"), ("Keep", "six"))]
        )
        index.add([Document("RFC-77", "A packet has a header. " * 200), Document("note", "Brightnest is a shop.")])
        yield index


def test_its_passages_come_first_and_the_result_says_so(index):
    retriever = GraphRetriever(index, cache=False)
    for name in ("Zalora", "Brightnest"):
        result = retriever.retrieve(f"According to {name}, how long is account data stored?", k=6)
        assert {hit.chunk.document_id for hit in result.hits} == {f"policies/{name}.txt"}
        assert result.trust.endswith(f"; it names the document {name}")
    other = retriever.retrieve("How long is account data stored?")
    assert "it names the document" not in other.trust


def test_a_document_outside_the_scope_is_not_named(index):
    with KnowledgeIndex(WordLlama()) as scoped:
        for name, team in (("Zalora", "a"), ("Brightnest", "b")):
            document = policy(name, "three")
            scoped.add([Document(document.id, document.text, metadata={"team": team})])
        question = "According to Zalora, how long is account data stored? See Zalora.txt."
        result = GraphRetriever(scoped, cache=False).retrieve(question, where={"team": "b"})
        assert "it names the document" not in result.trust
        assert all(hit.chunk.metadata["team"] == "b" for hit in result.hits)
