"""Follow-up questions: whether a question refers back, and the entities that the turns before it name.

Entities are carried over, never text: the words of earlier turns are neither embedded nor searched. Whether a question
refers back is decided by rules for English, without a model. A question in another language stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.query.query import Carried, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.result import Result
from graphrag_core.text import FUNCTION, OPENERS, normalise
from graphrag_core.text.words import is_ordinary

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

History: TypeAlias = Iterable[str | Result]
"""The turns of a conversation, oldest first: what the user and the assistant said, or results that were shown."""

_TOKEN = re.compile(r"\w+(?:[-_.:/]\w+)*[+#]*|[,.;:?!]")
_SENTENCE_ENDS = frozenset(".;:?!")
_STOPS = _SENTENCE_ENDS | {","}
_QUESTION_WORDS = frozenset("what who whom whose when where why how which".split())
_VERBS = frozenset(
    "is are was were be do does did can could should would will has have had may might must tell show explain".split()
)
_ENGLISH = _QUESTION_WORDS | _VERBS | frozenset("the of about to and with".split())
_OPENERS = (("and",), ("but",), ("what", "about"), ("how", "about"))
_PLURAL = frozenset("they them their theirs".split())
_SINGULAR = frozenset("it its he she him his her hers".split())
_POSSESSIVE = frozenset("its their his her".split())
_SUBJECT_VERBS = frozenset("is are was were do does did can could should would will may might must".split())
_PREPOSITIONS = frozenset("of for with to in on at by from about into over under without through like".split())
_OF_NOUN = frozenset("of for with about".split())
_INDEFINITE = frozenset("a an each every any no another".split())
_DETERMINERS = _INDEFINITE | frozenset("the my your our some".split())
_PERSONS = frozenset("people someone somebody everyone everybody anyone children men women".split())
_DUMMY = re.compile(  # "it" that stands for nothing
    r"\b(?:(?:is|was|be)\s+it|it\s+(?:is|was)|it['’]s)\s+(?:not\s+|also\s+)?(?:possible|common|necessary|safe|ok|okay"
    r"|allowed|legal|true|easy|hard|difficult|better|worth|recommended|required|important|advisable|likely|proven)\b"
    r"|\bit\s+(?:takes?|took)\s+(?:\w+\s+){0,3}(?:to|for|until|before)\b",
    re.IGNORECASE,
)
_MOST_TURNS = 6  # of the user and the assistant that are looked at, the last ones
_MOST_ENTITIES = 5  # that are carried over
_MOST_NAMES = 3  # of them, whose words passages should have
_MAIN = 0.5  # of the largest weight: words of entities with less are not expected
_PASSAGES = 3  # of a result that are carried over
_DECAY = 0.5  # the weight of an earlier turn, relative to the next turn that names any entity
_FEWEST = 3  # content words of an earlier sentence or clause that a pronoun may mean
_SHORT = 4  # words of a question that asks nothing alone ("how much?")


class Turn(NamedTuple):
    """What was said, and of a result the names of its entities and the ids of its first passages."""

    text: str
    names: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()


def parse_history(history: Any, question: str) -> tuple[Turn, ...]:
    """Return the turns that may matter for a question: none if it stands alone.

    Raises
    ------
    InputError
        A turn is neither a text nor a result.
    """
    if isinstance(history, (str, Result)) or not isinstance(history, Iterable):
        raise InputError(f"history is {history!r:.80}: use a list of texts and results, oldest first")
    given = list(history)
    if wrong := [turn for turn in given if not isinstance(turn, (str, Result))]:
        raise InputError(f"history has {wrong[0]!r:.80}: use texts, and results of this retriever, oldest first")
    if text_before_reference(question) is None:
        return ()
    return tuple(
        Turn(one)
        if isinstance(one, str)
        else Turn(one.question, tuple(e.name for e in one.entities), tuple(h.chunk.id for h in one.hits[:_PASSAGES]))
        for one in given[-_MOST_TURNS:]
    )


def with_conversation(query: Query, turns: Sequence[Turn], recogniser: Recogniser) -> Query:
    """Return a question with the entities and passages of earlier turns that it may refer to.

    Only those of the snapshot's scope count. A name in lower case before the reference resolves it: nothing is added.
    """
    snapshot = query.snapshot
    before = text_before_reference(query.text)
    known = recogniser.known_names(before or "", snapshot)
    inside = snapshot.entities(np.array([entity for _, _, entity in known], np.int64))
    if before is None or not all(is_ordinary(entity.id) for entity in inside):
        return query
    weights = _weights(turns, recogniser, snapshot)
    own = set(query.entities.tolist())
    kept = [(entity, weight) for entity, weight in weights if entity not in own][:_MOST_ENTITIES]
    entities = np.array([entity for entity, _ in kept], np.int64)
    strengths = np.array([weight / kept[0][1] for _, weight in kept], np.float32)
    main = entities[strengths > _MAIN][:_MOST_NAMES]
    shown = next((turn.passages for turn in reversed(turns) if turn.passages), ())
    passages = snapshot.find_chunks(shown) if shown else {}
    carried = Carried(
        entities,
        strengths,
        tuple(entity.name for entity in snapshot.entities(main)),
        np.array([passages[one] for one in shown if one in passages], np.int64),
    )
    return replace(query, entities=np.concatenate([query.entities, entities]), carried=carried)


def _weights(turns: Sequence[Turn], recogniser: Recogniser, snapshot: Snapshot) -> list[tuple[int, float]]:
    """Return the entities that turns name and their weights, largest first.

    The entities of a turn share its weight: a question names few, and what an answer mentions besides counts little.
    """
    weights: dict[int, float] = {}
    weight = 1.0
    for turn in reversed(turns):
        named = dict.fromkeys(recogniser.recognise(turn.text, None, snapshot).tolist())
        named |= dict.fromkeys(snapshot.find_entities(map(normalise, turn.names)).values() if turn.names else ())
        for entity in named:
            weights[entity] = weights.get(entity, 0.0) + weight / len(named)
        weight *= _DECAY if named else 1.0
    return sorted(weights.items(), key=lambda item: -item[1])


def text_before_reference(question: str) -> str | None:
    """Return the part of a question in which a name would resolve its reference; None if the question stands alone.

    A reference is a pronoun, or an ellipsis such as "And in Berlin?". A name, a noun phrase or a sentence before a
    pronoun resolves it. Names in lower case are not seen here: the caller looks them up in the part returned.

    >>> text_before_reference("Where does it keep its settings?"), text_before_reference("And in Berlin?")
    ('Where does', '')
    >>> text_before_reference("What is Redis and who owns it?")
    >>> text_before_reference("what is redis and who owns it?")
    'what is redis and who'
    >>> text_before_reference("Can a program that asks its users for money be part of the archive?")
    """
    return _Words(question).text_before_reference()


class _Words:
    """The words of a question."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._matches = list(_TOKEN.finditer(question))
        self._words = [match.group() for match in self._matches]
        self._lower = [word.lower() for word in self._words]
        self._is_content = [word not in FUNCTION and word not in _STOPS for word in self._lower]

    def text_before_reference(self) -> str | None:
        lower = self._lower
        opener = next((opener for opener in _OPENERS if tuple(lower[: len(opener)]) == opener), ())
        if opener:
            asks = not (_QUESTION_WORDS | _VERBS).isdisjoint(lower[len(opener) :])
            if not asks or not self._has_name(len(opener), len(lower)):
                return ""
        if _ENGLISH.isdisjoint(lower):
            return None
        if len(lower) <= _SHORT and not any(self._is_content):
            return ""
        for place in self._references():
            end = self._end_of_antecedents(place)
            if not self._is_resolved(place, end):
                return self._question[: self._matches[end - 1].end()] if end else ""
        return None

    def _references(self) -> Iterator[int]:
        """Yield the places of words that refer to something before them."""
        dummies = [match.span() for match in _DUMMY.finditer(self._question)]
        for place, match in enumerate(self._matches):
            is_in_title = match.group()[0].isupper() and place > 0 and self._lower[place - 1] not in _SENTENCE_ENDS
            is_dummy = any(start <= match.start() < end for start, end in dummies)
            if not is_in_title and not is_dummy and self._refers(place):
                yield place

    def _refers(self, place: int) -> bool:
        """Return whether a word is a pronoun, or a demonstrative in a place where it is not a relative pronoun."""
        before, word, after = ["", *self._lower, "?"][place : place + 3]
        if word in ("these", "those"):
            return after in _STOPS or after.endswith("s")
        if word == "that":
            return after in _STOPS or before in _PREPOSITIONS or before in _SUBJECT_VERBS
        if word in ("one", "former", "latter"):
            return before == "the" or (word, before) == ("one", "other")
        return word in _PLURAL or word in _SINGULAR or word in ("this", "ones") or (word == "there" and after in _STOPS)

    def _end_of_antecedents(self, place: int) -> int:
        """Return the end of the words that a reference may mean: not the noun or the verb that it complements."""
        is_possessive = self._lower[place] in _POSSESSIVE
        if governed := place > 0 and self._lower[place - 1] in (_OF_NOUN if is_possessive else _PREPOSITIONS):
            place -= 1
        if governed or not is_possessive:
            while place > 0 and self._is_content[place - 1] and not self._has_name(place - 1, place):
                place -= 1
        return place

    def _is_resolved(self, place: int, end: int) -> bool:
        """Return whether a name, a noun phrase or an earlier sentence resolves the reference at a place."""
        word, before = self._lower[place], self._lower[:end]
        is_pronoun = word in _PLURAL or word in _SINGULAR
        ends = [at for at, one in enumerate(before) if one in _SENTENCE_ENDS or (one == "," and not is_pronoun)]
        if self._has_name(0, end) or (ends and sum(self._is_content[: ends[-1]]) >= _FEWEST):
            return True
        if word in _POSSESSIVE and self._lower[place - 1] not in _SUBJECT_VERBS:
            pairs = zip(before, self._is_content[1:end], strict=False)
            if any(is_noun and asks in ("which", "what", "many") for asks, is_noun in pairs):
                return True  # "Which university has its origins in ..."
        return is_pronoun and self._has_noun(end, plural=word in _PLURAL)

    def _has_noun(self, end: int, *, plural: bool) -> bool:
        """Return whether one of the first words may be the noun that a pronoun means."""
        for at, word in enumerate(self._lower[:end]):
            is_plural = word in _PERSONS or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
            if plural and is_plural and self._is_content[at]:
                return True
            if word in (_INDEFINITE if plural else _DETERMINERS) and at + 1 < end and self._is_content[at + 1]:
                return True  # "Can a user change their address?"
        return False

    def _has_name(self, first: int, last: int) -> bool:
        """Return whether one of some words is written as a name or as an identifier."""
        for at in range(first, last):
            word = self._words[at]
            is_first = at == first or self._words[at - 1] in _SENTENCE_ENDS
            if self._is_content[at] and (
                (word[0].isupper() and (not is_first or word.lower() not in OPENERS))
                or (len(word) > 1 and (any(map(str.isupper, word[1:])) or re.search(r"\d|\w[-_./:]\w", word)))
            ):
                return True
        return False
