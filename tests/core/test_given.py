"""What the caller knows already: vectors made before, entities and relations read elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphrag_core import (
    Document,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
)
from graphrag_core.errors import DocumentError
from graphrag_core.testing import ExtractorSuite, HashEmbedder


class Paid(HashEmbedder):
    """Counts the texts it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed_documents(self, texts):
        self.texts.extend(texts)
        return super().embed_documents(texts)


DOCUMENTS = [Document("a", "A red fox."), Document("b", "A grey wolf."), Document("c", "A red fox.")]


def vector(text: str) -> list[float]:
    return [3.0 * number for number in HashEmbedder().embed_query(text).tolist()]


def test_a_document_whose_vector_is_given_is_not_embedded():
    embedder = Paid()
    with KnowledgeIndex(embedder, chunker=None) as index:
        index.add(DOCUMENTS, vectors={"a": vector("A red fox."), "b": vector("A grey wolf."), "elsewhere": [1.0]})
        assert embedder.texts == ["A red fox."], "only c came without a vector"
        assert index.verify()
        hits = GraphRetriever(index).retrieve("grey wolf", method="vector").hits
        scores = {hit.chunk.id: hit.channels["vector"].score for hit in hits}
        assert scores["b"] == pytest.approx(
            float(np.dot(*map(HashEmbedder().embed_query, ["grey wolf", "A grey wolf."]))),
            abs=0.002,
        )


def test_documents_of_the_same_words_keep_vectors_of_their_own():
    with KnowledgeIndex(Paid(), chunker=None) as index:
        index.add(DOCUMENTS, vectors={"a": vector("north"), "c": vector("south")})
        assert GraphRetriever(index).retrieve("south", method="vector", k=1).hits[0].chunk.id == "c"
        assert GraphRetriever(index).retrieve("north", method="vector", k=1).hits[0].chunk.id == "a"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([1.0, 2.0], "dimension 2, the index has dimension 64"),
        ([math.nan] * 64, "finite"),
        ([[1.0] * 64], "shape"),
        ([], "shape"),
        (["x"] * 64, "1-D array of numbers"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused_with_its_document(given, problem):
    with KnowledgeIndex(Paid(), chunker=None) as index:
        index.add(DOCUMENTS[:1])
        with pytest.raises(DocumentError, match=problem) as caught:
            index.add(DOCUMENTS[1:], vectors={"b": given})
        assert caught.value.document_id == "b"
        assert len(index) == 1, "nothing of the batch was indexed"


def test_the_first_vector_decides_the_dimension_for_the_embedder_too():
    with KnowledgeIndex(Paid(), chunker=None) as index:
        with pytest.raises(Exception, match="dimension 64, the index has 2"):
            index.add(DOCUMENTS, vectors={"a": [1.0, 0.0]})
        assert index.add(DOCUMENTS).added == 3, "the failed call left no dimension behind"


def test_a_document_that_is_cut_cannot_come_with_a_vector():
    with KnowledgeIndex(Paid()) as index, pytest.raises(DocumentError, match="cut into"):
        index.add([Document("long", "Many words of one sentence. " * 400)], vectors={"long": vector("many")})


KNOWN = {
    "entities": [{"name": "Keyring", "type": "Vendor", "description": "A company."}, {"type": "nameless"}],
    "relations": [
        {"source": "OAuth Provider", "type": "rests_on", "target": "Keyring"},
        {"source": "Keyring", "type": "sits_in", "target": "Tallinn", "strength": 4, "description": "Since 2011."},
    ],
}


class TestKnowledgeExtractor(ExtractorSuite):
    def make(self):
        return KnowledgeExtractor(knowledge={"1": KNOWN})


@pytest.mark.parametrize(
    ("extractor", "metadata"),
    [
        (KnowledgeExtractor(), {"knowledge": KNOWN}),
        (KnowledgeExtractor(key="graph"), {"graph": KNOWN}),
        (KnowledgeExtractor(knowledge={"oauth": KNOWN}), {}),
        (KnowledgeExtractor(knowledge=lambda chunk: KNOWN if chunk.id == "oauth" else None), {}),
    ],
)
def test_ready_knowledge_becomes_typed_entities_and_facts(extractor, metadata):
    with KnowledgeIndex(HashEmbedder(), extractor=extractor) as index:
        index.add([Document("oauth", "A thin layer.", metadata=metadata), Document("other", "Nothing known.")])
        keyring = index.graph.entity("keyring")
        assert (keyring.type, keyring.description) == ("vendor", "A company.")
        facts = {fact.relation: fact for fact in index.graph.facts("Keyring")}
        assert (facts["rests_on"].weight, facts["rests_on"].text) == (10.0, "OAuth Provider rests on Keyring")
        assert (facts["sits_in"].weight, facts["sits_in"].text) == (4.0, "Since 2011.")
        index.delete("oauth")
        assert index.graph.entity("keyring") is None


def test_changed_knowledge_is_read_again_and_the_same_is_not():
    def document(kind):
        known = {"entities": [{"name": "Keyring", "type": kind}], "relations": []}
        return Document("1", "About Keyring.", metadata={"knowledge": known})

    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor()) as index:
        index.add([document("vendor")])
        assert index.add([document("vendor")]).unchanged == 1
        assert index.add([document("company")]).replaced == 1
        assert index.graph.entity("Keyring").type == "company"
