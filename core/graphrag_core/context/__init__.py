"""Turn a result into prompt text within a token budget.

Import from here: ``write_context`` and the values it takes and returns, ``token_counter``, and
``one_line``, which escapes text from documents.
"""

from graphrag_core.context.context import Context, Style, write_context
from graphrag_core.context.escape import one_line
from graphrag_core.context.styles import ContextSource, Material
from graphrag_core.context.tokens import token_counter

__all__ = ["Context", "ContextSource", "Material", "Style", "one_line", "token_counter", "write_context"]
