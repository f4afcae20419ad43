"""Questions to try on a new index, each of which its own passage answers among the first three."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk, Fact
from graphrag_core.retriever import GraphRetriever

_QUESTIONS, _FIRST = 3, 3
_FACTS, _TRIED = 300, 15
_NAME = re.compile(r"[^\W\d_][\w.'’ -]{2,38}\w")  # no character that a shell reads between double quotes
_MOST_WORDS = 6


def sample_questions(index: KnowledgeIndex) -> list[str]:
    """Return up to three questions of a heading's words and two names of one passage; none rather than a bad one."""
    retriever = GraphRetriever(index, cache=None)
    questions: list[str] = []
    for question, chunk in islice(_candidates(index), _TRIED):
        found = retriever.retrieve(question, k=_FIRST, count_access=False)
        if chunk.id in [hit.chunk.id for hit in found.hits]:
            questions.append(question)
        if len(questions) == _QUESTIONS:
            break
    return questions


def _candidates(index: KnowledgeIndex) -> Iterator[tuple[str, Chunk]]:
    """Yield questions with their passages: one of each document, and no name twice."""
    used: set[str] = set()
    for fact in islice(index.graph.iter_facts(), _FACTS):
        chunk = _passage(index, fact)
        if chunk is None or chunk.document_id in used:
            continue
        heading = chunk.headings[-1] if chunk.headings else chunk.title
        names = [name for name in _names(index, fact) if name.casefold() not in heading.casefold()][:2]
        if len(names) == 2 and _is_usable(heading) and used.isdisjoint(names):
            used.update((chunk.document_id, *names))
            yield f"What is said about {names[0]} and {names[1]} in {heading}?", chunk


def _passage(index: KnowledgeIndex, fact: Fact) -> Chunk | None:
    document_id = fact.chunk_id if fact.chunk_id in index else fact.chunk_id.rpartition("#")[0]
    return next((chunk for chunk in index.chunks(document_id) if chunk.id == fact.chunk_id), None)


def _names(index: KnowledgeIndex, fact: Fact) -> Iterator[str]:
    """Yield the names in a fact that begin with a capital, as people and products do."""
    for entity_id in fact.entities:
        entity = index.graph.entity(entity_id)
        if entity is not None and entity.name in fact.text and entity.name[:1].isupper() and _is_usable(entity.name):
            yield entity.name


def _is_usable(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and len(name.split()) <= _MOST_WORDS
