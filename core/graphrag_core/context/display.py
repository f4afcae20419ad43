"""Describes a hit for people and prompts: its name, the sentences that match the question best, how it was found."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphrag_core.context.retrieved import Channel, Hit, Retrieved, Step
from graphrag_core.model import Chunk, Fact
from graphrag_core.text import CJK, REFERS_TO, has_cjk, label, segment, sentences, unwrap
from graphrag_core.text.markup import plain, without_places
from graphrag_core.text.sentences import best_sentence
from graphrag_core.text.words import QUESTION_STOP_WORDS, WORD

_BREAK = re.compile(r"(?<![.!?:;,…。！？\s])[ \t]*\n\s*(?=[^\sa-z])")
_POSSESSIVE = re.compile(r"['’]s\b")
_LETTER = re.compile(r"[^\W\d_]")
_CJK_ENDS = re.compile(f"[{CJK}]")
_LONGEST_NAME = 200
_MAX_WORDS = 12  # of the question, listed for a hit
_FEWEST_WORDS = 3  # of a sentence that can stand for a passage

_RULE = re.compile(r"[=\-~^*_+#` ]{3,}")  # the line under a heading
_TITLE_MARKS = '#=*_`~^" \t\r'
_LINKS = {  # before the entity, between entity and passage, after the passage; and a note on the entity
    "about": ("about ", ", which ", " mentions", "mentioned in"),
    "mentions": ("mentions ", ", the subject of ", "", "subject of"),
    "both_about": ("about ", ", as is ", "", "also the subject of"),
    "both_mention": ("mentions ", ", as does ", "", "also in"),
}


def section(chunk: Chunk) -> str:
    """Return the title and the nearest heading of a passage; empty if it has neither."""
    return label(chunk.title.strip(), chunk.headings)


def citation(chunk: Chunk) -> str:
    """Return what a passage is called where it is cited: its label and its page, or else its id.

    >>> citation(Chunk("c#4", "c", "…", "Configuration", headings=("broker_url",), page=3))
    'Configuration - broker_url, page 3'
    """
    name = section(chunk) or chunk.id
    return name if chunk.page is None else f"{name}, page {chunk.page}"


def passage_name(chunk: Chunk) -> str:
    """Return a passage's section; without headings its title, numbered if the document has several passages."""
    part = f" · {chunk.ordinal + 1}" if chunk.id != chunk.document_id and not chunk.headings else ""
    name = section(chunk)
    return f"{name}{part}" if name else chunk.id


@dataclass(frozen=True, slots=True)
class HitText:
    """A hit in words: what the command line, the page, the explorer and ``Result.explain`` show of it.

    ``rank`` starts at 1. ``path`` has the steps between the question and the passage, with the ranks of hits on it.
    ``link`` says in pieces how the hit is linked to a better one: at 1 is the entity, at 3 the other passage. It is
    empty without a link, or if the path shows it. ``covers`` are the words of the question that no better hit has.
    """

    rank: int
    hit: Hit
    path: tuple[Step, ...]
    found: str
    link: tuple[str, ...]
    covers: str

    def place(self, *, offset: bool = True) -> list[str]:
        """Return the page of the passage and its offset in the document."""
        chunk = self.hit.chunk
        page = f"page {chunk.page}" if chunk.page is not None else ""
        start = f"from character {chunk.start:,}" if offset and chunk.start else ""
        return [*filter(None, (page, start))]


def hit_texts(result: Retrieved) -> list[HitText]:
    """Return the hits of a result in words."""
    texts = []
    for rank, hit in enumerate(result.hits, 1):
        link = () if path_ends_in_link(hit) else link_pieces(hit)
        path = _linked_path(result, hit)
        texts.append(HitText(rank, hit, path, how_found(hit), link, covered_words(hit)))
    return texts


def rank_text(channel: Channel) -> str:
    """Return the rank of a passage in a channel, and its score there if that is not negative, as a logarithm may be.

    >>> from graphrag_core.result import Channel
    >>> rank_text(Channel(2, 0.4567)), rank_text(Channel(1, -1.5))
    ('#2 (0.457)', '#1')
    """
    return f"#{channel.rank} ({channel.score:.3g})" if channel.score >= 0 else f"#{channel.rank}"


