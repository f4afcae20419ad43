"""Entity linking without a model: the entities that a question names, and the two things that it compares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Matrix, Snapshot
from graphrag_core.text import FUNCTION, OPENERS, normalise
from graphrag_core.text.cjk import CJK, has_cjk
from graphrag_core.text.words import NAME_WORD

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

# -- questions that compare

_TOKEN = re.compile(r"[^\s,;?!()\"“”]+|[,;]")
_FRAME = frozenset(
    """difference differences between differ differs differing different compare compares compared comparing comparison
    versus vs vs. both each same respectively""".split()
)
_COMPARES = _FRAME - {"between"}  # "the link between X and Y" is one thing
_ASKS = frozenset("which what how when where who whose why".split())
_REFERS_BACK = frozenset("it its they them their this that these those he she his her".split())
_JOINS = frozenset(("and", "or"))
_OPPOSES = frozenset(("versus", "vs", "vs."))
_OPPOSES_WITH = frozenset(
    ("compared with", "compared to", "opposed to", "different from", "differ from", "differs from")
)
_INSIDE = frozenset(("of", "a", "an", "the"))  # do not end a noun phrase that goes on
_BRACKETS = str.maketrans("", "", "?!.\"'()“”")
_IDENTIFIER = re.compile(r"\d|\w[-_./:]\w|[a-z][A-Z]")
_LONGEST = 6  # words of a side's name

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
            ((entities, similarity),) = snapshot.search_vectors("entities", vector[None, :], self.nearest)
            return entities[similarity >= self.least_similarity][: self.nearest]
        return entities[: self.most]

    def _by_part(self, question: str, snapshot: Snapshot, exact: Keys) -> Keys:
        """Return entities whose names have all words of a capitalised or quoted phrase, besides the exact names.

        Exact names count among those of a phrase.
        """
        found: dict[int, None] = {}
        for phrase in self.phrases_in(question):
            if not (terms := snapshot.terms(phrase)) or not normalise(phrase):
                continue
            inside = max((_same_start(word, term) for word in normalise(phrase).split() for term in terms), key=len)
            entities = snapshot.search_names("", inside)  # most mentioned first
            entities = entities[snapshot.terms_in("entities", entities, terms).all(axis=1)]
            is_exact = among(entities, np.sort(exact))
            matches = np.concatenate([entities[is_exact], entities[~is_exact]])[: self.phrases]
            found.update(dict.fromkeys(matches[~among(matches, np.sort(exact))].tolist()))
        return np.array(list(found), np.int64)

    def phrases_in(self, question: str) -> list[str]:
        """Return the capitalised and quoted phrases that may name entities by a part of their name; case matters."""
        quoted = (next(filter(None, match.groups())) for match in islice(_QUOTED.finditer(question), _MAX_QUOTES))
        phrases = [*_CAPITALISED.findall(question)[:_MAX_QUOTES], *quoted] if self.phrases else []
        return [*dict.fromkeys(" ".join(phrase.split()) for phrase in phrases)]

    def known_names(self, question: str, snapshot: Snapshot) -> list[tuple[int, int, int]]:
        """Return every known name in a question, longest first: its first and last word (exclusive) and its entity.

        Case matters: a single word is a name if it is capitalised, or if no word is.
        """
        text = _POSSESSIVE.sub("", question)
        spans = (_every_part if self.every_part else _candidates)(text, self.most_words)
        known = snapshot.find_entities({norm for _, _, norm in spans})
        longest_first = sorted((start - end, start, end, norm) for start, end, norm in spans if norm in known)
        return [(start, end, known[norm]) for _, start, end, norm in longest_first]


def _candidates(question: str, most_words: int) -> list[Span]:
    """Return every sequence of words that may be a name."""
    matches = list(islice(NAME_WORD.finditer(question), _MAX_WORDS))
    words = [match.group() for match in matches]
    all_lower_case = not any(word[0].isupper() for word in words[1:])
    spans = list(_word_sequences(question, matches, most_words))
    for at, word in enumerate(words):
        lower = word.lower()
        is_name = all_lower_case or word[0].isdigit() or (word[0].isupper() and lower not in OPENERS)
        if is_name and lower not in FUNCTION:
            spans.append((at, at + 1, normalise(word)))
    for quote in islice(_QUOTED.finditer(question), _MAX_QUOTES):  # a quoted name may be long or in lower case
        inside = [at for at, match in enumerate(matches) if quote.start() < match.start() < quote.end()]
        if inside:
            spans.append((inside[0], inside[-1] + 1, normalise(quote.group()[1:-1])))
    if not question.isascii():
        spans.extend(_cjk_candidates(question))
    return [span for span in spans if span[2]]


def _word_sequences(question: str, matches: Sequence[re.Match[str]], most_words: int) -> Iterator[Span]:
    """Yield every sequence of two words and more that does not start and end with a function word."""
    lower = [match.group().lower() for match in matches]
    # Lower case is the normalised form of ASCII words with single spaces between them, unless the first is an article.
    simple = [match.group().isascii() and match.group().isalnum() for match in matches]
    joined = [False, *(question[a.end() : b.start()] == " " for a, b in pairwise(matches))]
    for first, word in enumerate(lower):
        if word in _ARTICLES:  # names are compared without their article
            continue
        name, is_known = word, simple[first]
        for last in range(first + 1, min(first + most_words, len(lower))):
            is_known = is_known and simple[last] and joined[last]
            name = f"{name} {lower[last]}"
            if word not in FUNCTION or lower[last] not in FUNCTION:
                text = name if is_known else normalise(question[matches[first].start() : matches[last].end()])
                yield first, last + 1, text


def _same_start(word: str, other: str) -> str:
    """Return the characters with which two words begin alike, as forms of a word do."""
    return word[: next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), len(other))]


def _every_part(question: str, most_words: int) -> list[Span]:
    """Return every sequence of words, also with its last word in the singular or plural; the exact form first."""
    matches = list(islice(NAME_WORD.finditer(question), _MAX_WORDS))
    spans: list[Span] = []
    for start, first in enumerate(matches):
        for end in range(start + 1, min(start + most_words, len(matches)) + 1):
            name = normalise(question[first.start() : matches[end - 1].end()])
            forms = (name, f"{name}s", name.removesuffix("s"), name.removesuffix("es"), _SINGULAR.sub("y", name))
            spans.extend((start, end, form) for form in dict.fromkeys(forms) if form)
    return [*spans, *(_cjk_candidates(question) if not question.isascii() else ())]


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


def sides(question: str) -> tuple[str, str] | None:
    """Return the question about each of two things alone; None if it does not ask about two.

    An ordinary "and" counts if the question compares, or if it is between names.

    >>> sides("What is the difference between git stash and git worktree?")
    ('git stash', 'git worktree')
    >>> sides("How long is the visibility timeout on Redis compared with Amazon SQS?")
    ('How long is the visibility timeout on Redis', 'How long is the visibility timeout on Amazon SQS')
    >>> sides("Which tokenizer do FTS4 tables use, and which one do FTS5 tables use?")
    ('Which tokenizer do FTS4 tables use', 'Which tokenizer do tables use which one do FTS5 tables use')
    >>> sides("How do I install and configure the broker?")
    """
    words = [match.group() for match in _TOKEN.finditer(question)]
    lower = [word.lower().rstrip(".?!") for word in words]
    compares = not _COMPARES.isdisjoint(lower)
    for at, word in enumerate(lower):
        width = 2 if " ".join(lower[at : at + 2]) in _OPPOSES_WITH else 1
        opposes = width == 2 or word in _OPPOSES
        if not opposes and word not in _JOINS:
            continue
        if word == "and" and not _ASKS.isdisjoint(lower[at + 1 : at + 3]):
            if _asks_alike(lower[:at], lower[at + 1 :]):
                return _clauses(words, at)
            continue
        if (phrases := _phrases_around(words, lower, at, width)) is None:
            continue
        left, right = phrases
        named = _is_name(words, left) and _is_name(words, right)
        repeats = at + 1 < right[0] and lower[at + 1] in lower[max(left[0] - 2, 0) : left[0]]  # "in X and in Y"
        if opposes or compares or named or repeats:
            return _without(words, lower, (at, right[1]), left), _without(words, lower, (left[0], right[0]), right)
    return None


def _phrases_around(
    words: Sequence[str], lower: Sequence[str], at: int, width: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the spans of the noun phrases before and after the words that join them; None if one is a number."""
    left, right = _before(lower, at), _after(words, lower, at + width, words[max(at - 1, 0)])
    if left is None or right is None:
        return None
    if _is_name(words, left) and _is_name(words, right) and words[right[0]][0].isupper():
        while not _is_name(words, (left[0], left[0] + 1)):  # "Who owns Lumen Works": a verb before a name
            left = left[0] + 1, left[1]
    has_letters = all(any(map(str.isalpha, "".join(words[slice(*side)]))) for side in (left, right))
    return (left, right) if has_letters else None


