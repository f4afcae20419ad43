"""Real passages, where they lie beside the repository."""

from __future__ import annotations

import json

from support import keyword_search

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama


def passages(shared, name):
    for line in (shared / "data" / name / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield Document(row["id"], row["text"], row["title"], {"triples": row.get("triples", [])})


def test_chinese_is_found_by_keyword(shared):
    lines = (shared / "data/xquad_zh/questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    with KnowledgeIndex(WordLlama(), embed_names=False) as index:
        index.add(passages(shared, "xquad_zh"))
        found = 0
        for question in questions:
            hits = keyword_search(index, question["question"], 5)
            found += question["gold"][0] in {chunk.document_id for chunk, _ in hits}
        assert found / len(questions) >= 0.97
