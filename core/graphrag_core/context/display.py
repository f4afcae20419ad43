"""Describes a hit for people and prompts: its name, the sentences that match the question best, how it was found."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphrag_core.context.retrieved import Hit, Retrieved, Signal, Step
from graphrag_core.model import Chunk, Fact
from graphrag_core.text import CJK, REFERS_TO, label, sentences, unwrap
from graphrag_core.text.markup import plain, without_places
from graphrag_core.text.words import QUESTION_STOP_WORDS, WORD

_MAX_WORDS = 12  # of the question, listed for a hit
_FEWEST_WORDS = 3  # of a sentence that can stand for a passage
_LONGEST_NAME = 200
_BREAK = re.compile(r"(?<![.!?:;,…。！？\s])[ \t]*\n\s*(?=[^\sa-z])")  # after a heading, a list item or a row
_LETTER = re.compile(r"[^\W\d_]")
_PAIR_OR_WORD = re.compile(rf"(?=([{CJK}]{{2}}))|((?:(?![{CJK}])[^\W_])+)")  # pairs of characters overlap
_RULE = re.compile(r"[=\-~^*_+#` ]{3,}")  # the line under a heading
_TITLE_MARKS = '#=*_`~^" \t\r'
_LINKS = {  # before the entity, between entity and passage, after the passage
    "about": ("about ", ", which ", " mentions"),
    "mentions": ("mentions ", ", the subject of ", ""),
    "both_about": ("about ", ", as is ", ""),
    "both_mention": ("mentions ", ", as does ", ""),
}


def citation(chunk: Chunk) -> str:
    """Return what a passage is called where it is cited: its label and its page, or else its id.

    >>> citation(Chunk("c#4", "c", "…", "Configuration", headings=("broker_url",), page=3))
    'Configuration - broker_url, page 3'
    """
    name = label(chunk.title.strip(), chunk.headings) or chunk.id
    return name if chunk.page is None else f"{name}, page {chunk.page}"


def passage_name(chunk: Chunk) -> str:
    """Return a passage's title and heading; without headings its title, numbered if the document is split."""
    part = f" · {chunk.ordinal + 1}" if chunk.id != chunk.document_id and not chunk.headings else ""
    name = label(chunk.title.strip(), chunk.headings)
    return f"{name}{part}" if name else chunk.id


@dataclass(frozen=True, slots=True)
class HitText:
    """A hit in words: what the command line, the page, the explorer and ``Result.explain`` show of it.

    ``rank`` starts at 1. ``path`` has the steps between the question and the passage. ``link`` says in pieces how the
    hit is linked to a better one: at 1 is the entity, at 3 the other passage; it is empty if the path starts there.
    ``covers`` are the words of the question that no better hit has.
    """

    rank: int
    hit: Hit
    path: tuple[Step, ...]
    found: str
    link: tuple[str, ...]
    covers: str

    def place(self) -> list[str]:
        """Return the page of the passage and its offset in the document."""
        page, start = self.hit.chunk.page, self.hit.chunk.start
        return [f"page {page}"] * (page is not None) + [f"from character {start:,}"] * (start > 0)


def hit_texts(result: Retrieved) -> list[HitText]:
    """Return the hits of a result in words."""
    texts = []
    for rank, hit in enumerate(result.hits, 1):
        path = shown_path(result, hit)
        is_told = hit.link is not None and hit.link.chunk_id in (step.id for step in path[:1])
        link = () if is_told else link_pieces(hit)
        texts.append(HitText(rank, hit, path, how_found(hit), link, covered_words(hit)))
    return texts


def how_found(hit: Hit) -> str:
    """Return by which searches a passage was found, and why it is above passages that plain search ranks higher.

    >>> from graphrag_core import Hit
    >>> from graphrag_core.result import Channel
    >>> how_found(Hit(Chunk("c", "c", "Text"), 1.0, {"vector": Channel(5, 0.3), "keyword": Channel(2, 7.1)}))
    'found by plain search: keyword rank 2, vector rank 5'
    """
    ranks = sorted((channel.rank, name) for name, channel in hit.channels.items() if name != "graph")
    parts = ["found by plain search: " + ", ".join(f"{name} rank {rank}" for rank, name in ranks)] if ranks else []
    if "graph" in hit.channels:
        parts.append(f"{'' if parts else 'found by the '}graph rank {hit.channels['graph'].rank}")
    words = ", ".join(f"'{word}'" for word in (hit.covers or hit.words)[:_MAX_WORDS])
    link = hit.link
    reasons: dict[Signal, str] = {
        "words": f"contains {words}" if words else "has words like those of the question",
        "links": f"linked to passage {link.rank} by {link.entity}" if link else "linked to passages above",
        "graph": "its rank in the graph",
        "vector": "its rank by vector",
        "document": "inside the document that the question names",
    }
    if hit.moved:
        parts.append(f"moved up: {'; '.join(reasons[name] for name in hit.moved)}")
    return "; ".join(parts)


