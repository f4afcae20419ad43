"""Research findings (papers and projects in JSON) as documents with typed entities and facts.

An index adds them in one call, ``index.add_research_findings(findings)``.

>>> findings = {"academic_papers": [{"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory."}],
...             "github_projects": [{"name": "langchain-ai/langgraph", "description": "Agents as graphs."}]}
>>> [document.id for document in research_documents(findings)]
['arxiv:2501.03236', 'project:langchain-ai/langgraph']
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention
from graphrag_core.text import normalise

FINDING = "finding"
"""The metadata key of research findings: ``"paper"`` or ``"project"``."""

FINDINGS = "findings 2"
"""The identity of what is extracted from them."""

_PAPERS, _PROJECTS = "academic_papers", "github_projects"
_LABELS = {
    "authors": "By", "arxiv_id": "arXiv", "venue": "Published in", "year": "Year", "concepts": "Concepts",
    "topics": "Topics", "language": "Written in", "implements": "Implements", "cites": "Cites", "related": "Related",
}  # fmt: skip
_PREFIXES = tuple(f"{label}: " for label in _LABELS.values())
_KINDS = ("paper", "project")
_ARXIV = re.compile(
    r"(?:(?:https?://)?(?:www\.)?arxiv\.org/(?:abs|pdf)/|arxiv:\s*)?"
    r"(\d{4}\.\d{4,5}|[a-z-]+(?:\.[a-z]{2})?/\d{7})(?:v\d+)?(?:\.pdf)?", re.IGNORECASE,
)  # fmt: skip
_SEPARATOR = re.compile(r"\s*[;,]\s*(?:and\s+)?|\s+and\s+")
_NAME_KEYS = ("name", "title", "full_name", "arxiv_id")
_YEAR = re.compile(r"(?:19|20)\d\d")

# Metadata key: relation, type of the other entity (empty: the type of the document), weight, and the fact's text.
_RELATIONS = {
    "authors": ("authored_by", "person", 8.0, "{subject} was written by {other}."),
    "cites": ("cites", "paper", 8.0, "{subject} cites {other}."),
    "implements": ("implements", "paper", 9.0, "{subject} implements {other}."),
    "concepts": ("introduces", "concept", 8.0, "{subject} introduces {other}."),
    "topics": ("relates_to", "concept", 5.0, "{subject} is about {other}."),
    "related": ("relates_to", "", 5.0, "{subject} is related to {other}."),
    "language": ("written_in", "language", 4.0, "{subject} is written in {other}."),
    "venue": ("published_in", "venue", 3.0, "{subject} was published in {other}."),
}


def is_finding(document: Document | Chunk) -> bool:
    """Return whether a document, or the document of a chunk, is a paper or a project of research findings."""
    return document.metadata.get(FINDING) in _KINDS


def is_findings(value: Any) -> bool:
    """Return whether a value parsed from JSON has the form of research findings."""
    return bool(_parts(value))


def research_documents(findings: Any) -> list[Document]:
    """Return a document for each paper and project in research findings, without duplicates.

    The metadata holds a paper's authors, citations and concepts, and a project's topics, stars
    and papers. Every index turns them into facts, whatever its extractor
    (:meth:`KnowledgeIndex.add_research_findings <graphrag_core.KnowledgeIndex.add_research_findings>`).

    ``findings`` is a mapping with ``academic_papers`` or ``github_projects`` or both; a list of such
    mappings; or a mapping with one of these under ``findings``. Anything else is an
    :class:`InputError`. A paper needs only a title or an arXiv id, a project only a name.
    """
    parts = _parts(findings)
    if not parts:
        raise InputError("no research findings: expected an object with 'academic_papers' or 'github_projects'")
    papers, projects = (
        [entry for part in parts for entry in part.get(key) or () if isinstance(entry, Mapping)]
        for key in (_PAPERS, _PROJECTS)
    )
    named = ((_bare_arxiv(_text(entry, "arxiv_id")), _text(entry, "title")) for entry in papers)
    titles = {arxiv: title for arxiv, title in named if arxiv and title}
    made = [_document("paper", entry, titles) for entry in papers]
    made += [_document("project", entry, titles) for entry in projects]
    unique: dict[str, Document] = {}
    for document in filter(None, made):
        unique.setdefault(document.id, document)
    return list(unique.values())


def _parts(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list):
        return [part for item in value for part in _parts(item)]
    if not isinstance(value, Mapping):
        return []
    is_part = any(isinstance(value.get(key), list) for key in (_PAPERS, _PROJECTS))
    return [value] if is_part else _parts(value.get("findings"))


def _bare_arxiv(reference: str) -> str:
    """Return an arXiv id without prefix, address and version. Other references are returned as they are.

    >>> [_bare_arxiv(text) for text in ("arXiv:2401.00002", "https://arxiv.org/abs/2401.00002v1", "GraphRAG v2")]
    ['2401.00002', '2401.00002', 'GraphRAG v2']
    """
    found = _ARXIV.fullmatch(reference)
    return found[1] if found else reference


def _document(kind: str, entry: Mapping[str, Any], titles: Mapping[str, str]) -> Document | None:
    """Return the document of a paper or a project; None if it has no name.

    The arXiv ids of papers in the findings are replaced by their titles, and of other papers by the bare ids. A paper
    has its bare id as an alias: papers of other files are found by it.
    """
    arxiv = _bare_arxiv(_text(entry, "arxiv_id")) if kind == "paper" else ""
    title = _text(entry, "title") if kind == "paper" else _text(entry, "full_name", "name")
    title = title or (f"arXiv {arxiv}" if arxiv else "")
    if not title:
        return None
    metadata: dict[str, Any] = {FINDING: kind, "arxiv_id": arxiv}
    metadata |= {key: read(entry, *keys) for key, (read, *keys) in _FIELDS.items()}
    for key in ("cites", "implements", "related"):
        metadata[key] = [titles.get(other, other) for other in map(_bare_arxiv, metadata[key])]
    metadata = {key: value for key, value in metadata.items() if value not in ("", None, [])}
    body = _text(entry, "abstract", "summary", "description", "readme")
    identity = f"arxiv:{arxiv}" if arxiv else f"project:{title}"
    if kind == "paper" and not arxiv:
        slug = re.sub(r"\W+", "-", title.casefold()).strip("-")[:80]
        identity = f"paper:{_text(entry, 'doi') or slug}"
    return Document(identity, _document_text(title, body, metadata), title, metadata)


def _document_text(title: str, body: str, metadata: Mapping[str, Any]) -> str:
    """Return the document's text: title, body, and the metadata in words, so that keyword search finds it."""
    labelled = "\n".join(
        f"{label}: {', '.join(value) if isinstance(value, list) else value}."
        for key, label in _LABELS.items()
        if (value := metadata.get(key)) is not None
    )
    return "\n\n".join(part for part in (f"# {title}", body, labelled) if part)


