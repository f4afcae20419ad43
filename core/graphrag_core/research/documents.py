"""Findings to documents: one for each paper and each project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.model import Document
from graphrag_core.research.fields import names, number, text, year

_PAPERS = ("academic_papers", "papers")
_PROJECTS = ("github_projects", "projects", "repositories")
_INSIDE = ("findings", "results", "research", "data")
_LABELS = {
    "authors": "By",
    "arxiv_id": "arXiv",
    "venue": "Published in",
    "year": "Year",
    "concepts": "Concepts",
    "topics": "Topics",
    "language": "Written in",
    "implements": "Implements",
    "cites": "Cites",
    "related": "Related",
}
_VERSION = re.compile(r"v\d+$")
_SLUG = re.compile(r"[^\w]+")


def is_findings(value: Any) -> bool:
    """Say whether a value read from JSON has the form of research findings."""
    return any(isinstance(part.get(key), list) for part in _parts(value) for key in (_PAPERS[0], _PROJECTS[0]))


def research_documents(findings: Any) -> list[Document]:
    """Return a document for each paper and project of research findings.

    Parameters
    ----------
    findings
        A mapping with ``academic_papers`` and ``github_projects``, either of which may be
        missing, as may any field but a paper's title (or arXiv id) and a project's name. A
        list of such mappings will do, and one that holds them under ``findings``.

    The metadata say who wrote a paper, what it cites and which concepts it introduces, what a
    project is about and how many stars it has; :class:`FindingsExtractor` makes facts of them.

    Raises
    ------
    InputError
        Nothing in the value has this form.
    """
    parts = _parts(findings)
    if not parts:
        raise InputError("these are no research findings: an object with 'academic_papers' or 'github_projects' is")
    papers = [entry for part in parts for entry in _entries(part, _PAPERS)]
    projects = [entry for part in parts for entry in _entries(part, _PROJECTS)]
    titles = {_arxiv(entry): text(entry, "title") for entry in papers if _arxiv(entry) and text(entry, "title")}
    made = [_paper(entry, titles) for entry in papers] + [_project(entry, titles) for entry in projects]
    unique: dict[str, Document] = {}
    for document in made:
        if document is not None:
            unique.setdefault(document.id, document)
    return list(unique.values())


def _parts(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list):
        return [part for item in value for part in _parts(item)]
    if not isinstance(value, Mapping):
        return []
    if any(isinstance(value.get(key), list) for key in (*_PAPERS, *_PROJECTS)):
        return [value]
    return [part for key in _INSIDE for part in _parts(value.get(key))]


def _entries(part: Mapping[str, Any], keys: Iterable[str]) -> list[Mapping[str, Any]]:
    return [entry for key in keys for entry in part.get(key) or () if isinstance(entry, Mapping)]


def _arxiv(entry: Mapping[str, Any]) -> str:
    found = text(entry, "arxiv_id", "arxiv", "arxivId").removeprefix("arXiv:").rsplit("/abs/", 1)[-1]
    return _VERSION.sub("", found)


def _paper(entry: Mapping[str, Any], titles: Mapping[str, str]) -> Document | None:
    arxiv = _arxiv(entry)
    title = text(entry, "title", "name") or (f"arXiv {arxiv}" if arxiv else "")
    if not title:
        return None
    identity = f"arxiv:{arxiv}" if arxiv else f"paper:{text(entry, 'doi') or _slug(title)}"
    metadata = _known(
        finding="paper",
        arxiv_id=arxiv,
        doi=text(entry, "doi"),
        url=text(entry, "url", "pdf_url", "link"),
        year=year(entry),
        venue=text(entry, "venue", "journal", "conference"),
        authors=names(entry, "authors", "author"),
        concepts=names(entry, "key_concepts", "concepts", "introduces", "keywords", "contributions_concepts"),
        topics=names(entry, "topics", "categories", "tags"),
        cites=_resolved(names(entry, "citations", "references", "cites", "cited_papers"), titles),
        related=_resolved(names(entry, "related", "related_papers", "related_projects"), titles),
        citation_count=number(entry, "citation_count", "citations", "cited_by_count"),
    )
    body = text(entry, "abstract", "summary", "description", "content")
    return Document(identity, _words(title, body, metadata), title, metadata)


def _project(entry: Mapping[str, Any], titles: Mapping[str, str]) -> Document | None:
    name = text(entry, "full_name", "name", "repo", "title")
    if not name:
        return None
    metadata = _known(
        finding="project",
        url=text(entry, "url", "html_url", "homepage"),
        year=year(entry),
        language=text(entry, "language"),
        licence=text(entry, "license", "licence"),
        stars=number(entry, "stars", "stargazers_count", "star_count"),
        authors=names(entry, "authors", "author", "owner", "maintainers"),
        concepts=names(entry, "key_concepts", "concepts", "patterns", "features"),
        topics=names(entry, "topics", "tags", "keywords"),
        implements=_resolved(names(entry, "implements", "papers", "arxiv_ids", "paper"), titles),
        related=_resolved(names(entry, "related", "related_papers", "related_projects", "dependencies"), titles),
    )
    body = text(entry, "description", "summary", "readme", "abstract")
    return Document(f"project:{name}", _words(name, body, metadata), name, metadata)


def _resolved(references: list[str], titles: Mapping[str, str]) -> list[str]:
    """Return references by title where the findings hold the paper, else as they are written."""
    return [
        titles.get(_VERSION.sub("", name.removeprefix("arXiv:").removeprefix("arxiv:")), name) for name in references
    ]


def _known(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None, [])}


def _words(title: str, body: str, metadata: Mapping[str, Any]) -> str:
    """Return a text in which every name and number can be found by its words."""
    lines = [f"# {title}", body]
    said = []
    for key, label in _LABELS.items():
        if (value := metadata.get(key)) is not None:
            said.append(f"{label}: {', '.join(value) if isinstance(value, list) else value}.")
    return "\n\n".join(line for line in (*lines, "\n".join(said)) if line)


def _slug(title: str) -> str:
    return _SLUG.sub("-", title.casefold()).strip("-")[:80]
