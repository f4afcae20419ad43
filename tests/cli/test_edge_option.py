"""``index --edge``: documents that are linked by their metadata."""

from __future__ import annotations

import json

from graphrag_core import KnowledgeIndex


def test_edges_are_stored_and_kept(run, tmp_path):
    rows = [
        {"id": "a", "title": "Kestrels", "text": "Kestrels hover.", "author": "Mara Lindqvist", "links": ["b"]},
        {"id": "b", "title": "Ferns", "text": "Ferns spread by spores.", "author": "Rosa Millan"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    base = ("index", file, "--kb", "kb", "--embedder", "none")
    assert run(*base, "--edge", "author:author", "--edge", "links:$id").exit_code == 0
    with KnowledgeIndex.open("kb") as index:
        assert index.edges == (("author", "author"), ("links", "$id"))
        assert index.graph.entity("Mara Lindqvist").type == "author"
        linked = [fact.text for fact in index.graph.facts("Kestrels") if fact.relation == "links"]
        assert linked == ["Kestrels links: Ferns"]
    assert run(*base).exit_code == 0
    with KnowledgeIndex.open("kb") as index:
        assert len(index.edges) == 2
    other = run(*base, "--edge", "author")
    assert other.exit_code != 0
    assert "leave edges out" in other.stderr
