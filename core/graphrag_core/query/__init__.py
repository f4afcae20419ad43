"""The read pipeline: from a question to ranked passages with reasons. Start at ``search.search``.

Users import the parts of a search from ``graphrag_core.strategies``.
"""
