"""Questions generated from an index without an LLM: bridge questions over two documents, and controls over one."""

from __future__ import annotations

import random
import re
from collections.abc import Container
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.evaluation.compare import GENERATED
from graphrag_core.evaluation.questions import Question
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk
from graphrag_core.ports import Snapshot
from graphrag_core.text import FUNCTION, normalise, sentences

_WORD = re.compile(r"[^\W_][\w'’.-]*[^\W_]|[^\W_]")
_CLAUSE = re.compile(r"[.;:!?()\[\]{}<>|*`\"“”=/\\\n]")  # a relation does not go beyond one of these
_PRONOUN = re.compile(r"(?:It|He|She|They)(?=\s)")
_AUXILIARIES = frozenset(
    "is are was were be has have had does do did can could may might will would must should".split()
)
_LAST = re.compile(r"(?:\s|,|\b(?:the|a|an|his|her|its|their))+$", re.IGNORECASE)
_MOST_WORDS = 8  # of a name, and of the words of a relation
_MOST_MENTIONS = 40  # passages that mention a bridge; a name with more is no specific link
_MOST_ABOUT = 3  # documents about a bridge; with more it is ambiguous
_MOST_CHUNKS = 30  # tried of a document
_SUBJECT = 5.0  # an edge from a chunk to its subject weighs more than this


class _Name(NamedTuple):
    start: int
    end: int
    entity: int


class _Relation(NamedTuple):
    """What a sentence says about an entity: words, and the name that follows them."""

    words: str
    object: str
    object_entity: int
    subject: str = ""


def generate_questions(index: KnowledgeIndex, count: int = 50, *, seed: int = 0) -> list[Question]:
    """Generate questions from the documents of an index, without an LLM.

    Half of them are bridge questions (type "bridge"). One document links a name to the subject of another document, and
    the other one says something about its subject. The question has the first name and the words of both relations. It
    does not have the name of the subject that joins them: "Auth Service delegates to what, which speaks to what?" Both
    documents are gold. The other half are controls (type "single"), answered by one passage: "OAuth Provider speaks to
    what?" Where the documents do not give enough sentences about their titles, questions are made of other sentences
    and begin with the title: "Periodic Tasks: called at regular intervals by what?"

    Such questions favour the graph by construction, as they are made from links that it has. They can show that a
    setting breaks retrieval, that bridges are followed at all, and that simple questions do not suffer. They cannot
    show that real questions gain. The frame of a question is English, so they say little about other languages.

    Parameters
    ----------
    index
        The index.
    count
        How many questions; there are fewer if the documents do not give as many.
    seed
        The same index, count and seed give the same questions.

    Raises
    ------
    InputError
        The documents give no question: they do not mention each other's subjects by name.
    """
    if count < 1:
        raise InputError(f"count is {count}: use at least 1")
    shuffle = random.Random(seed)  # noqa: S311 - a sample, no secret
    ids = index.document_ids()
    shuffle.shuffle(ids)
    bridges: dict[str, Question] = {}
    singles: dict[str, Question] = {}
    wanted = (count + 1) // 2, count // 2
    with index.engine.snapshot() as snapshot:
        for strict in (True, False):
            for document_id in ids:
                if (len(bridges), len(singles)) == wanted:
                    break
                chunks = index.chunks(document_id)
                for chunk in shuffle.sample(chunks, min(len(chunks), _MOST_CHUNKS)):
                    said = _statements(snapshot, chunk, strict=strict)
                    if len(singles) < wanted[1] and document_id not in singles and (one := _single(chunk, said)):
                        singles[document_id] = one
                    if len(bridges) < wanted[0] and (two := _bridge(snapshot, chunk, said, bridges, strict=strict)):
                        bridges[two[0]] = two[1]
                        break
    if not bridges:
        raise InputError(
            "no bridge question can be generated: the documents do not mention each other's titles by name. "
            "Write some questions with gold documents instead"
        )
    questions = [*bridges.values(), *singles.values()]
    return [replace(one, id=f"{GENERATED}{number}") for number, one in enumerate(questions, 1)]


def _bridge(
    snapshot: Snapshot, chunk: Chunk, said: list[_Relation], used: Container[str], *, strict: bool
) -> tuple[str, Question] | None:
    """Return the name of a bridge from a passage to one of another document, and a question that follows it."""
    for first in said:
        if (found := _about(snapshot, first.object_entity)) is None:
            continue
        bridge, passages = found
        if bridge in used or any(one.document_id == chunk.document_id for one in passages):
            continue
        for passage in passages:
            seconds = _relations(snapshot, passage.text, first.object_entity, bridge)
            for second in seconds or ([] if strict else _phrases(snapshot, passage.text)):
                text = f"{first.subject} {first.words} what, which {second.words} what?"
                hidden = _tokens(bridge) & _tokens(text) or normalise(chunk.title) in normalise(passage.text)
                if not hidden and normalise(second.object) not in normalise(text):
                    gold = (chunk.document_id, passage.document_id)
                    return bridge, Question(text, gold, type="bridge", answer=second.object)
    return None


