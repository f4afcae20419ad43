"""LangChain's document compressors, and rerankers of the core, as the retriever's reranker."""

from __future__ import annotations

import re
from copy import deepcopy

from langchain_classic.retrievers.document_compressors import (
    CrossEncoderReranker,
)
from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document

from graphrag_core import GraphRetriever
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def overlap(question: str, text: str) -> float:
    return len(words(question) & words(text)) - len(text) / 1_000


class Overlap(BaseCrossEncoder):
    """A model that scores by common words."""

    def __init__(self):
        self.pairs = []

    def score(self, text_pairs):
        self.pairs.append(list(text_pairs))
        return [overlap(*pair) for pair in text_pairs]


class Copies(BaseDocumentCompressor):
    """Returns copies with a score and without an id, as the packages of Cohere and FlashRank do."""

    top_n: int = 3
    sign: int = 1

    def compress_documents(self, documents, query, callbacks=None):
        scored = [(self.sign * overlap(query, document.page_content), document) for document in documents]
        scored.sort(key=lambda pair: -pair[0])
        return [
            Document(
                page_content=document.page_content,
                metadata={"id": 7, **deepcopy(document.metadata), "relevance_score": score},
            )
            for score, document in scored[: self.top_n]
        ]


def by_overlap(question, texts):
    return [overlap(question, text) for text in texts]


class TestACompressor:
    def test_orders_what_coverage_found(self, documents):
        model = Overlap()
        with GraphRAGRetriever.from_documents(
            documents, HashEmbedder(), reranker=CrossEncoderReranker(model=model, top_n=20)
        ) as retriever:
            found = retriever.search(QUESTION, k=2)
            covered = GraphRetriever(retriever.index).retrieve(QUESTION, k=5)
            assert [text.split("\n")[-1] for _, text in model.pairs[0]] == [hit.chunk.text for hit in covered]
            expected = GraphRetriever(retriever.index, reranker=by_overlap).retrieve(QUESTION, k=2)
            assert [hit.chunk.id for hit in found] == [hit.chunk.id for hit in expected]
            assert [hit.score for hit in found] == [1, 1 / 2], "it does not tell its scores"
            assert found.hits[0].channels == expected.hits[0].channels
            assert found.hits[0].path == expected.hits[0].path

    def test_of_which_the_score_is_known_gives_it_to_the_document(self, documents):
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), reranker=Copies(top_n=20)) as retriever:
            found = retriever.search(QUESTION, k=4)
            expected = GraphRetriever(retriever.index, reranker=by_overlap).retrieve(QUESTION, k=4)
            assert [(h.chunk.id, h.score) for h in found] == [(h.chunk.id, h.score) for h in expected]
            assert retriever.invoke(QUESTION)[0].metadata.keys() == documents[0].metadata.keys()
