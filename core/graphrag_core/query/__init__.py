"""The read pipeline: from a question to ranked passages with reasons. Start at ``pipeline.run_search``.

Import strategies from ``query.strategies``, fusions from ``query.fusion``; the names most people need are in
``graphrag_core`` itself.
"""
