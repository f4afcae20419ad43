"""Follow-up questions: whether a question refers back, and the entities that the turns before it name.

Rules for English, without a model. A question in another language stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from graphrag_core.query.recognise import REFERS_BACK
from graphrag_core.text import FUNCTION, OPENERS

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
_DETERMINERS = frozenset("a an the my your our each every any some no another".split())
_PERSONS = frozenset("people someone somebody everyone everybody anyone children men women".split())
_DUMMY = re.compile(  # "it" that stands for nothing
    r"\b(?:(?:is|was|be)\s+it|it\s+(?:is|was)|it['’]s)\s+(?:not\s+|also\s+)?(?:possible|common|necessary|safe|ok|okay"
    r"|allowed|legal|true|easy|hard|difficult|better|worth|recommended|required|important|advisable|likely|proven)\b"
    r"|\bit\s+(?:takes?|took)\s+(?:\w+\s+){0,3}(?:to|for|until|before)\b",
    re.IGNORECASE,
)
_FEWEST = 3  # content words of an earlier sentence or clause that a pronoun may mean
_SHORT = 4  # words of a question that asks nothing alone ("how much?")


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
        lower = [*self._lower, "?", "?"]
        dummies = [match.span() for match in _DUMMY.finditer(self._question)]
        for place, word in enumerate(self._lower):
            before, after = lower[place - 1] if place else "", lower[place + 1]
            is_in_title = self._words[place][0].isupper() and before not in ("", *_SENTENCE_ENDS)
            if is_in_title or any(start <= self._matches[place].start() < end for start, end in dummies):
                continue
            is_last = after in _STOPS
            if (
                word in _PLURAL
                or word in _SINGULAR
                or word == "this"
                or (word in ("these", "those") and (is_last or after.endswith("s")))
                or (word == "that" and (is_last or before in _PREPOSITIONS or before in _SUBJECT_VERBS))
                or word == "ones"
                or (word == "one" and before in ("the", "other"))
                or (word == "there" and is_last)
                or (word in ("former", "latter") and before == "the")
            ):
                yield place

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
        if ends and sum(self._is_content[: ends[-1]]) >= _FEWEST:
            return True
        if self._has_name(0, end):
            return True
        if word in _POSSESSIVE and self._lower[place - 1] not in _SUBJECT_VERBS and self._has_noun_asked_for(end):
            return True  # "Which university has its origins in ..."
        if word in _SINGULAR:
            return any(one in _DETERMINERS and self._is_content[at + 1] for at, one in enumerate(before[:-1]))
        return word in _PLURAL and any(
            self._is_content[at] and (one in _PERSONS or (one.endswith("s") and not one.endswith(("ss", "us", "is"))))
            for at, one in enumerate(before)
        )

    def _has_noun_asked_for(self, end: int) -> bool:
        pairs = zip(self._lower[:end], self._is_content[1:end], strict=False)
        return any(is_noun and word in ("which", "what", "many") for word, is_noun in pairs)

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
