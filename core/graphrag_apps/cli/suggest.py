"""Questions to try on a new index, each of which its own passage answers among the first three."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk, Entity
from graphrag_core.retriever import GraphRetriever

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

_QUESTIONS, _FIRST = 3, 3
_DOCUMENTS, _PASSAGES, _TRIED = 60, 100, 20
_NAME = re.compile(r"[^\W\d_][\w.'’ -]{2,38}\w")  # no character that a shell reads between double quotes
_NUMBERING = re.compile(r"^[\d.]+\s+")
_MOST_WORDS = 6
_NAMES = 6  # of a passage
_COMMON = 0.1  # share of the passages above which a name tells nothing


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
    """Yield questions with their passages: from all parts of the index, and no name twice.

    Beside the names they have function words alone, so that an answer does not miss the words of a phrase.
    """
    ids, used = index.document_ids(), set[str]()
    for document_id in ids[:: max(1, len(ids) // _DOCUMENTS)]:
        chunks = index.chunks(document_id)
        for chunk in chunks[:: max(1, len(chunks) // _PASSAGES)]:
            heading = _NUMBERING.sub("", chunk.headings[-1] if chunk.headings else chunk.title)
            is_topic = _is_usable(heading) and not re.search(r"\d", heading)  # no "Figure 4.1. Boot screen"
            pair = _pair(index, chunk, used.union([heading.casefold()])) if is_topic and not heading.isupper() else None
            if pair is not None:
                used.update(name.casefold() for name in (heading, *pair))
                yield f"What about {pair[0]} and {pair[1]} in {heading}?", chunk
                if len(ids) >= _QUESTIONS:
                    break


def _pair(index: KnowledgeIndex, chunk: Chunk, used: set[str]) -> tuple[str, str] | None:
    """Return two names that one sentence of a passage joins, and that few passages mention; None if there are none."""
    with index.engine.snapshot() as snapshot:
        keys = np.array([*snapshot.find_chunks([chunk.id]).values()], np.int64)
        targets = snapshot.neighbours(keys).targets
        entities = zip(targets.tolist(), snapshot.entities(targets), strict=True)
        named = [(key, one) for key, one in entities if _tells(one, chunk, used, snapshot.chunk_count)][:_NAMES]
        for (key, one), (other_key, other) in combinations(named, 2):
            short, long = sorted((one.name.casefold(), other.name.casefold()), key=len)
            if short not in long and _join(snapshot, key, other_key, chunk):
                return one.name, other.name
    return None


def _tells(entity: Entity, chunk: Chunk, used: set[str], passages: int) -> bool:
    """Return whether a passage and some others mention an entity by a name whose words begin with capitals."""
    name = entity.name
    is_name = _is_usable(name) and not any(word[:1].islower() for word in name.split())
    is_new = not any(name.casefold() in other for other in used)
    is_known = 1 < entity.mentions <= max(3, _COMMON * passages)
    return is_known and is_new and is_name and name in chunk.text


def _join(snapshot: Snapshot, key: int, other: int, chunk: Chunk) -> bool:
    facts = snapshot.facts(snapshot.facts_of(np.array([key, other]), joint=True))
    return any(fact.chunk_id == chunk.id for fact in facts)


def _is_usable(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and len(name.split()) <= _MOST_WORDS
