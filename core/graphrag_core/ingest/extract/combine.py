"""Extractors side by side."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_core.errors import ExtractionError
from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Extractor


class Combined:
    """Reads each chunk with several extractors and keeps what each found.

    Sentence facts beside an LLM's triples make the best graph that was measured:
    ``Combined(SentenceExtractor(), LLMExtractor(complete))``.
    """

    def __init__(self, *extractors: Extractor) -> None:
        self.extractors = extractors

    @property
    def identity(self) -> str:
        """The identities of all parts."""
        return " + ".join(str(getattr(e, "identity", type(e).__qualname__)) for e in self.extractors)

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        parts = []
        for extractor in self.extractors:
            part = extractor.extract(chunks)
            if len(part) != len(chunks):
                name = type(extractor).__qualname__
                raise ExtractionError(f"{name} returned {len(part)} extractions for {len(chunks)} chunks")
            parts.append(part)
        return [
            Extraction(
                tuple(mention for e in found for mention in e.mentions),
                tuple(fact for e in found for fact in e.facts),
                "; ".join(e.problem for e in found if e.problem),
            )
            for found in zip(*parts, strict=True)
        ]
