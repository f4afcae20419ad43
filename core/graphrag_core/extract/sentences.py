"""The default extractor: every sentence is a fact, every name in it an entity. ``Combined`` adds others to it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from graphrag_core.errors import ExtractionError
from graphrag_core.extract.names import NameMatch, code_names, find_names
from graphrag_core.extract.source_names import Reading, SourceNames, sources
from graphrag_core.extract.subjects import Subjects, link_addresses, read_subjects, section_anchors
from graphrag_core.model import SENTENCE_WEIGHT, Chunk, Extraction, Fact, Mention
from graphrag_core.ports import Extractor
from graphrag_core.text import REFERS_TO
from graphrag_core.text.markup import plain
from graphrag_core.text.navigation import is_navigation
from graphrag_core.text.sentences import Prose, Sentence, is_boilerplate, is_disclaimer, is_statement, read_prose

_LEFTOVER = re.compile(r"\*{2,}|(?<!\w)_{2,}(?!\w)|`+|¶|^[*•·–—\-]\s+")
_DIVIDED = re.compile("\u2010\\s+")  # the hyphen at the end of a line
_MAX_FACT, _MAX_LITERAL = 1_000, 120  # characters
_MAX_REFERENCES, _MAX_LINKS = 8, 30  # of a chunk
_REFERENCE_WEIGHT = 10.0


@dataclass(frozen=True, kw_only=True)
class SentenceExtractor:
    """Extracts the names and sentences of a chunk.

    The chunk's title is its subject and counts as mentioned in every sentence. So the sentence
    "It was founded in 1911" still connects its subject with 1911. The nearest heading and the terms that
    a chunk defines are subjects too. Facts are the sentences of paragraphs, list items and definitions
    that say something, and the links in them. Headings, tables, code and boilerplate are not facts. Passages that are
    only navigation, a table of contents or an index have no names.

    >>> chunk = Chunk("1", "1", "It delegates to the OAuth Provider.", title="Auth Service")
    >>> SentenceExtractor().extract([chunk])[0].facts[0].entities
    ('Auth Service', 'OAuth Provider')
    """

    identity: str = "sentences 8"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction per chunk, in order. What is a name is decided for each source."""
        extractions: list[Extraction] = [Extraction()] * len(chunks)
        for positions in sources(chunks):
            readings = list(_read([chunks[position] for position in positions]))
            names = SourceNames(readings)
            for position, reading in zip(positions, readings, strict=True):
                extractions[position] = _extract(reading, names)
        return extractions


def _read(chunks: Sequence[Chunk]) -> Iterator[Reading]:
    """Yield the candidates of a source's chunks. A chunk that continues a section has its addresses too."""
    anchors: tuple[str, ...] = ()
    previous: Chunk | None = None
    for chunk in chunks:
        inherited: tuple[str, ...] = ()
        if chunk.headings or any(mark.kind != "paragraph" for mark in chunk.marks):
            continues = previous is not None and chunk.headings == previous.headings
            starts = next((mark.start for mark in chunk.marks if mark.kind == "heading"), len(chunk.text))
            inherited = anchors if continues and chunk.text[:starts].strip("# \t\r\n") else ()
            anchors = section_anchors(chunk) or (anchors if continues else ())
            previous = chunk
        subjects = read_subjects(chunk, inherited)
        if is_navigation(chunk):  # links may lead to it
            yield Reading(chunk, Subjects(addresses=subjects.addresses), Prose("", [], frozenset()), [], [])
            continue
        prose = read_prose(chunk)
        yield Reading(chunk, subjects, prose, find_names(prose.text, prose.starts), list(_literals(chunk)))


def _literals(chunk: Chunk) -> Iterator[NameMatch]:
    """Yield the names in inline code."""
    for mark in chunk.marks:
        if mark.kind == "literal" and mark.end - mark.start <= _MAX_LITERAL:
            names = code_names(chunk.text[mark.start : mark.end])
            yield from (NameMatch(name, mark.start, mark.end) for name in names)


