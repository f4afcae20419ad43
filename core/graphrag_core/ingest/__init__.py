"""The write pipeline: from documents to what an engine stores. Start at ``pipeline.Pipeline.add``.

Import ``Chunker`` from ``ingest.chunker``; ``CheckedEmbedder`` wraps a user's embedder and validates its vectors.
"""