def _single(chunk: Chunk, said: list[_Relation]) -> Question | None:
    """Return a question that a passage answers alone."""
    for relation in said:
        text = f"{relation.subject} {relation.words} what?"
        if normalise(relation.object) not in normalise(text):
            return Question(text, (chunk.document_id,), type="single", answer=relation.object)
    return None


def _statements(snapshot: Snapshot, chunk: Chunk, *, strict: bool) -> list[_Relation]:
    """Return what a passage says about the title of its document; if not ``strict``, what it says in its sentences."""
    title = normalise(chunk.title)
    if not title:
        return []
    entity = snapshot.find_entities([title]).get(title)
    found = [] if entity is None else _relations(snapshot, chunk.text, entity, chunk.title)
    if found or strict:
        return [one._replace(subject=chunk.title) for one in found]
    return [one._replace(subject=f"{chunk.title}:") for one in _phrases(snapshot, chunk.text)]


def _about(snapshot: Snapshot, entity: int) -> tuple[str, list[Chunk]] | None:
    """Return the name of an entity and the passages that are about it; None if it is no specific bridge."""
    key = np.array([entity], np.int64)
    mentions, is_subject = snapshot.entity_counts(key)
    if not is_subject[0] or mentions[0] > _MOST_MENTIONS:
        return None
    edges = snapshot.neighbours(key, to="chunks")
    passages = snapshot.chunks(edges.targets[edges.weights > _SUBJECT])
    if not 0 < len({passage.document_id for passage in passages}) <= _MOST_ABOUT:
        return None
    (described,) = snapshot.entities(key)
    if not _tokens(described.name):
        return None
    return described.name, passages


def _relations(snapshot: Snapshot, text: str, about: int, name: str) -> list[_Relation]:
    """Return what the sentences of a text say about an entity: words, and the name that follows them.

    The words follow its name. A sentence may also begin with a pronoun, or with "The" and the last word of the name:
    "The airport is owned by the City of Batesville."
    """
    last = (_WORD.findall(name) or ["-"])[-1]
    opening = re.compile(rf"{_PRONOUN.pattern}|The {re.escape(last)}(?=\s)", re.IGNORECASE)
    found = []
    for part, names in _named_sentences(snapshot, text):
        start = opening.match(part)
        implied = [_Name(0, start.end(), about)] if start and names and names[0].start >= start.end() else []
        for one, other in pairwise([*implied, *names]):
            between = part[one.end : other.start]
            if one.entity != about or other.entity == about or _CLAUSE.search(between):
                continue
            words = _LAST.sub("", " ".join(between.split()))
            said = _WORD.findall(words)
            starts_well = bool(said) and (said[0].lower() in _AUXILIARIES or said[0].lower() not in FUNCTION)
            if starts_well and words[:1].isalnum() and len(said) <= _MOST_WORDS and _tokens(words):
                found.append(_Relation(words, part[other.start : other.end], other.entity))
    return found


def _phrases(snapshot: Snapshot, text: str) -> list[_Relation]:
    """Return the words that lead to a name in the sentences of a text, at least two of which carry meaning."""
    found = []
    for part, names in _named_sentences(snapshot, text):
        for before, name in pairwise([_Name(0, 0, -1), *names]):
            clause = _CLAUSE.split(part[before.end : name.start])[-1]
            words = _LAST.sub("", " ".join(_WORD.findall(clause)[-_MOST_WORDS:]))
            if len(_tokens(words)) > 1:
                words = words if words[1:2].isupper() else words[0].lower() + words[1:]
                found.append(_Relation(words, part[name.start : name.end], name.entity))
    return found


def _named_sentences(snapshot: Snapshot, text: str) -> list[tuple[str, list[_Name]]]:
    """Return the sentences of a text and the known names in each."""
    parts = [text[start:end] for start, end in sentences(text)]
    known = snapshot.find_entities({norm for part in parts for _, _, norm in _candidates(part)})
    return [(part, _names(part, known)) for part in parts]


def _candidates(sentence: str) -> list[tuple[int, int, str]]:
    """Return every sequence of words that begins and ends like a name: its start, end and normalised form."""
    words = list(_WORD.finditer(sentence))[:80]
    spans = []
    for first, word in enumerate(words):
        if not (word.group()[0].isupper() or word.group()[0].isdigit()) or word.group().lower() in FUNCTION:
            continue
        ends = [one.end() for one in words[first : first + _MOST_WORDS] if one[0][0].isupper() or one[0][0].isdigit()]
        spans += [(word.start(), end, normalise(sentence[word.start() : end])) for end in ends]
    return [span for span in spans if span[2] and not span[2].isdigit()]


def _names(sentence: str, known: dict[str, int]) -> list[_Name]:
    """Return the known names in a sentence that do not overlap, the longest of each place, in order."""
    spans = sorted(_candidates(sentence), key=lambda span: (span[0] - span[1], span[0]))
    taken: list[_Name] = []
    for start, end, norm in spans:
        if norm in known and all(end <= one.start or start >= one.end for one in taken):
            taken.append(_Name(start, end, known[norm]))
    return sorted(taken)


def _tokens(text: str) -> set[str]:
    """Return the words of a text that carry meaning, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2 and word not in FUNCTION}