def how_found(hit: Hit) -> str:
    """Return by which searches a passage was found.

    >>> from graphrag_core import Hit
    >>> from graphrag_core.result import Channel
    >>> how_found(Hit(Chunk("c", "c", "Text"), 1.0, {"vector": Channel(5, 0.3), "keyword": Channel(2, 7.1)}))
    'found by plain search: keyword rank 2, vector rank 5'
    """
    ranks = sorted((channel.rank, name) for name, channel in hit.channels.items() if name != "graph")
    text = "found by plain search: " + ", ".join(f"{name} rank {rank}" for rank, name in ranks) if ranks else ""
    if "graph" in hit.channels:
        text = f"{f'{text}; ' if text else 'found by the '}graph rank {hit.channels['graph'].rank}"
    return "; ".join(filter(None, (text, why_moved(hit))))


def why_moved(hit: Hit) -> str:
    """Return why a hit is above passages that plain search ranks higher; empty if it is above none of these."""
    words = ", ".join(f"'{word}'" for word in (hit.covers or hit.words)[:_MAX_WORDS])
    link = hit.link
    reasons = {
        "words": f"contains {words}" if words else "has words like those of the question",
        "links": f"linked to passage {link.rank} by {link.entity}" if link else "linked to passages above",
        "graph": "its rank in the graph",
        "vector": "its rank by vector",
        "document": "inside the document that the question names",
    }
    return f"moved up: {'; '.join(reasons[name] for name in hit.moved)}" if hit.moved else ""


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
    link = hit.link
    if link is None:
        return ()
    before, between, after, _ = _LINKS[link.kind]
    return before, link.entity, between, f"passage {link.rank}", after


def marked_words(hit: Hit) -> list[tuple[str, bool]]:
    """Return the words of the question in a hit, each with whether no hit above contains it.

    >>> from graphrag_core import Hit
    >>> from graphrag_core.result import Explanation, Lazy, Reason
    >>> reason = Reason(words=("broker_url", "set"), covers=("url",))
    >>> why = Lazy.of(Explanation(reasons={"c": reason}))
    >>> marked_words(Hit(Chunk("c", "c", "Text"), 1.0, explanation=why))
    [('broker', False), ('url', True), ('set', False)]
    """
    new = {word.casefold() for word in hit.covers}
    parts = re.compile("|".join(f"({_whole(word)})" for word in sorted(hit.covers, key=len, reverse=True)) or "(?!)")
    marked: dict[str, bool] = {}
    for word in hit.words:
        at = 0
        for match in [] if word.casefold() in new else parts.finditer(word):
            marked.setdefault(word[at : match.start()].strip("_./:-"), False)
            marked[match.group()] = True
            at = match.end()
        marked.setdefault(word[at:].strip("_./:-"), word.casefold() in new)
    return [(word, is_new) for word, is_new in marked.items() if word]


def path_ends_in_link(hit: Hit) -> bool:
    """Return whether the path and the link of a hit lead through the same entity, so that the path tells the link."""
    return hit.link is not None and ("entity", hit.link.entity_id) in [(s.kind, s.id) for s in hit.path[-2:-1]]


def path_starts_at_link(hit: Hit) -> bool:
    """Return whether the path of a hit starts at the passage that the hit is linked to."""
    return hit.link is not None and ("chunk", hit.link.chunk_id) in [(s.kind, s.id) for s in hit.path[1:2]]


def _linked_path(result: Retrieved, hit: Hit) -> tuple[Step, ...]:
    """Return the path of a hit with the ranks of the hits on it; its last entity tells the link if that is the same."""
    path = shown_path(result, hit)
    link = hit.link
    ranks = {other.chunk.id: rank for rank, other in enumerate(result.hits, 1)}
    if path and path[0].kind == "chunk" and path[0].id in ranks:
        path = (replace(path[0], text=f"{path[0].text} (passage {ranks[path[0].id]})"), *path[1:])
    if link is None or not path_ends_in_link(hit) or path_starts_at_link(hit):
        return path
    note = f"{_LINKS[link.kind][-1]} passage {link.rank}"
    return (*path[:-1], replace(path[-1], text=f"{path[-1].text} ({note})"))


