"""Name, description and defaults of the ``memory_search`` tool, shared by the framework adapters."""

NAME = "memory_search"
DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the best passages, including those that only the graph leads to."
)
NOTHING_FOUND = "Nothing was found."

MAX_RESULTS = 10
MIN_GRAPH_SCORE = 0.3
MAX_TOKENS = 1_000

QUERY_HELP = "What to look for, in words; names help."
MAX_RESULTS_HELP = "The maximum number of passages to return."
USE_GRAPH_HELP = "Whether to follow the knowledge graph."
MIN_GRAPH_SCORE_HELP = "Leave out passages that only the graph found with a lower score, from 0 to 1."
