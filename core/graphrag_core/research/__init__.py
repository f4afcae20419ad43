"""Index research findings (papers and projects in JSON) as documents with typed entities and facts.

Import from here: ``research_documents``, ``is_findings`` and ``FindingsExtractor``. An index adds findings with
their entities and facts in one call, ``index.add_research_findings(findings)``.

>>> findings = {"academic_papers": [{"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory."}],
...             "github_projects": [{"name": "langchain-ai/langgraph", "description": "Agents as graphs."}]}
>>> [document.id for document in research_documents(findings)]
['arxiv:2501.03236', 'project:langchain-ai/langgraph']
"""

from graphrag_core.research.findings import FindingsExtractor, is_findings, research_documents

__all__ = ["FindingsExtractor", "is_findings", "research_documents"]
