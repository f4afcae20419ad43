"""The calls of the retrieval system's document (004) on the command line."""

from __future__ import annotations

import json

import pytest

FINDINGS = {
    "academic_papers": [
        {
            "arxiv_id": "2501.03236",
            "title": "MAGMA Memory",
            "abstract": "A memory of four graphs for agents.",
            "concepts": ["semantic memory"],
            "citations": ["2404.16130"],
            "year": 2025,
        },
        {
            "arxiv_id": "2404.16130",
            "title": "From Local to Global",
            "abstract": "Multi-agent timeout mechanisms and citation networks.",
            "concepts": ["citation network"],
        },
    ],
    "github_projects": [
        {
            "name": "langchain-ai/langgraph",
            "description": "LangGraph vs CrewAI: agents as graphs.",
            "topics": ["orchestration patterns"],
            "papers": ["2501.03236"],
        }
    ],
}
FILE = "research_data/academic_research_output.json"


@pytest.fixture(params=["wordllama", "none", "hash"])
def embedder(request, tmp_path, run):
    (tmp_path / "research_data").mkdir()
    (tmp_path / FILE).write_text(json.dumps(FINDINGS))
    assert run("index", FILE, "--embedder", request.param).exit_code == 0
    return request.param


@pytest.mark.parametrize(
    ("query", "method", "first"),
    [
        ("multi-agent timeout mechanisms", "agentic", "arxiv:2404.16130"),
        ("LangGraph vs CrewAI", "vector", "project:langchain-ai/langgraph"),
        ("citation network", "graph", "arxiv:2404.16130"),
    ],
)
def test_the_calls_of_the_document(run, embedder, query, method, first):
    call = ("query", query, "--design", "research", "--method", method)
    shown = run(*call)
    answer = json.loads(run(*call, "--json").stdout)
    assert shown.exit_code == 0
    assert answer["hits"][0]["document_id"] == first
    assert answer["method"] == ("hybrid" if method == "agentic" else method)


def test_statistics(run, embedder):
    stats = json.loads(run("stats", "--json").stdout)
    assert stats["documents"] == 3
    assert stats["relations"] == {"cites": 1, "implements": 1, "introduces": 2, "relates_to": 1}
    shown = run("stats").stdout
    assert ("vectors         none" in shown) == (embedder == "none")
    names = {top["name"] for top in stats["top_entities"]}
    assert not names & {"arXiv", "Year"}


@pytest.mark.parametrize("embedder", ["hash"], indirect=True)
def test_the_routing_rules_of_the_document_are_one_option_away(run, embedder):
    call = ("query", "arXiv 2501.03236", "--method", "agentic", "--json")
    published = json.loads(run(*call, "--design", "research").stdout)
    assert published["method"] == "vector"  # the document: "arxiv" in query -> VECTOR
    assert json.loads(run(*call).stdout)["method"] == "keyword"
