"""Real passages, where they lie beside the repository."""

from __future__ import annotations

import json

from support import keyword_search

from graphrag_core import Combined, Document, KnowledgeExtractor, KnowledgeIndex, SentenceExtractor
from graphrag_core.embedders import WordLlama


def passages(shared, name):
    for line in (shared / "data" / name / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield Document(row["id"], row["text"], row["title"], {"triples": row.get("triples", [])})


def test_every_page_of_musique_indexes_with_its_triples(shared):
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples"))
    with KnowledgeIndex(WordLlama(), extractor=extractor) as index:
        assert index.add(passages(shared, "musique_train")).added == 1_890
        stats = index.stats()
        assert stats.chunks == 1_890, "passages stay whole"
        assert sum(stats.relations.values()) > 15_000
        assert index.verify(), str(index.verify())
        apa = [e.name for e, _ in index.graph.neighbours("Journal of Psychotherapy Integration")]
        assert "American Psychological Association" in apa


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
