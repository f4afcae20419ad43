"""The read pipeline: from a question to ranked passages with reasons. Start at ``pipeline.search_steps``.

Users import the parts of a search from ``graphrag_core.strategies``.
"""