def covered_words(hit: Hit) -> str:
    """Return the words of the question that a hit contains and no hit above it; empty if there are none."""
    new = "" if hit.words == hit.covers else "new "
    return f"{new}words of the question: {_listed(hit.covers)}" if hit.covers else ""


def uncovered_words(result: Retrieved) -> str:
    """Return the words of the question that no hit contains; empty if there are none."""
    return f"in no passage: {_listed(result.uncovered)}" if result.uncovered else ""


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _MAX_WORDS
    return ", ".join(words[:_MAX_WORDS]) + (f" and {more:,} more" if more > 0 else "")


def link_pieces(hit: Hit) -> tuple[str, ...]:
    """Return how a hit is linked to one above it, in pieces as in :class:`HitText`; empty if it is not."""
    if (link := hit.link) is None:
        return ()
    before, between, after = _LINKS[link.kind]
    return before, link.entity, between, f"passage {link.rank}", after


def marked_words(hit: Hit) -> list[tuple[str, bool]]:
    """Return the words of the question in a hit, each with whether no hit above contains it."""
    return [(word, True) for word in hit.covers] + [(word, False) for word in hit.words if word not in hit.covers]


def shown_path(result: Retrieved, hit: Hit) -> tuple[Step, ...]:
    """Return the steps between the question and a passage: the rank of a passage, cross-references in words."""
    facts = {fact.id: fact for fact in result.facts if fact.relation == REFERS_TO and len(fact.entities) > 1}
    ranks = {other.chunk.id: rank for rank, other in enumerate(result.hits, 1)}
    steps = []
    for step in hit.path[1:-1]:
        text = step.text
        if step.kind == "fact" and step.id in facts:
            text = fact_words(result, facts[step.id])
        elif step.kind == "chunk" and step.id in ranks:
            text = f"{text} (passage {ranks[step.id]})"
        steps.append(replace(step, text=text))
    return tuple(steps)


def fact_words(result: Retrieved, fact: Fact) -> str:
    """Return a fact as a sentence that names its subject X: "X refers to Y: …" for a cross-reference, else "X: …"."""
    text = _joined(plain(fact.text).strip())
    names = [entity.name if (entity := result.known.get(key)) else key for key in fact.entities]
    if fact.relation == REFERS_TO and len(names) > 1:
        words = f"{names[0]} refers to {names[1]}"
        return f"{words}: {text}" if text and text != words else words
    return text if not names or names[0].casefold() in text.casefold() else f"{names[0]}: {text}"


def body_text(chunk: Chunk) -> str:
    r"""Return a passage without leading lines that only repeat its title or one of its headings.

    >>> body_text(Chunk("c", "c", "Guide\n=====\n\nIt starts.", "Guide"))
    'It starts.'
    >>> body_text(Chunk("c", "c", "RAID-1\n: It mirrors disks.", headings=("RAID-1",)))
    'It mirrors disks.'
    """
    names = {_bare(name) for name in (chunk.title, *chunk.headings)} - {""}
    text = without_places(chunk.text).strip()
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.strip() and (not names or (_bare(line) not in names and not _RULE.fullmatch(line.strip()))):
            # A definition, whose term is the heading, starts with a colon.
            return "\n".join(lines[at:]).removeprefix(": ") if at else text
    return text


def _bare(line: str) -> str:
    return " ".join(line.strip(_TITLE_MARKS).replace("`", "").replace("*", "").casefold().split())


