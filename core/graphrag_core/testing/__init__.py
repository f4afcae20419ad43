"""For tests and trials: an embedder without a model, and a compliance suite for each port.

A suite is a class of tests that any runner in the manner of pytest collects. An
implementer derives from it and says how to make the thing::

    class TestMyVectors(VectorStoreSuite):
        def make(self) -> VectorStore:
            return MyVectors(dim=self.dim)
"""

from graphrag_core.testing.embedders import EmbedderSuite, HashEmbedder
from graphrag_core.testing.extractors import ExtractorSuite
from graphrag_core.testing.graphs import GraphStoreSuite
from graphrag_core.testing.keywords import KeywordStoreSuite
from graphrag_core.testing.tokens import TokenCounterSuite
from graphrag_core.testing.vectors import VectorStoreSuite

__all__ = [
    "EmbedderSuite",
    "ExtractorSuite",
    "GraphStoreSuite",
    "HashEmbedder",
    "KeywordStoreSuite",
    "TokenCounterSuite",
    "VectorStoreSuite",
]
