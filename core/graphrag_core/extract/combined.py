"""Several extractors on the same chunks."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_core.errors import ExtractionError
from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Extractor


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
        return [
            Extraction(
                tuple(mention for e in extractions for mention in e.mentions),
                tuple(fact for e in extractions for fact in e.facts),
                "; ".join(e.problem for e in extractions if e.problem),
            )
            for extractions in zip(*results, strict=True)
        ]
