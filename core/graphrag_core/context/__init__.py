"""Turn a result into prompt text within a token budget.

Import from here: ``write_context`` and the values it returns, ``one_line``, which
escapes text from documents, ``graph_notes``, which adds what the graph knows to passages, and what is shown of a hit
(``context.display``).
"""

from graphrag_core.context.context import Context, Style, write_context
from graphrag_core.context.display import (
    Highlighter,
    body_text,
    citation,
    copies_note,
    covered_words,
    fact_words,
    how_found,
    link_pieces,
    link_words,
    linked_path,
    section,
    shown_path,
    uncovered_words,
)
from graphrag_core.context.escape import for_terminal, json_for_terminal, one_line
from graphrag_core.context.notes import graph_notes
from graphrag_core.context.styles import ContextSource

__all__ = [
    "Context",
    "ContextSource",
    "Highlighter",
    "Style",
    "body_text",
    "citation",
    "copies_note",
    "covered_words",
    "fact_words",
    "for_terminal",
    "graph_notes",
    "how_found",
    "json_for_terminal",
    "link_pieces",
    "link_words",
    "linked_path",
    "one_line",
    "section",
    "shown_path",
    "uncovered_words",
    "write_context",
]
