"""What stores and searches an index: implementations of :class:`~graphrag_core.ports.Engine`.

:class:`~graphrag_core.engine.engine.IndexEngine` keeps rows in SQLite and arrays in memory. Everything here is private.
"""