# -- what an index does with findings, whatever its extractor


def without_labels(document: Document, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return a finding's chunks with spaces in place of the labelled lines, so that offsets stay valid.

    ``arXiv: 2501.03236.`` and ``Year: 2025.`` are for keyword search. They are not sentences, and the labels are not
    names. The metadata has what they say.
    """
    end = document.text.rfind("\n\n") + 2  # the labelled lines are the last paragraph
    if not all(line.startswith(_PREFIXES) for line in document.text[end:].splitlines()):
        return chunks
    prose = []
    for chunk in chunks:
        kept = chunk.text[: max(end - chunk.start, 0)]
        marks = tuple(mark for mark in chunk.marks if mark.start < len(kept))
        prose.append(replace(chunk, text=kept.ljust(len(chunk.text)), marks=marks))
    return prose


# -- read a field, which may have one of several names and be a list, a text, a number, an object or missing


def _text(entry: Mapping[str, Any], *keys: str) -> str:
    """Return the first of several fields that is a text or a number.

    >>> _text({"title": " ", "name": "MAGMA"}, "title", "name")
    'MAGMA'
    """
    for key in keys:
        value = entry.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
            return " ".join(str(value).split())
    return ""


def _number(entry: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first of several fields that is an integer or a text such as ``"12,300"``."""
    for key in keys:
        value = entry.get(key)
        digits = str(value).replace(",", "").strip()
        if not isinstance(value, (bool, list, Mapping)) and digits.isdecimal() and len(digits) < 19:
            return int(digits)
    return None


def _year(entry: Mapping[str, Any], *keys: str) -> int | None:
    """Return the year in the first of several fields."""
    found = _YEAR.search(_text(entry, *keys))
    return int(found[0]) if found else None


def _names(entry: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the names in several fields: lists of texts or objects, or one comma-separated text.

    >>> _names({"authors": [{"name": "Ada Lovelace"}, "C. Babbage"]}, "authors")
    ['Ada Lovelace', 'C. Babbage']
    >>> _names({"citations": 12}, "citations")
    []
    """
    found: dict[str, None] = {}
    for key in keys:
        value = entry.get(key)
        items = _SEPARATOR.split(value) if isinstance(value, str) else value
        for item in items if isinstance(items, (list, Mapping)) else ():
            name = _text(item, *_NAME_KEYS) if isinstance(item, Mapping) else _text({"": item}, "")
            if name:
                found[name] = None
    return list(found)


# Metadata key: how it is read, and from which fields.
_FIELDS: dict[str, tuple[Any, ...]] = {
    "doi": (_text, "doi"), "url": (_text, "url", "html_url"), "year": (_year, "year", "published", "date"),
    "venue": (_text, "venue", "journal"), "language": (_text, "language"), "licence": (_text, "license"),
    "stars": (_number, "stars", "stargazers_count"), "authors": (_names, "authors", "owner"),
    "concepts": (_names, "key_concepts", "concepts", "keywords"), "topics": (_names, "topics", "categories"),
    "cites": (_names, "citations", "references", "cites"), "implements": (_names, "implements", "papers"),
    "related": (_names, "related"), "citation_count": (_number, "citation_count", "citations"),
}  # fmt: skip


def with_finding(chunk: Chunk, extraction: Extraction) -> Extraction:
    """Return an extraction with the authors, citations, concepts and other relations of a paper or a project.

    >>> chunk = Chunk("1", "1", "…", "MAGMA", metadata={"finding": "paper", "cites": ["GraphRAG"]})
    >>> with_finding(chunk, Extraction()).facts[0].text
    'MAGMA cites GraphRAG.'
    """
    kind = str(chunk.metadata[FINDING])
    alias = chunk.metadata.get("arxiv_id") if kind == "paper" else chunk.title.rpartition("/")[2]
    aliases: tuple[str, ...] = ()  # a paper's arXiv id, or a project's name without its owner
    if isinstance(alias, str) and normalise(alias) not in ("", normalise(chunk.title)):
        aliases = (alias,)
    # An alias is a subject too: keyword search then ranks a paper above those that only cite its arXiv id.
    mentions = [*extraction.mentions, Mention(chunk.title, kind, aliases=aliases, subject=True)]
    # Its normalised form is another entity: documents of other calls that name the arXiv id lead here.
    names = dict.fromkeys((*aliases, *map(normalise, aliases)))
    mentions += [Mention(name, kind, subject=True) for name in names]
    facts = [*extraction.facts]
    if chunk.ordinal == 0:  # once per document, not per chunk
        # A paper introduces a concept; a project only relates to it.
        relations = _RELATIONS if kind == "paper" else {**_RELATIONS, "concepts": _RELATIONS["topics"]}
        for key, (relation, other_kind, weight, phrase) in relations.items():
            for other in _metadata_names(chunk, key):
                mentions.append(Mention(other, other_kind or kind))
                text = phrase.format(subject=chunk.title, other=other)
                facts.append(Fact((chunk.title, other), text, relation=relation, weight=weight))
    return Extraction(tuple(dict.fromkeys(mentions)), tuple(dict.fromkeys(facts)), extraction.problem)


def _metadata_names(chunk: Chunk, key: str) -> list[str]:
    value = chunk.metadata.get(key)
    names = value if isinstance(value, (list, tuple)) else [value]
    return [name for name in names if isinstance(name, str) and normalise(name) not in ("", normalise(chunk.title))]