class Highlighter:
    """Finds in the passages of a result what its question asks for. Rare words of the question count more."""

    def __init__(self, result: Retrieved) -> None:
        self._names = name_pattern(name for entity in result.entities for name in (entity.name, *entity.aliases))
        self._asked = _asked(result.question)
        self._texts = {hit.chunk.id: unwrap(plain(body_text(hit.chunk)).strip()) for hit in result.hits}
        self._spans = {key: _sentences(text) for key, text in self._texts.items()}
        words = {
            key: [_terms(self._texts[key][slice(*span)]) & self._asked for span in spans]
            for key, spans in self._spans.items()
        }
        counts = Counter(word for found in words.values() for one in found for word in one)
        total = sum(map(len, words.values()))
        weights = {word: math.log(1 + total / (1 + counts[word])) for word in self._asked}
        self._best = {key: self._best_of(key, found, weights) for key, found in words.items()}

    def sentence(self, hit: Hit) -> str:
        """Return the sentence of a passage that holds most of the question's rare words."""
        key = hit.chunk.id
        return _joined(self._texts[key][slice(*self._spans[key][self._best[key]])])

    def snippet(self, hit: Hit, length: int) -> str:
        """Return the best sentence of a passage and its neighbours, in about ``length`` characters at most."""
        text, spans = self._texts[hit.chunk.id], self._spans[hit.chunk.id]
        first = last = self._best[hit.chunk.id]
        while True:  # sentences after it come first
            if last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= length:
                last += 1
            elif first > 0 and spans[last][1] - spans[first - 1][0] <= length:
                first -= 1
            else:
                break
        shown = _joined(text[spans[first][0] : spans[last][1]])
        if len(shown) > length:
            shown = excerpt(shown, next((start for start, _ in self._marks(shown)), 0), length)
        elif last + 1 < len(spans):
            shown += " …"
        return shown if first == 0 or shown.startswith("… ") else f"… {shown}"

    def pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield a text in pieces, each with whether it is a name or a word of the question."""
        at = 0
        for start, end in [*self._marks(text), (len(text), len(text))]:
            if start > at:
                yield text[at:start], False
            if end > start:
                yield text[start:end], True
            at = end

    def names(self, text: str) -> list[str]:
        """Split a text at the names of the question's entities; every second piece is a name."""
        return self._names.split(text)

    def _best_of(self, key: str, words: Sequence[set[int]], weights: Mapping[int, float]) -> int:
        """Return the place of the best sentence of a passage, by the words of the question in each."""
        texts = [self._texts[key][slice(*span)] for span in self._spans[key]]
        # Exact sums: words come from sets, in any order. Of equal sentences one with enough words is better.
        totals = [math.fsum(weights[word] for word in found) for found in words]
        are_whole = [len(text.split()) >= _FEWEST_WORDS or not text.isascii() for text in texts]
        return max(range(len(texts)), key=lambda place: (totals[place], are_whole[place]))

    def _marks(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of names and words of the question, in order and not overlapping."""
        spans = [match.span() for match in self._names.finditer(text)]
        found = (match.span(match.lastindex or 0) for match in _PAIR_OR_WORD.finditer(text))
        marked = bytearray(len(text))
        for start, end in [*spans, *(span for span in found if _terms(text[slice(*span)]) & self._asked)]:
            marked[start:end] = b"\1" * (end - start)
        return [match.span() for match in re.finditer(rb"\x01+", bytes(marked))]


def _asked(question: str) -> set[int]:
    """Return the terms of a question without function words and single characters, as in 3.0 or "Ada's"."""
    words = (word for word in WORD.findall(question) if len(word) > 1 or not word.isascii())
    return _terms(" ".join(word for word in words if word.lower() not in QUESTION_STOP_WORDS))


def _terms(text: str) -> set[int]:
    """Return the hashes of a text's words, as the keyword index has them."""
    from graphrag_core.engine.analysis import hashes  # noqa: PLC0415 - with tantivy, slow to import

    return hashes(text.encode("utf-8", "replace").decode("utf-8"))


def _sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a text that hold a letter, or else the whole text."""
    return [span for span in sentences(text) if _LETTER.search(text, *span)] or [(0, len(text))]


def excerpt(text: str, at: int, length: int) -> str:
    """Return the part of a text around a place, cut between words if possible, with ellipses for what is left out.

    >>> excerpt("The Auth Service delegates logins to the OAuth Provider.", 41, 24)
    '… to the OAuth Provider.'
    """
    start = max(0, min(at - length // 3, len(text) - length))
    start = text.find(" ", start, at) + 1 if start and text.find(" ", start, at) >= 0 else start
    piece = text[start : start + length]
    if start + length < len(text):
        piece = (piece.rsplit(" ", 1)[0] if " " in piece[length // 2 :] else piece) + " …"
    return piece if start == 0 else f"… {piece}"


def name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern with one group for names, the longest first, as whole words.

    Chinese and Japanese have no word boundaries.
    """
    kept = {name.strip() for name in names}
    ordered = sorted((name for name in kept if 1 < len(name) <= _LONGEST_NAME), key=lambda name: (-len(name), name))
    start, end = rf"(?:(?=[{CJK}])|(?<!\w))", rf"(?:(?<=[{CJK}])|(?!\w))"
    return re.compile(f"{start}({'|'.join(map(re.escape, ordered)) or '(?!)'}){end}", re.IGNORECASE)


def _joined(text: str) -> str:
    r"""Return a text in one line. A dot separates headings, list items and rows, which were separate lines.

    >>> _joined("Licence\nIt is free\nsoftware.\nSee below.")
    'Licence · It is free software. See below.'
    """
    return " ".join(_BREAK.sub(" · ", text).split())
