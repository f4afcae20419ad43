"""What stores and searches an index: implementations of :class:`~graphrag_core.ports.Engine`.

Import :class:`~graphrag_core.engine.embedded.EmbeddedEngine` from :mod:`graphrag_core.engine.embedded`;
everything else here is private to an engine.
"""
