"""Documents to passages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from graphrag_core.errors import InputError
from graphrag_core.model import Chunk, Document
from graphrag_core.ports import TokenCounter
from graphrag_core.text import estimate_tokens, most_tokens, sentences

_HEADING = re.compile(
    r"\s*(?:#{1,6}[ \t]+(?P<atx>\S[^\n]*?)[ \t]*#*[ \t]*(?:\n|$)|(?P<under>\S[^\n]*)\n[=\-~^*]{3,}[ \t]*(?:\n|$))"
)
_WORD = re.compile(r"\S*\s*")
_LONGEST_TITLE = 200


@dataclass(frozen=True, kw_only=True)
class Chunker:
    """Cuts documents into passages at sentence ends.

    A document of up to ``whole_until`` tokens is a passage already and stays whole. The
    passages of a longer one have at most ``max_tokens`` and begin with the last sentences
    of the one before, up to ``overlap`` tokens of them. Only a sentence that is longer
    than a passage is cut, between words. Laid end to end, overlaps taken off, the passages
    are the document to the last character.

    >>> document = Document("a", "One two three four. Five six seven eight.")
    >>> parts = Chunker(max_tokens=8, overlap=0, whole_until=8).split(document)
    >>> [part.id for part in parts], parts[1].text
    (['a#0', 'a#1'], 'Five six seven eight.')
    """

    max_tokens: int = 256
    overlap: int = 32
    whole_until: int = 512
    count: TokenCounter = estimate_tokens

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not 0 <= self.overlap < self.max_tokens:
            raise InputError(
                f"passages of {self.max_tokens} tokens cannot overlap by {self.overlap}: "
                "take max_tokens of at least 1 and an overlap below it"
            )

    @property
    def identity(self) -> str:
        """The settings that decide where passages begin and end."""
        counter = getattr(self.count, "__qualname__", type(self.count).__qualname__)
        return f"chunks {self.max_tokens}/{self.overlap}/{self.whole_until} {counter}"

    def split(self, document: Document) -> list[Chunk]:
        """Return the passages of a document, in order."""
        title = title_of(document)
        text = document.text
        if self._is_whole(text):
            return [Chunk(document.id, document.id, text, title, metadata=document.metadata)]
        return [
            Chunk(f"{document.id}#{i}", document.id, text[start:end], title, i, start, document.metadata)
            for i, (start, end) in enumerate(self._spans(text))
        ]

    def _is_whole(self, text: str) -> bool:
        most = most_tokens(text) if self.count is estimate_tokens else len(text)
        return most <= self.whole_until or self.count(text) <= self.whole_until

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        current: list[tuple[int, int, int]] = []
        tokens = 0
        for piece in self._pieces(text):
            if current and tokens + piece[2] > self.max_tokens:
                yield current[0][0], current[-1][1]
                current = self._carried(current, self.max_tokens - piece[2])
                tokens = sum(size for _, _, size in current)
            current.append(piece)
            tokens += piece[2]
        if current:
            yield current[0][0], current[-1][1]

    def _carried(self, pieces: list[tuple[int, int, int]], room: int) -> list[tuple[int, int, int]]:
        room = min(room, self.overlap)
        kept = len(pieces)
        while kept > 1 and pieces[kept - 1][2] <= room:
            kept -= 1
            room -= pieces[kept][2]
        return pieces[kept:]

    def _pieces(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and tokens of what may not be cut, tiling the whole text."""
        starts = [start for start, _ in sentences(text)]
        bounds = [0, *starts[1:], len(text)]
        for start, end in pairwise(bounds):
            size = self.count(text[start:end])
            if size <= self.max_tokens:
                yield start, end, size
            else:
                yield from self._words(text, start, end)

    def _words(self, text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        for match in _WORD.finditer(text, start, end):
            for a in range(match.start(), match.end(), self.max_tokens):
                b = min(a + self.max_tokens, match.end())
                yield a, b, min(self.count(text[a:b]), self.max_tokens)


def title_of(document: Document) -> str:
    r"""Return a document's title: its own, its metadata's, or its first heading; else nothing.

    >>> title_of(Document("1", "# Auth Service\n\nIssues tokens."))
    'Auth Service'
    >>> title_of(Document("2", "Issues tokens.", metadata={"file_name": "docs/auth_service.md"}))
    'auth_service'
    """
    named = [document.title, document.metadata.get("title"), document.metadata.get("name")]
    for title in named:
        if isinstance(title, str) and title.strip():
            return title.strip()
    file_name = document.metadata.get("file_name")
    if isinstance(file_name, str) and (stem := PurePath(file_name.replace("\\", "/")).stem):
        return stem
    if heading := _HEADING.match(document.text[: 4 * _LONGEST_TITLE]):
        return (heading["atx"] or heading["under"]).strip()[:_LONGEST_TITLE]
    return ""
