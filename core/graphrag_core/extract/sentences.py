"""The default extractor: every sentence is a fact, every name in it an entity. ``Combined`` adds others to it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter

from graphrag_core.errors import ExtractionError
from graphrag_core.extract.names import NameMatch, code_names, find_names
from graphrag_core.extract.source_names import Reading, SourceNames, sources
from graphrag_core.extract.subjects import Subjects, link_addresses, read_subjects, section_anchors
from graphrag_core.model import SENTENCE_WEIGHT, Chunk, Extraction, Fact, Mark, Mention
from graphrag_core.ports import Extractor
from graphrag_core.text import REFERS_TO
from graphrag_core.text.markup import plain
from graphrag_core.text.navigation import is_navigation
from graphrag_core.text.sentences import Prose, Sentence, is_boilerplate, is_statement, read_prose

_BOILERPLATE_HINTS = (
    "opyright", "©", "(c) ", "WARRANT", " version", ". . .", "....", " release", " THE ", " OR ", " OF ",
)  # fmt: skip
_LETTER = re.compile(r"[^\W_]")
_LEFTOVER = re.compile(r"\*{2,}|(?<!\w)_{2,}(?!\w)|`+|¶|^[*•·–—\-]\s+")
_DIVIDED = re.compile("\u2010\\s+")  # the hyphen at the end of a line
_SPACES = re.compile(r"[ \t\r\n]+")
_PAGE_HINT = re.compile(r", \d{1,4}\s[^\W\d]")  # of an index
_LONGEST_FACT = 1_000
_MOST_REFERENCES, _MOST_LINKS = 8, 30
_LONGEST_LITERAL = 120
_LONGEST_TERMS = 4_000  # with markup
_REFERENCE_WEIGHT = 10.0
_NO_PROSE = Prose("", [], is_plain=True, starts=frozenset())

# Names repeat, and a frozen value can be shared. Creating a dataclass takes ten times as long as this lookup.
_mention = lru_cache(maxsize=4_096)(Mention)


@dataclass(frozen=True, kw_only=True)
class SentenceExtractor:
    """Extracts the names and sentences of a chunk.

    The chunk's title is its subject and counts as mentioned in every sentence. So the sentence
    "It was founded in 1911" still connects its subject with 1911. The nearest heading and the terms that
    a chunk defines are subjects too. Facts are the sentences of paragraphs, list items and definitions
    that say something, and the links in them. Headings, code and boilerplate are not facts. Passages that are only
    navigation, a table of contents or an index have no names.

    >>> chunk = Chunk("1", "1", "It delegates to the OAuth Provider.", title="Auth Service")
    >>> SentenceExtractor().extract([chunk])[0].facts[0].entities
    ('Auth Service', 'OAuth Provider')
    """

    identity: str = "sentences 6"

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
            yield Reading(chunk, Subjects((), (), (), subjects.addresses), _NO_PROSE, [], [])
            continue
        prose = read_prose(chunk)
        found = find_names(prose.text, prose.starts)
        literals = [] if prose.is_plain else list(_literal_names(chunk))
        yield Reading(chunk, subjects, prose, found, literals)


def _extract(reading: Reading, source: SourceNames) -> Extraction:
    """Return the names, sentences and links of a chunk."""
    chunk, prose = reading.chunk, reading.prose
    subjects, names = source.subjects(reading.subjects), source.matches(reading)
    if reading.literals:
        names = sorted([*names, *reading.literals], key=attrgetter("start"))
    by_sentence = _names_by_sentence(prose, names)
    if prose.sentences:  # without the names in boilerplate
        names = list(chain.from_iterable(by_sentence))
    facts = list(_facts(chunk, prose, subjects, by_sentence))
    about = subjects.names()
    mentioned = dict.fromkeys(match.name for match in names)
    if not prose.is_plain:
        links = _links(chunk, subjects)
        facts += _references(links, subjects, facts)
        others = (fact.entities for fact in facts), (addresses for _, addresses in links)
        mentioned.update(dict.fromkeys(chain.from_iterable(chain(*others))))
        for name in about:
            mentioned.pop(name, None)
    mentions = [*(Mention(name, subject=True) for name in about), *map(_mention, mentioned)]
    return Extraction(tuple(mentions), tuple(facts))


def _names_by_sentence(prose: Prose, names: list[NameMatch]) -> list[list[NameMatch]]:
    """Return the names of each sentence; none for copyright lines, indexes and sentences in capitals."""
    text, spans = prose.text, prose.sentences
    by_sentence: list[list[NameMatch]] = [[] for _ in spans]
    at = 0
    later = [span.start for span in spans[1:]]
    for name in names if spans else ():
        while at < len(later) and later[at] <= name.start:
            at += 1
        by_sentence[at].append(name)
    if any(map(text.__contains__, _BOILERPLATE_HINTS)) or _PAGE_HINT.search(text) is not None:
        for span, matches in zip(spans, by_sentence, strict=True):
            if matches and is_boilerplate(text[span.start : span.end]):
                matches.clear()
    return by_sentence


def _facts(
    chunk: Chunk, prose: Prose, subjects: Subjects, by_sentence: Sequence[Sequence[NameMatch]]
) -> Iterator[Fact]:
    """Yield the sentences that say something."""
    seen: set[str] = set()
    for sentence, names in zip(prose.sentences, by_sentence, strict=True):
        mentioned = [match.name for match in names]
        if prose.is_plain:
            statement = _in_one_line(prose.text[sentence.start : sentence.end])
            # A chunk without structure may have a heading; a line without letters, such as "-----", is not a sentence.
            is_heading = statement[0] == "#" or statement.strip("=*_~ \t") == chunk.title
            if is_heading or not (mentioned or _LETTER.search(statement)) or not is_statement(statement, mentioned):
                continue
        else:
            statement = _sentence_text(chunk, sentence, prose.text)
            whole = sentence.block is None or sentence.block.kind == "paragraph"
            is_new = len(statement) <= _LONGEST_FACT and statement not in seen
            if not is_new or not is_statement(statement, mentioned, whole=whole):
                continue
            seen.add(statement)
        about = subjects.at(sentence.start)
        entities = tuple(dict.fromkeys((*about, *mentioned))) if mentioned else about
        yield Fact(entities, statement, weight=SENTENCE_WEIGHT, span=(sentence.start, sentence.end))


def _sentence_text(chunk: Chunk, sentence: Sentence, masked: str) -> str:
    """Return a sentence without markup; the first one of a definition after its term."""
    start = sentence.start
    if start and chunk.text[start - 1] == "[" != masked[start - 1]:  # a link stands first: its bracket is masked
        start -= 1
    raw = chunk.text[start : sentence.end]
    is_plain = raw == masked[start : sentence.end]
    statement = _in_one_line(raw if is_plain else _LEFTOVER.sub("", plain(raw)))
    block = sentence.block
    if block is not None and block.kind == "definition" and 0 < sentence.start - block.start <= _LONGEST_TERMS:
        head = chunk.text[block.start : sentence.start]
        lines = [line for line in head.strip().removesuffix(":").splitlines() if line.strip()]
        if head.rstrip().endswith(":") and 0 < len(lines) <= 4:
            terms = [" ".join(plain(line).split()) for line in lines]
            if sum(map(len, terms)) < _LONGEST_LITERAL:
                statement = f"{', '.join(terms)}: {statement}"
    return statement


def _in_one_line(text: str) -> str:
    if "\u2010" in text:
        text = _DIVIDED.sub("", text)
    return _SPACES.sub(" ", text) if text.count("  ") > 1 or "\n" in text or "\t" in text else text


def _literal_names(chunk: Chunk) -> Iterator[NameMatch]:
    """Yield the names in inline code."""
    for mark in chunk.marks:
        if mark.kind == "literal" and mark.end - mark.start <= _LONGEST_LITERAL:
            for name in code_names(chunk.text[mark.start : mark.end]):
                yield NameMatch(name, mark.start, mark.end)


def _links(chunk: Chunk, subjects: Subjects) -> list[tuple[int, tuple[str, ...]]]:
    """Return the start and the possible addresses of a chunk's links, except those to itself."""
    starts: dict[tuple[str, ...], int] = {}
    for mark in chunk.marks:
        if mark.kind == "link" and mark.value and len(starts) < _MOST_LINKS and not _names_itself(chunk.text, mark):
            addresses = tuple(a for a in link_addresses(chunk, mark.value) if a not in subjects.addresses)
            if addresses:
                starts.setdefault(addresses, mark.start)
    return [(start, addresses) for addresses, start in starts.items()]


def _names_itself(text: str, link: Mark) -> bool:
    """Return whether a link is inline code with the name that it leads to. The name connects the two."""
    shown = text[link.start : link.end]
    return shown[:1] == "`" and not {*code_names(shown.strip("`"))}.isdisjoint(code_names(link.value))


def _references(links: list[tuple[int, tuple[str, ...]]], subjects: Subjects, facts: list[Fact]) -> Iterator[Fact]:
    """Yield for each link in a statement the fact that the chunk's subject refers to the address."""
    spans = [(fact.span, fact) for fact in facts if fact.span]
    for start, addresses in links[:_MOST_REFERENCES]:
        about = subjects.at(start) or subjects.addresses
        fact = next((fact for span, fact in spans if span[0] <= start < span[1]), None)
        if about and fact:
            yield replace(fact, entities=(about[-1], *addresses), relation=REFERS_TO, weight=_REFERENCE_WEIGHT)


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
