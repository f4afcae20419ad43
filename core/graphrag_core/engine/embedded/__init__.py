"""The embedded engine: SQLite records, and FAISS, tantivy and graph indexes derived from them.

``EmbeddedEngine`` is the one name to import.
"""

from graphrag_core.engine.embedded.engine import EmbeddedEngine as EmbeddedEngine
