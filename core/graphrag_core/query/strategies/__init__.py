"""Graph strategies: how the graph is searched from a question. Each is a frozen dataclass of its settings.

Import the strategies from here, with the interface ``GraphStrategy`` and what it returns, ``Expansion``.
"""

from graphrag_core.query.query import Expansion
from graphrag_core.query.strategies.activation import Relevance, SpreadingActivation
from graphrag_core.query.strategies.citations import CitationGraph
from graphrag_core.query.strategies.expansion_queries import ExpansionQueries
from graphrag_core.query.strategies.neighbourhood import Neighbourhood
from graphrag_core.query.strategies.pagerank import PageRank
from graphrag_core.query.strategies.related import RelatedEntities
from graphrag_core.query.strategies.strategy import GraphStrategy

__all__ = [
    "CitationGraph",
    "Expansion",
    "ExpansionQueries",
    "GraphStrategy",
    "Neighbourhood",
    "PageRank",
    "RelatedEntities",
    "Relevance",
    "SpreadingActivation",
]
