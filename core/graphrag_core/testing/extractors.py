"""The compliance suites of extractors and token counters."""

from collections.abc import Callable

from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Extractor
from graphrag_core.text import normalise


class ExtractorSuite:
    """What every extractor must fulfil."""

    chunks = (
        Chunk("1", "1", "The Auth Service delegates to the OAuth Provider.", title="Auth Service"),
        Chunk("2", "2", "…!?"),
        Chunk("3", "3", "東京大学は1877年に設立された。"),
    )

    def make(self) -> Extractor:
        """Return the extractor under test."""
        raise NotImplementedError

    def test_returns_one_extraction_for_each_chunk(self) -> None:
        """In order, for none and for many."""
        extractor = self.make()
        assert list(extractor.extract([])) == []
        found = extractor.extract(self.chunks)
        assert len(found) == len(self.chunks)
        assert all(isinstance(extraction, Extraction) for extraction in found)

    def test_an_extraction_does_not_depend_on_other_chunks(self) -> None:
        """The same alone and among others."""
        extractor = self.make()
        together = list(extractor.extract(self.chunks))
        assert together == [extractor.extract([chunk])[0] for chunk in self.chunks]

    def test_facts_are_within_their_chunk(self) -> None:
        """A span lies in the chunk; weights lie between 1 and 10."""
        for chunk, extraction in zip(self.chunks, self.make().extract(self.chunks), strict=True):
            for fact in extraction.facts:
                assert 1 <= fact.weight <= 10
                if fact.span is not None:
                    start, end = fact.span
                    assert 0 <= start < end <= len(chunk.text)

    def test_names_have_a_letter_or_a_digit(self) -> None:
        """No name is punctuation alone."""
        for extraction in self.make().extract(self.chunks):
            assert all(normalise(mention.name) for mention in extraction.mentions)


class TokenCounterSuite:
    """What every token counter must fulfil."""

    def make(self) -> Callable[[str], int]:
        """Return the counter under test."""
        raise NotImplementedError

    def test_the_empty_text_has_no_tokens(self) -> None:
        """Zero for nothing."""
        assert self.make()("") == 0

    def test_a_longer_text_has_no_fewer_tokens(self) -> None:
        """At least as many as its beginning, and never none."""
        count = self.make()
        text = "The Auth Service delegates to the OAuth Provider. 認証サービス。"
        counts = [count(text[:size]) for size in range(1, len(text) + 1, 7)]
        assert all(number > 0 for number in counts)
        assert counts[-1] >= counts[0]

    def test_is_deterministic(self) -> None:
        """The same count again."""
        count = self.make()
        assert count("one two three") == count("one two three")
