"""The parts that :class:`~graphrag_core.SearchSettings` combines: graph strategies, fusions, rerankers and thresholds.

>>> from graphrag_core import SearchSettings
>>> SearchSettings(graph=Neighbourhood(hops=1), fusion=ReciprocalRank(k=60)).graph.hops
1
"""

from graphrag_core.context.settings import ContextFormat
from graphrag_core.query.fusion import Additive, Fusion, Gate, OwnScores, ReciprocalRank, Weighted
from graphrag_core.query.linear import Linear
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import Reranked, Reranker
from graphrag_core.query.routing import Route, Router, Rule
from graphrag_core.query.strategies.activation import Relevance, SpreadingActivation
from graphrag_core.query.strategies.citations import CitationGraph
from graphrag_core.query.strategies.expansion_queries import ExpansionQueries
from graphrag_core.query.strategies.neighbourhood import Neighbourhood
from graphrag_core.query.strategies.pagerank import PageRank
from graphrag_core.query.strategies.related import RelatedEntities
from graphrag_core.query.strategies.strategy import GraphStrategy

__all__ = [
    "Additive",
    "CitationGraph",
    "ContextFormat",
    "Expansion",
    "ExpansionQueries",
    "Fusion",
    "Gate",
    "GraphStrategy",
    "Linear",
    "Neighbourhood",
    "OwnScores",
    "PageRank",
    "Query",
    "ReciprocalRank",
    "Recogniser",
    "RelatedEntities",
    "Relevance",
    "Reranked",
    "Reranker",
    "Route",
    "Router",
    "Rule",
    "SpreadingActivation",
    "Weighted",
]
