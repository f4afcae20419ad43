"""What every extractor must fulfil."""

from __future__ import annotations

from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Extractor
from graphrag_core.text import normalise


class ExtractorSuite:
    """What an extractor must fulfil."""

    def make(self) -> Extractor:
        """Return the extractor under test."""
        raise NotImplementedError

    chunks = (
        Chunk("1", "1", "The Auth Service delegates to the OAuth Provider.", title="Auth Service"),
        Chunk("2", "2", "…!?"),
        Chunk("3", "3", "東京大学は1877年に設立された。"),
    )

    def test_gives_one_extraction_for_each_chunk(self) -> None:
        """In order, for none and for many."""
        extractor = self.make()
        assert list(extractor.extract([])) == []
        found = extractor.extract(self.chunks)
        assert len(found) == len(self.chunks)
        assert all(isinstance(extraction, Extraction) for extraction in found)

    def test_an_extraction_does_not_depend_on_its_neighbours(self) -> None:
        """Alone or among others: the same."""
        extractor = self.make()
        together = list(extractor.extract(self.chunks))
        assert together == [extractor.extract([chunk])[0] for chunk in self.chunks]

    def test_facts_stand_where_they_say(self) -> None:
        """A fact with a span is that piece of its chunk; strengths lie between 1 and 10."""
        for chunk, extraction in zip(self.chunks, self.make().extract(self.chunks), strict=True):
            for fact in extraction.facts:
                assert 1 <= fact.weight <= 10
                if fact.span is not None:
                    start, end = fact.span
                    assert 0 <= start < end <= len(chunk.text)

    def test_names_are_names(self) -> None:
        """Every name has a letter or a digit."""
        for extraction in self.make().extract(self.chunks):
            assert all(normalise(mention.name) for mention in extraction.mentions)
