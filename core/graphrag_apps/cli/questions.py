"""Questions to try on a new index, made from its own names. Each is asked once, and offered only if it is answered."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from graphrag_apps.ask import ask
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.text import FUNCTION

_COUNT = 3
_MAX_NAMES = 60  # names that are looked at, the most mentioned first
_MAX_ASKED = 6  # questions of one form that are asked until one is answered
_MAX_WORDS = 4  # of a name
# Questions are shown between double quotes, in which shells read other marks: a document could write a command.
_NAME = re.compile(r"[^\W\d_][\w .+#'/&-]{1,40}")
_PERSON = re.compile(r"\b(?:he|she|his|her)\b", re.IGNORECASE)

_Candidate = tuple[str, str, set[str]]  # a question, a pattern for a line of its answer, and its names


def sample_questions(index: KnowledgeIndex) -> list[str]:
    """Return three questions that the index answers: what something is, how two things are related, what is known.

    Fewer, or none, if the documents are about few names.
    """
    retriever = GraphRetriever(index, method="agentic", k=8, on_embedder_error="keyword")
    with index.engine.snapshot(None) as snapshot:
        keys = snapshot.top_entities(_MAX_NAMES)
        names = [entity.name for entity in snapshot.entities(keys[snapshot.are_subjects(keys)])]
    names = [name for name in names if _is_usable(name)]
    questions: list[str] = []
    for form in (_definitions, _relations, _descriptions, _relations, _descriptions):
        for question, pattern, used in islice(form(index, names), _MAX_ASKED):
            answer = ask(retriever, question, count_access=False)
            if answer.kind == "extract" and re.search(pattern, answer.text, re.MULTILINE):
                is_person = form is _definitions and _PERSON.search(answer.result.hits[0].chunk.text)
                questions.append(question.replace("What", "Who", 1) if is_person else question)
                names = [name for name in names if name not in used]
                break
        if len(questions) == _COUNT:
            break
    return questions


def _definitions(_: KnowledgeIndex, names: Sequence[str]) -> Iterator[_Candidate]:
    for name in names:
        yield f"What is {name}?", rf"^(?:The )?{re.escape(name)}(?: \([^)]*\))? (?:is|was) ", {name}


def _relations(index: KnowledgeIndex, names: Sequence[str]) -> Iterator[_Candidate]:
    for name in names:
        others = (other.name for other, _ in index.graph.neighbours(name))
        distinct = (other for other in others if name not in other and other not in name)
        if other := next(filter(_is_usable, distinct), None):
            both = f"^(?=.*{_mention(name)}).*{_mention(other)}"
            yield f"How is {name} related to {other}?", both, {name, other}


def _descriptions(_: KnowledgeIndex, names: Sequence[str]) -> Iterator[_Candidate]:
    for name in names:
        yield f"What is known about {name}?", _mention(name), {name}


def _mention(name: str) -> str:
    """Return a pattern for a name that is no part of a longer word; Chinese is written without spaces."""
    return rf"(?<![a-zA-Z]){re.escape(name)}(?![a-zA-Z])"


def _is_usable(name: str) -> bool:
    """Return whether a name can stand in a question: a short one that is not a phrase, and that no shell reads."""
    words = name.lower().split()
    is_name = _NAME.fullmatch(name) is not None and name[0] == name[0].upper()
    return is_name and len(words) <= _MAX_WORDS and FUNCTION.isdisjoint(words)
