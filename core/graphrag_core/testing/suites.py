"""Compliance suites: classes of tests for embedders, extractors, graph strategies and fusions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk, Document, Extraction
from graphrag_core.ports import Embedder, Extractor, Matrix
from graphrag_core.query.fusion import Fusion
from graphrag_core.retriever import GraphRetriever
from graphrag_core.strategies import GraphStrategy
from graphrag_core.testing.samples import CHAIN, CHAIN_QUESTION, HashEmbedder
from graphrag_core.text import normalise


class EmbedderSuite:
    """What every embedder must fulfil."""

    texts = ("The Auth Service issues tokens.", "A red fox.", "東京は日本の首都です。", "x" * 5_000)

    def make(self) -> Embedder:
        """Return the embedder under test."""
        raise NotImplementedError

    def test_returns_one_finite_vector_for_each_text(self) -> None:
        """As many rows as texts, all of one dimension."""
        vectors = np.array(self.make().embed_documents(list(self.texts)), np.float64)
        assert (vectors.ndim, len(vectors)) == (2, len(self.texts))
        assert np.isfinite(vectors).all()

    def test_a_query_has_the_dimension_of_the_documents(self) -> None:
        """Questions and texts can be compared."""
        embedder = self.make()
        assert len(embedder.embed_query("who?")) == len(embedder.embed_documents(["a text"])[0])

    def test_a_vector_does_not_depend_on_its_batch(self) -> None:
        """The same vector alone, among others and in any order."""
        embedder = self.make()
        together = np.array(embedder.embed_documents(list(self.texts)))
        backwards = np.array(embedder.embed_documents(list(reversed(self.texts))))[::-1]
        alone = np.array([embedder.embed_documents([text])[0] for text in self.texts])
        assert np.array_equal(together, backwards)
        assert np.array_equal(together, alone)

    def test_is_deterministic(self) -> None:
        """The same vector from a second object."""
        one, two = self.make().embed_documents(["again"]), self.make().embed_documents(["again"])
        assert np.array_equal(np.array(one), np.array(two))


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
        """In order; none for none."""
        extractor = self.make()
        assert list(extractor.extract([])) == []
        extractions = extractor.extract(self.chunks)
        assert len(extractions) == len(self.chunks)
        assert all(isinstance(extraction, Extraction) for extraction in extractions)

    def test_an_extraction_does_not_depend_on_other_chunks(self) -> None:
        """The same alone and among others."""
        extractor = self.make()
        together = list(extractor.extract(self.chunks))
        assert together == [extractor.extract([chunk])[0] for chunk in self.chunks]

    def test_facts_and_names_are_valid(self) -> None:
        """A span lies in the chunk; weights lie between 1 and 10; no name is punctuation alone."""
        for chunk, extraction in zip(self.chunks, self.make().extract(self.chunks), strict=True):
            assert all(normalise(mention.name) for mention in extraction.mentions)
            for fact in extraction.facts:
                assert 1 <= fact.weight <= 10
                start, end = fact.span or (0, 1)
                assert 0 <= start < end <= len(chunk.text)


class _FailingEmbedder(HashEmbedder):
    def embed_query(self, text: str) -> Matrix:  # noqa: ARG002
        raise ConnectionError("no connection")


_EMBEDDER = HashEmbedder()


class StrategySuite:
    """What every graph strategy must fulfil.

    The cases run through a real index and retriever with :data:`~graphrag_core.testing.CHAIN`.
    """

    def make(self) -> GraphStrategy:
        """Return the strategy under test."""
        raise NotImplementedError

    @contextmanager
    def _retriever(
        self, documents: Sequence[Document] = CHAIN, embedder: Embedder = _EMBEDDER, **settings: Any
    ) -> Iterator[GraphRetriever]:
        with KnowledgeIndex(embedder) as index:
            index.add(documents)
            yield GraphRetriever(index, graph=self.make(), cache=None, **settings)

    def test_expands_to_passages_of_the_index(self) -> None:
        """Each passage once, best first, with a score that is not negative."""
        with self._retriever(method="graph") as retriever:
            hits = retriever.retrieve(CHAIN_QUESTION).hits
        assert len({hit.chunk.id for hit in hits}) == len(hits)
        assert all(hit.score >= 0 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_an_empty_graph_leads_nowhere(self) -> None:
        """Plain search answers, without an error."""
        with self._retriever([Document("a", "nothing here is a name.")]) as retriever:
            assert [hit.chunk.id for hit in retriever.retrieve("what is here?").hits] == ["a"]

    def test_stays_in_scope(self) -> None:
        """No hit, fact or path comes from a document that the filter excludes."""
        with self._retriever() as retriever:
            result = retriever.retrieve("Who runs the OAuth Provider?", k=10, where={"tenant": "acme"}, explain=True)
        assert "secret" not in {hit.chunk.id for hit in result.hits}
        assert "secret" not in {fact.chunk_id for fact in result.facts}
        assert "Albert Wesker" not in result.explain()

    def test_is_deterministic(self) -> None:
        """The same hits again, and from an index that was filled in another order."""
        rankings = []
        for documents in (CHAIN, CHAIN[::-1]):
            with self._retriever(documents) as retriever:
                for _ in range(2):
                    hits = retriever.retrieve(CHAIN_QUESTION, k=10).hits
                    rankings.append([(hit.chunk.id, round(hit.score, 4)) for hit in hits])
        assert rankings == rankings[:1] * 4

    def test_works_without_an_embedding(self) -> None:
        """A failed embedder leaves keyword search and the graph."""
        with self._retriever(embedder=_FailingEmbedder(), on_embedder_error="keyword") as retriever:
            result = retriever.retrieve("Auth Service")
        assert result.hits
        assert "no connection" in result.fallback


class FusionSuite:
    """What every fusion must fulfil."""

    plain = np.array([4, 2, 9]), np.array([1.0, 0.6, 0.2], np.float32)
    graph = np.array([7, 2, 5]), np.array([0.9, 0.5, 0.1], np.float32)

    def make(self) -> Fusion:
        """Return the fusion under test."""
        raise NotImplementedError

    def test_keeps_every_chunk_once_best_first(self) -> None:
        """All chunks of both rankings; scores fall with the rank."""
        keys, scores = self.make().fuse(self.plain, self.graph)
        assert sorted(np.asarray(keys).tolist()) == [2, 4, 5, 7, 9]
        assert len(scores) == len(keys)
        assert (np.diff(np.asarray(scores)) <= 0).all()

    def test_one_ranking_may_be_empty(self) -> None:
        """The other one is returned in its order."""
        nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        assert np.asarray(self.make().fuse(self.plain, nothing)[0]).tolist() == [4, 2, 9]
        assert np.asarray(self.make().fuse(nothing, self.graph)[0]).tolist() == [7, 2, 5]

    def test_does_not_change_its_arguments(self) -> None:
        """The rankings are shared with others."""
        arrays = [*self.plain, *self.graph]
        before = [array.copy() for array in arrays]
        self.make().fuse(self.plain, self.graph)
        assert all(np.array_equal(array, copy) for array, copy in zip(arrays, before, strict=True))
