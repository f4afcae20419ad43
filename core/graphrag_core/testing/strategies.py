"""The compliance suites of graph strategies and fusions."""

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Document
from graphrag_core.ports import Matrix
from graphrag_core.query.fusion import Fusion, Lead
from graphrag_core.retriever import GraphRetriever
from graphrag_core.strategies import GraphStrategy
from graphrag_core.testing.embedders import HashEmbedder
from graphrag_core.testing.samples import CHAIN, CHAIN_QUESTION

_LEADS: tuple[Lead, ...] = ("graph", "both", "plain")


class _FailingEmbedder(HashEmbedder):
    def embed_query(self, text: str) -> Matrix:  # noqa: ARG002
        raise ConnectionError("no connection")


class StrategySuite:
    """What every graph strategy must fulfil.

    The cases run through a real index and retriever with :data:`~graphrag_core.testing.CHAIN`.
    """

    def make(self) -> GraphStrategy:
        """Return the strategy under test."""
        raise NotImplementedError

    def test_expands_to_passages_of_the_index(self) -> None:
        """Each passage once, best first, with strengths between 0 and 1."""
        with KnowledgeIndex(HashEmbedder()) as index:
            index.add(CHAIN)
            hits = GraphRetriever(index, graph=self.make(), method="graph", cache=None).retrieve(CHAIN_QUESTION).hits
        ids = [hit.chunk.id for hit in hits]
        assert len(ids) == len(set(ids))
        assert all(0 <= hit.score <= 1 + 1e-6 for hit in hits if "graph" in hit.channels)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_an_empty_graph_leads_nowhere(self) -> None:
        """Plain search answers, without an error."""
        with KnowledgeIndex(HashEmbedder()) as index:
            index.add([Document("a", "nothing here is a name.")])
            found = GraphRetriever(index, graph=self.make(), cache=None).retrieve("what is here?").hits
        assert [hit.chunk.id for hit in found] == ["a"]

    def test_stays_in_scope(self) -> None:
        """No hit, fact or path comes from a document that the filter excludes."""
        with KnowledgeIndex(HashEmbedder()) as index:
            index.add(CHAIN)
            retriever = GraphRetriever(index, graph=self.make(), cache=None)
            result = retriever.retrieve("Who runs the OAuth Provider?", k=10, where={"tenant": "acme"}, explain=True)
        assert "secret" not in {hit.chunk.id for hit in result.hits}
        assert "secret" not in {fact.chunk_id for fact in result.facts}
        assert "Albert Wesker" not in result.explain()

    def test_is_deterministic(self) -> None:
        """The same hits again, and from an index that was filled in another order."""
        found = []
        for documents in (CHAIN, CHAIN[::-1]):
            with KnowledgeIndex(HashEmbedder()) as index:
                index.add(documents)
                retriever = GraphRetriever(index, graph=self.make(), cache=None)
                for _ in range(2):
                    hits = retriever.retrieve(CHAIN_QUESTION, k=10).hits
                    found.append([(hit.chunk.id, round(hit.score, 4)) for hit in hits])
        assert found[0] == found[1] == found[2] == found[3]

    def test_works_without_an_embedding(self) -> None:
        """A failed embedder leaves keyword search and the graph."""
        with KnowledgeIndex(_FailingEmbedder()) as index:
            index.add(CHAIN)
            retriever = GraphRetriever(index, graph=self.make(), cache=None, on_embedder_error="keyword")
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

    def test_keeps_every_chunk_once(self) -> None:
        """All chunks of both rankings, whichever leads."""
        for lead in _LEADS:
            keys, scores = self.make().fuse(self.plain, self.graph, lead=lead)
            assert sorted(np.asarray(keys).tolist()) == [2, 4, 5, 7, 9]
            assert len(scores) == len(keys)

    def test_scores_fall_with_the_rank(self) -> None:
        """Best first."""
        for lead in _LEADS:
            _, scores = self.make().fuse(self.plain, self.graph, lead=lead)
            assert (np.diff(np.asarray(scores)) <= 0).all()

    def test_one_ranking_may_be_empty(self) -> None:
        """The other one is returned in its order."""
        nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        for lead in _LEADS:
            assert np.asarray(self.make().fuse(self.plain, nothing, lead=lead)[0]).tolist() == [4, 2, 9]
            assert np.asarray(self.make().fuse(nothing, self.graph, lead=lead)[0]).tolist() == [7, 2, 5]

    def test_does_not_change_its_arguments(self) -> None:
        """The rankings are shared with others."""
        before = [part.copy() for ranking in (self.plain, self.graph) for part in ranking]
        self.make().fuse(self.plain, self.graph, lead="both")
        after = [part for ranking in (self.plain, self.graph) for part in ranking]
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