def _extract(reading: Reading, source: SourceNames) -> Extraction:
    """Return the names, sentences and links of a chunk. A link in a statement is a fact of its own."""
    chunk, prose, subjects = reading.chunk, reading.prose, source.subjects(reading.subjects)
    names = sorted([*source.matches(reading), *reading.literals], key=attrgetter("start"))
    found = [] if prose.sentences else [match.name for match in names]
    facts: list[Fact] = []
    is_plain = all(mark.kind == "paragraph" for mark in chunk.marks)
    seen, at = {chunk.title}, 0
    ends = [sentence.start for sentence in prose.sentences[1:]] + [len(chunk.text) + 1]
    for sentence, end in zip(prose.sentences, ends, strict=False):
        start, at = at, next((i for i in range(at, len(names)) if names[i].start >= end), len(names))
        statement = _statement(chunk, sentence, prose.text)
        if is_boilerplate(statement):
            continue
        mentioned = [] if is_disclaimer(statement) else [match.name for match in names[start:at]]
        found += mentioned
        is_new = statement not in seen and (is_plain or len(statement) <= _MAX_FACT)
        seen.add(statement)
        if is_new and is_statement(statement):
            entities = tuple(dict.fromkeys((*subjects.at(sentence.start), *mentioned)))
            facts.append(Fact(entities, statement, weight=SENTENCE_WEIGHT, span=(sentence.start, sentence.end)))
    links = _links(chunk, subjects)
    facts += list(_references(links, subjects, facts))
    about = subjects.names()
    others = dict.fromkeys(chain(found, *(addresses for _, addresses in links)))
    mentions = [Mention(name, subject=True) for name in about]
    mentions += [Mention(name) for name in others if name not in about]
    return Extraction(tuple(mentions), tuple(facts))


def _references(
    links: Sequence[tuple[int, tuple[str, ...]]], subjects: Subjects, facts: Sequence[Fact]
) -> Iterator[Fact]:
    """Yield for each link in a statement the fact that the chunk's subject refers to the address."""
    for place, addresses in links[:_MAX_REFERENCES]:
        about = subjects.at(place) or subjects.addresses
        stated = next((fact for fact in facts if fact.span and fact.span[0] <= place < fact.span[1]), None)
        if about and stated:
            yield replace(stated, entities=(about[-1], *addresses), relation=REFERS_TO, weight=_REFERENCE_WEIGHT)


def _statement(chunk: Chunk, sentence: Sentence, masked: str) -> str:
    """Return a sentence in one line, without markup; the first one of a definition after its terms."""
    start, block = sentence.start, sentence.block
    if start and chunk.text[start - 1] == "[" != masked[start - 1]:  # a link stands first: its bracket is masked
        start -= 1
    statement = chunk.text[start : sentence.end]
    if statement != masked[start : sentence.end]:
        statement = _LEFTOVER.sub("", plain(statement))
    statement = " ".join(_DIVIDED.sub("", statement).split())
    if block.kind == "definition" and chunk.text[block.start : start].rstrip().endswith(":"):
        marks = (mark for mark in chunk.marks if mark.kind == "term" and block.start <= mark.start < start)
        if terms := ", ".join(mark.value for mark in marks)[:_MAX_LITERAL]:
            return f"{terms}: {statement}"
    return statement


def _links(chunk: Chunk, subjects: Subjects) -> list[tuple[int, tuple[str, ...]]]:
    """Return the start and the possible addresses of a chunk's links, except those to itself."""
    starts: dict[tuple[str, ...], int] = {}
    for mark in chunk.marks:
        if mark.kind == "link" and mark.value and len(starts) < _MAX_LINKS:
            shown = chunk.text[mark.start : mark.end]
            if shown[:1] == "`" and not {*code_names(shown)}.isdisjoint(code_names(mark.value)):
                continue  # inline code with the name that it leads to: the name connects the two
            addresses = tuple(a for a in link_addresses(chunk, mark.value) if a not in subjects.addresses)
            if addresses:
                starts.setdefault(addresses, mark.start)
    return [(start, addresses) for addresses, start in starts.items()]


class Combined:
    """Runs several extractors on each chunk and keeps the results of all.

    Sentence facts together with an LLM's triples gave the best graph in our measurements:
    ``Combined(SentenceExtractor(), LLMExtractor(complete))``.
    """

    def __init__(self, *extractors: Extractor) -> None:
        self.extractors = extractors

    @property
    def identity(self) -> str:
        """The identities of all extractors."""
        return " + ".join(str(getattr(e, "identity", type(e).__qualname__)) for e in self.extractors)

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction per chunk, in order."""
        results = []
        for extractor in self.extractors:
            result = extractor.extract(chunks)
            if len(result) != len(chunks):
                name = type(extractor).__qualname__
                raise ExtractionError(f"{name} returned {len(result)} extractions for {len(chunks)} chunks")
            results.append(result)
        return self.join(results)

    @staticmethod
    def join(results: Sequence[Sequence[Extraction]]) -> list[Extraction]:
        """Return one extraction per chunk from the extractions of each extractor."""
        return [
            Extraction(
                tuple(mention for e in extractions for mention in e.mentions),
                tuple(fact for e in extractions for fact in e.facts),
                "; ".join(e.problem for e in extractions if e.problem),
            )
            for extractions in zip(*results, strict=True)
        ]
