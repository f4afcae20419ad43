"""For tests and trials: an embedder without a model, sample documents, and compliance suites for your own parts.

A suite is a class of tests that pytest collects. Derive from it and return the object under test::

    class TestMyEmbedder(EmbedderSuite):
        def make(self) -> Embedder:
            return MyEmbedder()

``run_suite`` runs one without pytest.
"""

from graphrag_core.testing.samples import CHAIN, CHAIN_QUESTION, CountingEmbedder, FixedExtractor, HashEmbedder
from graphrag_core.testing.suites import EmbedderSuite, ExtractorSuite, FusionSuite, StrategySuite

__all__ = [
    "CHAIN",
    "CHAIN_QUESTION",
    "CountingEmbedder",
    "EmbedderSuite",
    "ExtractorSuite",
    "FixedExtractor",
    "FusionSuite",
    "HashEmbedder",
    "StrategySuite",
    "run_suite",
]


def run_suite(suite: type) -> int:
    """Run every test method of a suite on a new instance; return how many ran. The first failure raises.

    >>> from graphrag_core.testing import EmbedderSuite, HashEmbedder
    >>> class TestHashEmbedder(EmbedderSuite):
    ...     def make(self):
    ...         return HashEmbedder()
    >>> run_suite(TestHashEmbedder)
    4
    """
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        getattr(suite(), name)()
    return len(names)
