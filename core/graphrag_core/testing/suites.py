"""Runs a compliance suite without pytest."""

from __future__ import annotations


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