def shown_path(result: Retrieved, hit: Hit) -> tuple[Step, ...]:
    """Return the steps between the question and a passage, with cross-references in words."""
    facts = {fact.id: fact for fact in result.facts if fact.relation == REFERS_TO and len(fact.entities) > 1}
    return tuple(
        replace(step, text=fact_words(result, facts[step.id])) if step.kind == "fact" and step.id in facts else step
        for step in hit.path[1:-1]
    )


def fact_words(result: Retrieved, fact: Fact) -> str:
    """Return a fact as a sentence that names its subject X: "X refers to Y: …" for a cross-reference, else "X: …"."""
    text = _joined(plain(fact.text).strip())
    names = [entity.name if (entity := result.known.get(key)) else key for key in fact.entities]
    if fact.relation == REFERS_TO and len(names) > 1:
        words = f"{names[0]} refers to {names[1]}"
        return f"{words}: {text}" if text and text != words else words
    if not names or names[0].casefold() in text.casefold():
        return text
    return f"{names[0]}: {text}"


def body_text(chunk: Chunk) -> str:
    r"""Return a passage without leading lines that only repeat its title or one of its headings.

    >>> body_text(Chunk("c", "c", "Guide\n=====\n\nIt starts.", "Guide"))
    'It starts.'
    >>> body_text(Chunk("c", "c", "RAID-1\n: It mirrors disks.", headings=("RAID-1",)))
    'It mirrors disks.'
    >>> body_text(Chunk("c", "c", "# Guide", "Guide"))
    '# Guide'
    """
    names = {_bare(name) for name in (chunk.title, *chunk.headings)} - {""}
    text = without_places(chunk.text).strip()
    at = 0
    while at < len(text):
        end = text.find("\n", at) % (len(text) + 1)
        line = text[at:end]
        if line.strip() and (not names or (_bare(line) not in names and not _RULE.fullmatch(line.strip()))):
            return text[at:].removeprefix(": ") if at else text  # of a definition, whose term is the heading
        at = end + 1
        while text[at : at + 1] in ("\n", "\r"):
            at += 1
    return text


