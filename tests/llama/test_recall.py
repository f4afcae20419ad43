"""On a real dataset the adapter ranks as the core does, question by question."""

from __future__ import annotations

import json

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import TextNode
from llama_support import ids

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from llama_graphrag import GraphRAGRetriever

QUESTIONS, DISTRACTORS = 60, 700  # benchmarks/adapters.py uses the whole dataset


class Words(BaseEmbedding):
    """WordLlama as a LlamaIndex embedding like any other."""

    _model: WordLlama = PrivateAttr(default_factory=WordLlama)

    def _get_query_embedding(self, query):
        return self._model.embed_query(query).tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts):
        return self._model.embed_documents(texts).tolist()


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def recall(ranked: list[str], gold: list[str]) -> float:
    return len(set(gold) & set(ranked[:5])) / len(gold)


def test_recall_through_the_adapter_is_the_cores(shared):
    folder = shared / "data" / "2wiki_train"
    if not folder.is_dir():
        pytest.skip("2wiki_train is not beside the repository")
    corpus, questions = read(folder / "corpus.jsonl"), read(folder / "questions.jsonl")[:QUESTIONS]
    gold = {name for row in questions for name in row["gold"]}
    corpus = [row for number, row in enumerate(corpus) if number < DISTRACTORS or row["id"] in gold]
    nodes = [TextNode(id_=row["id"], text=row["text"], metadata={"title": row["title"]}) for row in corpus]
    documents = [Document(row["id"], row["text"], row["title"]) for row in corpus]
    with (
        KnowledgeIndex(WordLlama(), chunker=None, embed_facts=False, embed_names=False) as index,
        GraphRAGRetriever.from_nodes(nodes, Words(embed_batch_size=1_000)) as retriever,
    ):
        index.add(documents)
        core, both = GraphRetriever(index), []
        for row in questions:
            expected = [hit.chunk.document_id for hit in core.retrieve(row["question"]).hits]
            found = ids(retriever.retrieve(row["question"]))
            assert found == expected, row["question"]
            both.append((recall(found, row["gold"]), recall(expected, row["gold"])))
    assert sum(a for a, _ in both) == sum(b for _, b in both)
    assert sum(a for a, _ in both) / len(both) > 0.9
