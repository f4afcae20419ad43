"""Which entities a question names, without a model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice

import numpy as np

from graphrag_core.ingest.words import FUNCTION, OPENERS
from graphrag_core.ports import Matrix, VectorStore
from graphrag_core.stores.records import Records
from graphrag_core.stores.view import GraphView
from graphrag_core.text import has_cjk, hash64, normalise
from graphrag_core.text.segment import CJK

_WORD = re.compile(rf"(?:(?![{CJK}])[^\W_])+[+#]*")
_CJK_RUN = re.compile(rf"[\w·・]*[{CJK}][\w·・]*")
_CJK_UNIT = re.compile(rf"[{CJK}·・]|(?:(?![{CJK}])\w)+")
_POSSESSIVE = re.compile(r"['’]s\b")
_QUOTED = re.compile(
    r"\"([^\"]{1,200})\"|“([^”]{1,200})”|«([^»]{1,200})»|`([^`]{1,200})`"
    r"|(?<!\w)'([^']{1,200})'(?!\w)|「([^」]{1,200})」|『([^』]{1,200})』|《([^》]{1,200})》"
)
_ARTICLES = ("the", "a", "an")
_LONGEST = 7
_LONGEST_CJK = 24
_MOST_CJK = 600
_MOST_QUOTES = 20
_MOST_WORDS = 400


@dataclass(frozen=True, kw_only=True)
class Recogniser:
    """Finds known names in a question, the longest first; failing that, the nearest names.

    Parameters
    ----------
    nearest
        How many names to take by their vectors when the question names none.
    least_similarity
        The cosine from which a name is near enough.
    """

    nearest: int = 3
    least_similarity: float = 0.75

    def by_name(self, question: str, view: GraphView, records: Records) -> list[int]:
        """Return positions of the entities that a question names, in the order of its words."""
        spans = _candidates(_POSSESSIVE.sub("", question))
        known = _lookup({norm for _, _, norm in spans}, view, records)
        found: dict[int, int] = {}
        used: set[int] = set()
        for start, end, norm in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
            if norm in known and used.isdisjoint(range(start, end)):
                used.update(range(start, end))
                found.setdefault(known[norm], start)
        return sorted(found, key=lambda entity: found[entity])

    def by_vector(self, vector: Matrix, view: GraphView, names: VectorStore) -> list[int]:
        """Return positions of the entities whose names are nearest to a question."""
        ((keys, scores),) = names.search(vector[None, :], 4 * self.nearest, view.name_keys)
        near = scores >= self.least_similarity
        entities, scores = view.name_entity[np.searchsorted(view.name_keys, keys[near])], scores[near]
        return list(dict.fromkeys(entities[np.lexsort((entities, -scores))].tolist()))[: self.nearest]


def _candidates(question: str) -> list[tuple[int, int, str]]:
    """Return start, end and normal form of every stretch of words that may be a name."""
    matches = list(_WORD.finditer(question))[:_MOST_WORDS]
    words = [match.group() for match in matches]
    typed_low = not any(word[0].isupper() for word in words[1:])
    spans = []
    for start, word in enumerate(words):
        alone = word[0].isdigit() or (word[0].isupper() and word.lower() not in OPENERS) or typed_low
        if alone and word.lower() not in FUNCTION:
            spans.append((start, start + 1, normalise(word)))
        if word.lower() in _ARTICLES:  # a name is the same without, and "the director" is none
            continue
        for end in range(start + 2, min(start + _LONGEST, len(words)) + 1):
            stretch = question[matches[start].start() : matches[end - 1].end()]
            if not (word.lower() in FUNCTION and words[end - 1].lower() in FUNCTION):
                spans.append((start, end, normalise(stretch)))
    spans.extend(_quoted(question, matches))
    if has_cjk(question):
        spans.extend(_cjk(question))
    return [span for span in spans if span[2]]


def _cjk(question: str) -> list[tuple[int, int, str]]:
    """Return every stretch of Chinese or Japanese characters, words in Latin letters between them counting as one."""
    spans = []
    left = _MOST_CJK
    for run in _CJK_RUN.finditer(question):
        units = list(_CJK_UNIT.finditer(run.group()))[:left]
        left -= len(units)
        for first in range(len(units)):
            for last in range(first + 1, min(first + _LONGEST_CJK, len(units))):
                start, end = units[first].start(), units[last].end()
                at = 10_000 + run.start()
                spans.append((at + start, at + end, normalise(run.group()[start:end])))
    return spans


def _quoted(question: str, words: list[re.Match[str]]) -> list[tuple[int, int, str]]:
    """Return what stands in quotation marks or backticks, however long and in whatever case."""
    spans = []
    for quote in islice(_QUOTED.finditer(question), _MOST_QUOTES):
        inside = [i for i, word in enumerate(words) if quote.start() < word.start() < quote.end()]
        if inside:
            spans.append((inside[0], inside[-1] + 1, normalise(quote.group()[1:-1])))
    return spans


def _lookup(norms: set[str], view: GraphView, records: Records) -> dict[str, int]:
    """Return the entities of the normal forms that the view knows."""
    numbers = {hash64(norm): norm for norm in norms}
    rows = records.rows(
        "SELECT entity, key FROM names WHERE entity IN (SELECT value FROM json_each(?))", (json.dumps(list(numbers)),)
    )
    found: dict[str, int] = {}
    for number, key in rows:
        position = int(np.searchsorted(view.name_keys, key))
        if position < len(view.name_keys) and view.name_keys[position] == key:
            found[numbers[number]] = int(view.name_entity[position])
    return found
