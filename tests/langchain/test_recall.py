"""The adapter has the recall of the core."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document

from graphrag_core import Chunker, GraphRetriever, KnowledgeIndex
from graphrag_core import Document as CoreDocument
from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever

QUESTIONS, DISTRACTORS = 60, 700  # benchmarks/adapters.py uses the whole dataset


@pytest.mark.parametrize(
    ("settings", "chunker"),
    [({"chunker": None}, None), ({}, Chunker(long_only=True))],
    ids=["whole", "long split"],
)
async def test_on_2wiki_it_equals_the_cores(shared, settings, chunker):
    folder = shared / "data" / "2wiki_train"
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()][:QUESTIONS]
    gold = {name for row in questions for name in row["gold"]}
    corpus = [row for number, row in enumerate(corpus) if number < DISTRACTORS or row["id"] in gold]
    documents = [Document(id=row["id"], page_content=row["text"], metadata={"title": row["title"]}) for row in corpus]
    with (
        KnowledgeIndex(WordLlama(), chunker=chunker) as index,
        GraphRAGRetriever.from_documents(documents, WordLlama(), k=10, **settings) as retriever,
    ):
        index.add(CoreDocument(row["id"], row["text"], row["title"]) for row in corpus)
        core = GraphRetriever(index, k=10)
        answers = await retriever.abatch([row["question"] for row in questions], {"max_concurrency": 4})
        recall = {"core": 0.0, "adapter": 0.0}
        for row, answer in zip(questions, answers, strict=True):
            expected = [hit.chunk.id for hit in core.retrieve(row["question"]).hits]
            found = [document.id for document in answer]
            assert found == expected
            wanted = set(row["gold"])
            recall["core"] += len(wanted & {name.partition("#")[0] for name in expected[:5]}) / len(wanted)
            recall["adapter"] += len(wanted & {name.partition("#")[0] for name in found[:5]}) / len(wanted)
        assert recall["adapter"] == recall["core"] > 0.9 * len(questions)