class Highlighter:
    """Finds in the passages of a result what its question asks for. Rare words of the question count more."""

    def __init__(self, result: Retrieved) -> None:
        self._texts = {hit.chunk.id: unwrap(plain(body_text(hit.chunk)).strip()) for hit in result.hits}
        self._sentences = {key: _candidates(text) for key, text in self._texts.items()}
        self._names = name_pattern(name for entity in result.entities for name in (entity.name, *entity.aliases))
        asked = _words(_POSSESSIVE.sub("", result.question))
        # A digit alone is a part of a number such as 3.0, and in every other number.
        self._asked = {stem for word in asked if (stem := _stem(word)) and not (len(word) == 1 and word.isdigit())}
        counts: Counter[str] = Counter()
        count = 0
        for key, spans in self._sentences.items():
            for start, end in spans:
                counts.update(self._asked_in(self._texts[key][start:end]))
                count += 1
        self._weights = {word: math.log(1 + count / (1 + counts[word])) for word in self._asked}

    def sentence(self, hit: Hit) -> str:
        """Return the sentence of a passage that holds most of the question's rare words."""
        start, end = self._best(hit)
        return _joined(self._texts[hit.chunk.id][start:end])

    def snippet(self, hit: Hit, length: int) -> str:
        """Return the best sentence of a passage and its neighbours, in about ``length`` characters at most."""
        text, spans = self._texts[hit.chunk.id], self._sentences[hit.chunk.id]
        if not spans:
            return ""
        first, last = _window(spans, spans.index(self._best(hit)), length)
        shown = _joined(text[spans[first][0] : spans[last][1]])
        if len(shown) > length:
            shown = excerpt(shown, next((start for start, _ in self._marks(shown)), 0), length)
        else:
            shown += " …" if last + 1 < len(spans) else ""
        return shown if first == 0 or shown.startswith("… ") else f"… {shown}"

    def pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield a text in pieces, each with whether it is a name or a word of the question."""
        at = 0
        for start, end in self._marks(text):
            if start > at:
                yield text[at:start], False
            yield text[start:end], True
            at = end
        if at < len(text):
            yield text[at:], False

    def names(self, text: str) -> list[str]:
        """Split a text at the names of the question's entities; every second piece is a name."""
        return self._names.split(text)

    def _best(self, hit: Hit) -> tuple[int, int]:
        text, spans = self._texts[hit.chunk.id], self._sentences[hit.chunk.id]
        if not spans:
            return 0, len(text)
        texts = [text[start:end] for start, end in spans]
        wholes = [len(WORD.findall(segment(sentence))) >= _FEWEST_WORDS for sentence in texts]
        return spans[best_sentence([self._asked_in(sentence) for sentence in texts], self._weights, wholes)]

    def _asked_in(self, text: str) -> set[str]:
        """Return the stems of the question's words that a text holds."""
        return {stem for word in _words(text) if (stem := _stem(word)) in self._asked}

    def _marks(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of names and question words, in order and not overlapping."""
        names = [match.span() for match in self._names.finditer(text) if match.group()]
        taken = bytearray(len(text))
        for start, end in names:
            taken[start:end] = b"\1" * (end - start)
        words = [match.span() for match in WORD.finditer(text) if _stem(match.group().lower()) in self._asked]
        others = [*(self._pairs(text) if has_cjk(text) else ()), *words]
        return sorted([*names, *(span for span in others if not any(taken[slice(*span)]))])

    def _pairs(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of runs of the question's pairs of Chinese characters, which overlap."""
        pairs = bytearray(len(text))
        for pair in filter(has_cjk, self._asked):
            for match in re.finditer(re.escape(pair), text):
                pairs[match.start() : match.end()] = b"\1" * len(pair)
        return (match.span() for match in re.finditer(rb"\x01+", bytes(pairs)))


def _window(spans: Sequence[tuple[int, int]], best: int, length: int) -> tuple[int, int]:
    """Return the first and the last sentence around the best one that fit into a length, those after it first."""
    first = last = best
    while True:
        after = last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= length
        before = not after and first > 0 and spans[last][1] - spans[first - 1][0] <= length
        if not after and not before:
            return first, last
        first, last = first - before, last + after


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


def _whole(word: str) -> str:
    """Return a pattern for a word that is no part of another one; Chinese and Japanese have no boundaries."""
    return re.escape(word) if has_cjk(word) else rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"


def name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern with one group for names, the longest first, as whole words."""
    kept = {name.strip() for name in names}
    ordered = sorted((name for name in kept if 1 < len(name) <= _LONGEST_NAME), key=lambda name: (-len(name), name))
    # Scripts without spaces between words have no word boundaries.
    patterns = (
        ("" if _CJK_ENDS.match(name[0]) else r"(?<!\w)")
        + re.escape(name)
        + ("" if _CJK_ENDS.match(name[-1]) else r"(?!\w)")
        for name in ordered
    )
    return re.compile(f"({'|'.join(patterns) or '(?!)'})", re.IGNORECASE)


def _candidates(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a text that hold a letter; "1." is none."""
    return [(start, end) for start, end in sentences(text) if _LETTER.search(text, start, end)]


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in WORD.finditer(segment(text).lower()))


def _stem(word: str) -> str:
    """Return a word without a common English ending; empty for a function word.

    >>> _stem("file") == _stem("files"), _stem("calls") == _stem("called"), _stem("query") == _stem("queries")
    (True, True, True)
    """
    if word in QUESTION_STOP_WORDS:
        return ""
    word = _singular(word)
    word = next((word[: -len(end)] for end in ("ing", "ed") if word.endswith(end) and len(word) - len(end) > 2), word)
    word = word.removesuffix("e") if len(word) > 3 else word
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _bare(line: str) -> str:
    return " ".join(line.strip(_TITLE_MARKS).replace("`", "").replace("*", "").casefold().split())


def _joined(text: str) -> str:
    r"""Return a text in one line. A dot separates headings, list items and rows, which were separate lines.

    >>> _joined("Licence\nIt is free\nsoftware.\nSee below.")
    'Licence · It is free software. See below.'
    """
    return " ".join(_BREAK.sub(" · ", text).split())
