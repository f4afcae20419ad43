"""The chunker: splits documents into passages and determines their titles."""

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
    """Splits documents into passages at sentence boundaries.

    A document of up to ``whole_until`` tokens is one passage. A longer one is split into passages
    of at most ``max_tokens``. Each starts with the last sentences of the previous one, up to
    ``overlap`` tokens. A sentence longer than a passage is split between words. Without the
    overlaps, the passages joined are exactly the document.

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
                f"max_tokens={self.max_tokens} and overlap={self.overlap} do not fit: "
                "max_tokens must be at least 1 and overlap smaller than max_tokens"
            )

    @property
    def identity(self) -> str:
        """The settings that determine the passages."""
        counter = getattr(self.count, "__qualname__", type(self.count).__qualname__)
        return f"chunks {self.max_tokens}/{self.overlap}/{self.whole_until} {counter}"

    def split(self, document: Document) -> list[Chunk]:
        """Return the passages of a document, in order."""
        title = title_of(document)
        text = document.text
        is_whole = len(text) <= self.whole_until  # assuming at most one token per character
        if not is_whole and self.count is estimate_tokens:
            is_whole = most_tokens(text) <= self.whole_until  # ten times as fast as counting
        if is_whole or self.count(text) <= self.whole_until:
            return [Chunk(document.id, document.id, text, title, metadata=document.metadata)]
        return [
            Chunk(f"{document.id}#{i}", document.id, text[start:end], title, i, start, document.metadata)
            for i, (start, end) in enumerate(self._spans(text))
        ]

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each passage."""
        current: list[tuple[int, int, int]] = []
        tokens = 0
        for piece in self._pieces(text):
            size = piece[2]
            if current and tokens + size > self.max_tokens:
                yield current[0][0], current[-1][1]
                # Carry the last pieces over: up to the overlap, and only if the new piece still fits.
                room = min(self.overlap, self.max_tokens - size)
                kept = len(current)
                while kept > 1 and current[kept - 1][2] <= room:
                    kept -= 1
                    room -= current[kept][2]
                current = current[kept:]
                tokens = sum(size for _, _, size in current)
            current.append(piece)
            tokens += size
        if current:
            yield current[0][0], current[-1][1]

    def _pieces(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and tokens of the sentences, or of the words of a sentence that is too long.

        Together the pieces cover the whole text.
        """
        starts = [start for start, _ in sentences(text)]
        bounds = [0, *starts[1:], len(text)]
        for start, end in pairwise(bounds):
            size = self.count(text[start:end])
            if size <= self.max_tokens:
                yield start, end, size
                continue
            for word in _WORD.finditer(text, start, end):
                for a in range(word.start(), word.end(), self.max_tokens):
                    b = min(a + self.max_tokens, word.end())
                    yield a, b, min(self.count(text[a:b]), self.max_tokens)


def title_of(document: Document) -> str:
    r"""Return a document's title: its own, the one in its metadata, or its first heading. Empty if there is none.

    >>> title_of(Document("1", "# Auth Service\n\nIssues tokens."))
    'Auth Service'
    >>> title_of(Document("2", "Issues tokens.", metadata={"file_name": "docs/auth_service.md"}))
    'auth_service'
    """
    for title in (document.title, document.metadata.get("title"), document.metadata.get("name")):
        if isinstance(title, str) and title.strip():
            return title.strip()
    file_name = document.metadata.get("file_name")
    if isinstance(file_name, str) and (stem := PurePath(file_name.replace("\\", "/")).stem):
        return stem
    if heading := _HEADING.match(document.text[: 4 * _LONGEST_TITLE]):
        return (heading["atx"] or heading["under"]).strip()[:_LONGEST_TITLE]
    return ""
