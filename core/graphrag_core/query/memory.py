"""What an agent's ``memory_search`` tool is called, says of itself and asks for, in any framework."""

from __future__ import annotations

NAME = "memory_search"
DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the passages that answer best, also those that only the graph leads to."
)
NOTHING = "Nothing was found."

MAX_RESULTS = 10
MIN_GRAPH_SCORE = 0.3
MAX_TOKENS = 1_000

QUERY = "What to look for, in words; names help."
HOW_MANY = "How many passages to return at most."
WITH_GRAPH = "Whether to follow the knowledge graph."
HOW_STRONG = "Leave out what only the graph found with less than this score, from 0 to 1."
