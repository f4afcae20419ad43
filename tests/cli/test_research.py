"""Research findings: papers, projects, concepts, authors and citations as typed entities and facts."""

from __future__ import annotations

import json

import pytest

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.research import research_documents
from graphrag_core.testing import HashEmbedder

FINDINGS = {
    "academic_papers": [
        {
            "arxiv_id": "2501.03236v2",
            "title": "MAGMA Memory",
            "abstract": "A memory of four graphs for agents that work for a long time.",
            "authors": ["Ada Chen", {"name": "Luis Ortega"}],
            "key_concepts": ["semantic memory"],
            "citations": ["2404.16130", "2005.11401"],
            "published": "2025-01-07",
        },
        {
            "arxiv_id": "2404.16130",
            "title": "From Local to Global",
            "abstract": "Communities of a graph are summarised before any question comes.",
            "authors": "Ada Chen, Tim Ruiz and Jo Park",
            "concepts": ["community summary"],
            "citations": 412,
        },
    ],
    "github_projects": [
        {
            "name": "langchain-ai/langgraph",
            "description": "Agents as graphs, with checkpoints.",
            "url": "https://example.org/langgraph",
            "stars": "12,300",
            "topics": ["orchestration", "semantic memory"],
            "papers": ["2501.03236"],
            "language": "Python",
        },
    ],
}


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(research_documents(FINDINGS))
        yield index


def facts(index, name):
    return {(fact.relation, fact.entities) for fact in index.graph.facts(name) if fact.relation}


def test_papers_projects_people_and_concepts_are_typed(index):
    kinds = {
        "MAGMA Memory": "paper",
        "langchain-ai/langgraph": "project",
        "Ada Chen": "person",
        "semantic memory": "concept",
        "Python": "language",
        "2005.11401": "paper",
    }
    assert {name: index.graph.entity(name).type for name in kinds} == kinds
    assert index.verify()


def test_relations_join_them(index):
    assert facts(index, "MAGMA Memory") == {
        ("authored_by", ("magma memory", "ada chen")),
        ("authored_by", ("magma memory", "luis ortega")),
        ("cites", ("magma memory", "from local to global")),
        ("cites", ("magma memory", "2005 11401")),
        ("introduces", ("magma memory", "semantic memory")),
        ("implements", ("langchain ai langgraph", "magma memory")),
    }
    assert ("authored_by", ("from local to global", "jo park")) in facts(index, "From Local to Global")
    assert ("relates_to", ("langchain ai langgraph", "orchestration")) in facts(index, "langgraph")
    assert ("written_in", ("langchain ai langgraph", "python")) in facts(index, "Python")


def test_a_concept_leads_from_a_project_to_the_paper_that_introduces_it(index):
    result = GraphRetriever(index).retrieve("Which projects use what MAGMA Memory introduces?", method="graph")
    assert "project:langchain-ai/langgraph" in [hit.chunk.document_id for hit in result.hits[:3]]


# -- on the command line


def test_findings_are_indexed_and_synced_like_files(run, tmp_path):
    (tmp_path / "findings.json").write_text(json.dumps(FINDINGS))
    result = run("index", "findings.json")
    assert result.exit_code == 0
    assert "3 added" in result.stdout
    stats = json.loads(run("stats", "--json").stdout)
    assert {"authored_by", "cites", "introduces", "implements", "relates_to"} <= set(stats["relations"])
    assert "3 unchanged" in run("index", ".").stdout, "a folder that holds findings reads them as findings"
    answer = json.loads(run("query", "Which papers cite From Local to Global?", "--method", "agentic", "--json").stdout)
    assert answer["method"] == "graph"
    assert answer["hits"][0]["document_id"] == "arxiv:2404.16130"
    assert "arxiv:2501.03236" in [hit["document_id"] for hit in answer["hits"]]
    call = ("query", "arXiv 2501.03236", "--method", "agentic", "--json")
    assert json.loads(run(*call, "--design", "research").stdout)["method"] == "vector", "as the document says"
    assert json.loads(run(*call).stdout)["method"] == "keyword"
