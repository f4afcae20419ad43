"""A result as text for a language model: within a budget, cut at whole items, safe from what documents say."""

from graphrag_core.query.context.context import Context, Style, write_context
from graphrag_core.query.context.counting import token_counter
from graphrag_core.query.context.item import Material, Source

__all__ = ["Context", "Material", "Source", "Style", "token_counter", "write_context"]
