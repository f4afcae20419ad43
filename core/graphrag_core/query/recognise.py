"""Entity linking without a model: the entities that a question names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Matrix
from graphrag_core.text import FUNCTION, OPENERS, normalise
from graphrag_core.text.cjk import CJK, has_cjk
from graphrag_core.text.words import NAME_WORD

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

_CJK_RUN = re.compile(r"[\w·・]+")  # that has a Chinese or Japanese character
_CJK_UNIT = re.compile(rf"[{CJK}·・]|(?:(?![{CJK}])\w)+")
_POSSESSIVE = re.compile(r"['’]s\b")
_QUOTED = re.compile(
    r"\"([^\"]{1,200})\"|“([^”]{1,200})”|«([^»]{1,200})»|`([^`]{1,200})`"
    r"|(?<!\w)'([^']{1,200})'(?!\w)|「([^」]{1,200})」|『([^』]{1,200})』|《([^》]{1,200})》"
)
_CAPITALISED = re.compile(r"[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*")
_SINGULAR = re.compile(r"ies$")
_ARTICLES = ("the", "a", "an")
_MAX_CJK_UNITS_PER_NAME = 24
_MAX_CJK_UNITS = 600
_MAX_CJK_NAME = 200  # characters
_MAX_QUOTES = 20
_MAX_WORDS = 400

Span = tuple[int, int, str]
"""First and last word (exclusive) of a possible name in the question, and its normalised form."""


@dataclass(frozen=True, kw_only=True)
class Recogniser:
    """Entity linking: finds known names in a question.

    Names that are written as in the documents, the longest first. If there is none, the nearest names by vector.

    Parameters
    ----------
    nearest, least_similarity
        How many entities to take by vector if the question names none, and their minimum cosine similarity.
    most_words
        The maximum number of words of a name that is not quoted.
    most
        The maximum number of entities of a question; None for no limit.
    phrases
        How many entities each capitalised or quoted phrase of the question may name by a part of their name,
        most mentioned first: "Lindqvist" for Mara Lindqvist. 0 takes whole names only.
    every_part
        True looks up every sequence of words, in any case, in the singular and the plural, also inside longer names:
        "auth services" names Auth Service, Auth and Service. By default the longest name counts, and a single word
        only if it is capitalised.
    needs_name_vectors
        True if the index should have vectors of names (``embed_names=True``): results say so in ``fallback`` if it has
        none.
    """

    nearest: int = 3
    least_similarity: float = 0.75
    most_words: int = 7
    most: int | None = None
    phrases: int = 0
    every_part: bool = False
    needs_name_vectors: bool = False

    def recognise(self, question: str, vector: Matrix | None, snapshot: Snapshot) -> Keys:
        """Return the entities that a question names: first exact names in the order of its words, then others."""
        first_word: dict[int, int] = {}
        used: set[int] = set()
        for start, end, entity in self.known_names(question, snapshot):
            if self.every_part or used.isdisjoint(range(start, end)):
                used.update(range(start, end))
                first_word.setdefault(entity, start)
        exact = np.array(sorted(first_word, key=first_word.__getitem__), np.int64)
        entities = np.concatenate([exact, self._by_part(question, snapshot, exact)]) if self.phrases else exact
        if len(entities) == 0 and vector is not None:
            entities, similarity = snapshot.nearest_entities(vector, self.nearest)
            return entities[similarity >= self.least_similarity][: self.nearest]
        return entities[: self.most]

    def _by_part(self, question: str, snapshot: Snapshot, exact: Keys) -> Keys:
        """Return entities whose names have all words of a capitalised or quoted phrase, besides the exact names.

        Exact names count among those of a phrase.
        """
        found: dict[int, None] = {}
        quoted = (next(filter(None, match.groups())) for match in islice(_QUOTED.finditer(question), _MAX_QUOTES))
        phrases = (" ".join(one.split()) for one in (*_CAPITALISED.findall(question)[:_MAX_QUOTES], *quoted))
        for phrase in dict.fromkeys(phrases):
            if not (terms := snapshot.terms(phrase)) or not (norm := normalise(phrase)):
                continue
            # The characters with which a word of the phrase and a term begin alike, as forms of a word do.
            pairs = (zip(word, term, strict=False) for word in norm.split() for term in terms)
            starts = ("".join(a for a, _ in takewhile(lambda two: two[0] == two[1], pair)) for pair in pairs)
            inside = max(starts, key=len)
            entities = snapshot.search_names("", inside)  # most mentioned first
            entities = entities[snapshot.in_names(entities, terms).all(axis=1)]
            is_exact = among(entities, np.sort(exact))
            matches = np.concatenate([entities[is_exact], entities[~is_exact]])[: self.phrases]
            found.update(dict.fromkeys(matches[~among(matches, np.sort(exact))].tolist()))
        return np.array(list(found), np.int64)

    def known_names(self, question: str, snapshot: Snapshot) -> list[tuple[int, int, int]]:
        """Return every known name in a question, longest first: its first and last word (exclusive) and its entity.

        Case matters: a single word is a name if it is capitalised, or if no word is.
        """
        text = _POSSESSIVE.sub("", question)
        spans = (_every_part if self.every_part else _candidates)(text, self.most_words)
        spans += [] if text.isascii() else _cjk_candidates(text)
        known = snapshot.find_entities({norm for _, _, norm in spans if norm})
        longest_first = sorted((start - end, start, end, norm) for start, end, norm in spans if norm in known)
        return [(start, end, known[norm]) for _, start, end, norm in longest_first]


def _candidates(question: str, most_words: int) -> list[Span]:
    """Return every sequence of words that may be a name.

    Of two words and more those that do not start and end with a function word; a single one by its capital letter; and
    what is in quotation marks, which may be long or in lower case.
    """
    matches = list(islice(NAME_WORD.finditer(question), _MAX_WORDS))
    words = [match.group() for match in matches]
    lower = [word.lower() for word in words]
    all_lower_case = not any(word[0].isupper() for word in words[1:])
    spans = [
        (at, at + 1, normalise(word))
        for at, word in enumerate(words)
        if lower[at] not in FUNCTION
        and (all_lower_case or word[0].isdigit() or (word[0].isupper() and lower[at] not in OPENERS))
    ]
    # Lower case is the normalised form of ASCII words with single spaces between them, unless the first is an article.
    simple = [word.isascii() and word.isalnum() for word in words]
    joined = [False, *(question[a.end() : b.start()] == " " for a, b in pairwise(matches))]
    for first, word in enumerate(lower):
        is_function, name, is_known = word in FUNCTION, word, simple[first]
        # Names are compared without their article.
        for last in range(first + 1, first + 1 if word in _ARTICLES else min(first + most_words, len(lower))):
            is_known = is_known and simple[last] and joined[last]
            name = f"{name} {lower[last]}"
            if not is_function or lower[last] not in FUNCTION:
                text = name if is_known else normalise(question[matches[first].start() : matches[last].end()])
                spans.append((first, last + 1, text))
    return spans + _quoted(question, matches)


def _quoted(question: str, words: Sequence[re.Match[str]]) -> list[Span]:
    """Return what is in quotation marks in a question."""
    spans = []
    for quote in islice(_QUOTED.finditer(question), _MAX_QUOTES):
        inside = [at for at, word in enumerate(words) if quote.start() < word.start() < quote.end()]
        if inside:
            spans.append((inside[0], inside[-1] + 1, normalise(quote.group()[1:-1])))
    return spans


def _every_part(question: str, most_words: int) -> list[Span]:
    """Return every sequence of words, also with its last word in the singular or plural; the exact form first."""
    matches = list(islice(NAME_WORD.finditer(question), _MAX_WORDS))
    spans: list[Span] = []
    for start, first in enumerate(matches):
        for end in range(start + 1, min(start + most_words, len(matches)) + 1):
            name = normalise(question[first.start() : matches[end - 1].end()])
            forms = (name, f"{name}s", name.removesuffix("s"), name.removesuffix("es"), _SINGULAR.sub("y", name))
            spans.extend((start, end, form) for form in dict.fromkeys(forms) if form)
    return spans


def _cjk_candidates(question: str) -> list[Span]:
    """Return every sequence of Chinese or Japanese characters; a Latin word between them counts as one."""
    spans = []
    left = _MAX_CJK_UNITS
    for run in _CJK_RUN.finditer(question):
        if not has_cjk(run.group()):
            continue
        units = list(islice(_CJK_UNIT.finditer(run.group()), left))
        left -= len(units)
        offset = 10_000 + run.start()  # apart from the word numbers of the other candidates
        for first in range(len(units)):
            for last in range(first + 1, min(first + _MAX_CJK_UNITS_PER_NAME, len(units))):
                start, end = units[first].start(), units[last].end()
                if end - start > _MAX_CJK_NAME:
                    break
                spans.append((offset + start, offset + end, normalise(run.group()[start:end])))
    return spans
