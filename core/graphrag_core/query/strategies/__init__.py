"""Graph strategies: how the graph is searched from a question. Each is a frozen dataclass of its settings.

Users import them from ``graphrag_core.strategies``.
"""
