"""Research findings: papers, projects, concepts, authors and citations as typed entities and facts."""

from __future__ import annotations

import json

import pytest

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.research import is_findings, research_documents
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


def test_a_paper_is_known_by_its_arxiv_id_and_a_project_without_its_owner(index):
    assert index.graph.entity("2501.03236").name == "MAGMA Memory"
    assert index.graph.entity("langgraph").name == "langchain-ai/langgraph"


def test_documents_carry_what_a_filter_needs(index):
    paper = index.get("arxiv:2501.03236")
    assert (paper.metadata["finding"], paper.metadata["year"]) == ("paper", 2025)
    assert index.get("arxiv:2404.16130").metadata["citation_count"] == 412
    assert index.get("project:langchain-ai/langgraph").metadata["stars"] == 12_300
    hits = GraphRetriever(index).retrieve("semantic memory", where={"stars": {"gte": 1_000}}).hits
    assert [hit.chunk.document_id for hit in hits] == ["project:langchain-ai/langgraph"]


def test_a_concept_leads_from_a_project_to_the_paper_that_introduces_it(index):
    result = GraphRetriever(index).retrieve("Which projects use what MAGMA Memory introduces?", method="graph")
    assert "project:langchain-ai/langgraph" in [hit.chunk.document_id for hit in result.hits[:3]]


@pytest.mark.parametrize(
    "findings",
    [
        {"academic_papers": [{"title": "Only a title"}]},
        {"academic_papers": [{"arxiv_id": "1234.56789"}]},
        {"github_projects": [{"name": "x"}], "academic_papers": None},
        {"academic_papers": [{"title": "T", "authors": None, "citations": {}, "concepts": 3}, {}, "no", None]},
        [{"academic_papers": [{"title": "In a list"}]}],
        {"findings": {"academic_papers": [{"title": "Inside"}]}},
        {"academic_papers": [{"title": "Twice"}, {"title": "Twice"}]},
    ],
)
def test_missing_and_odd_fields_are_tolerated(findings):
    assert is_findings(findings)
    (document,) = research_documents(findings)
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        assert index.add([document]).added == 1


@pytest.mark.parametrize("value", [{}, [], None, "text", {"papers": "no list"}, {"documents": [{"title": "x"}]}])
def test_what_has_no_findings_is_refused(value):
    assert not is_findings(value)
    with pytest.raises(InputError, match="no research findings"):
        research_documents(value)


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


def test_a_paper_of_two_files_stays_until_both_have_lost_it(run, tmp_path):
    papers = [{"arxiv_id": f"2501.0323{n}", "title": f"Paper {n}", "abstract": f"About theme {n}."} for n in range(3)]
    files = [tmp_path / "papers" / name for name in ("a.json", "b.json")]
    files[0].parent.mkdir()
    files[0].write_text(json.dumps({"academic_papers": papers[:2]}))
    files[1].write_text(json.dumps({"academic_papers": papers[1:]}))

    def index():
        shown = run("index", "papers", "--embedder", "hash").stdout
        with KnowledgeIndex.open("kb", HashEmbedder(), read_only=True) as found:
            return shown.partition(":")[0], [one.removeprefix("arxiv:2501.0323") for one in found.document_ids()]

    assert index() == ("3 added, 0 changed, 0 removed, 0 unchanged", ["0", "1", "2"])
    assert index() == ("0 added, 0 changed, 0 removed, 3 unchanged", ["0", "1", "2"])
    files[0].write_text(json.dumps({"academic_papers": papers[:1]}))
    assert index()[1] == ["0", "1", "2"]
    files[0].unlink()
    assert index() == ("0 added, 0 changed, 1 removed, 2 unchanged", ["1", "2"])
    files[1].write_text(json.dumps({"academic_papers": papers[2:]}))
    assert index()[1] == ["2"]
