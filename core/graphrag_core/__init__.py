"""Index documents into chunks, entities and facts; retrieve by vector, keyword and graph.

>>> from graphrag_core import Document, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> with KnowledgeIndex(HashEmbedder()) as index:
...     report = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage.")])
...     [entity.name for entity, weight in index.related("Ada Lovelace")]
['Charles Babbage']
"""

from graphrag_core.derived import Engines
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.chunk import Chunker
from graphrag_core.ingest.extract import Combined, KnowledgeExtractor, LLMExtractor, SentenceExtractor, TripleExtractor
from graphrag_core.model import Chunk, Document, Entity, Extraction, Fact, Mention
from graphrag_core.query.activation import SpreadingActivation
from graphrag_core.query.cache import Cache
from graphrag_core.query.expansion import ExpansionQueries
from graphrag_core.query.fuse import Anchored, ReciprocalRank, Weighted
from graphrag_core.query.gate import Gate
from graphrag_core.query.hit import Channel, Hit, Step, Trace
from graphrag_core.query.neighbourhood import Neighbourhood
from graphrag_core.query.pagerank import PageRank
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.relevance import Relevance
from graphrag_core.query.result import Result
from graphrag_core.query.route import Route, Router, Rule
from graphrag_core.query.strategy import Expansion
from graphrag_core.report import Added, Estimate, Stats, Verification
from graphrag_core.retriever import GraphRetriever

__version__ = "0.1.0"

__all__ = [
    "Added",
    "Anchored",
    "Cache",
    "Channel",
    "Chunk",
    "Chunker",
    "Combined",
    "Document",
    "Engines",
    "Entity",
    "Estimate",
    "Expansion",
    "ExpansionQueries",
    "Extraction",
    "Fact",
    "Gate",
    "GraphRetriever",
    "Hit",
    "KnowledgeExtractor",
    "KnowledgeIndex",
    "LLMExtractor",
    "Mention",
    "Neighbourhood",
    "PageRank",
    "ReciprocalRank",
    "Recogniser",
    "Relevance",
    "Result",
    "Route",
    "Router",
    "Rule",
    "SentenceExtractor",
    "SpreadingActivation",
    "Stats",
    "Step",
    "Trace",
    "TripleExtractor",
    "Verification",
    "Weighted",
    "__version__",
]