def _asks_alike(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether the second part of a question asks what the first one asks, about another thing."""
    if not _REFERS_BACK.isdisjoint(right):
        return False
    content = {word for word in right if word not in FUNCTION and word not in ",;"}
    same = not content.isdisjoint(left) or "one" in right
    return bool(content) and (same or (len(content) > 1 and not _ASKS.isdisjoint(set(left) & set(right))))


def _clauses(words: Sequence[str], at: int) -> tuple[str, str]:
    """Return the sides of "which X does A have, and which does B have, [rest]"."""
    right = list(words[at + 1 :])
    comma = right.index(",") if "," in right else len(right)
    right, rest = right[:comma], right[comma + 1 :]
    left = [word for word in words[:at] if word != ","]
    names = [_is_name(left, (i, i + 1)) for i in range(len(left))]
    has_names = any(names) and any(_is_name(right, (i, i + 1)) for i in range(len(right)))
    shared = [word for word, name in zip(left, names, strict=True) if not name] if has_names else []
    return " ".join([*left, *rest]), " ".join([*shared, *right, *rest])


def _before(lower: Sequence[str], at: int) -> tuple[int, int] | None:
    """Return the span of the noun phrase that ends before a word."""
    end = at
    while end and (lower[end - 1] in FUNCTION or lower[end - 1] == ","):
        end -= 1
    start = end
    while start and end - start < _LONGEST and _continues(lower, start - 1, -1):
        start -= 1
    while start < end and lower[start] in FUNCTION:
        start += 1
    return (start, end) if start < end else None


def _after(words: Sequence[str], lower: Sequence[str], start: int, before: str) -> tuple[int, int] | None:
    """Return the span of the noun phrase that starts at a word; after a name, only names belong to it."""
    while start < len(lower) and (lower[start] in FUNCTION or lower[start] == ","):
        start += 1
    end = start
    names_only = _is_name((before, before), (1, 2)) and start < len(words) and _is_name(words, (start, start + 1))
    while end < len(lower) and end - start < _LONGEST and _continues(lower, end, 1):
        if names_only and not _is_name(words, (end, end + 1)):
            break
        end += 1
    while end > start and lower[end - 1] in FUNCTION:
        end -= 1
    return (start, end) if start < end else None


def _continues(lower: Sequence[str], at: int, step: int) -> bool:
    word = lower[at]
    if word in _INSIDE:
        return 0 <= at + step < len(lower)
    return word not in FUNCTION and word not in _FRAME and word not in ",;"


def _is_name(words: Sequence[str], span: tuple[int, int]) -> bool:
    """Return whether a word of a span is capitalised, or has a digit or a joint as identifiers do."""
    for at in range(*span):
        word = words[at].translate(_BRACKETS)
        if (at > 0 and word[:1].isupper()) or _IDENTIFIER.search(word):
            return True
    return False


def _without(words: Sequence[str], lower: Sequence[str], left_out: tuple[int, int], kept: tuple[int, int]) -> str:
    """Return a question without one side and the words that compare; the other side alone if no more is asked."""
    others = [at for at in range(len(words)) if not left_out[0] <= at < left_out[1] and lower[at] not in _FRAME]
    asks = any(lower[at] not in FUNCTION and words[at] not in ",;" and not kept[0] <= at < kept[1] for at in others)
    text = " ".join(words[at] for at in (others if asks else range(*kept)))
    return text.rstrip("?!. ")
