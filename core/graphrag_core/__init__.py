"""Index documents into chunks, entities and facts; retrieve by vector, keyword and graph.

>>> from graphrag_core import Document, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> with KnowledgeIndex(HashEmbedder()) as index:
...     report = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage.")])
...     [entity.name for entity, weight in index.graph.neighbours("Ada Lovelace")]
['Charles Babbage']
"""

from graphrag_core.extract import Combined, KnowledgeExtractor, LLMExtractor, SentenceExtractor
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.llm import ChatModel, Message, OpenAIChat, as_chat_model
from graphrag_core.model import (
    Added,
    Chunk,
    Community,
    Document,
    Edit,
    Entity,
    Estimate,
    Extraction,
    Fact,
    GraphPath,
    Mark,
    Mention,
    Stats,
    Verification,
)
from graphrag_core.query.ask import Answer, AnswerStream, Citation
from graphrag_core.query.calibration import Calibration
from graphrag_core.query.coverage import Coverage, Reranked
from graphrag_core.query.cross_encoder import CrossEncoder
from graphrag_core.query.fusion import Additive, Anchored, Gate, OwnScores, ReciprocalRank, Weighted
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.routing import Route, Router, Rule
from graphrag_core.query.settings import SearchSettings
from graphrag_core.query.strategies import (
    CitationGraph,
    Expansion,
    ExpansionQueries,
    Neighbourhood,
    PageRank,
    RelatedEntities,
    Relevance,
    SpreadingActivation,
)
from graphrag_core.result import Channel, Hit, Link, Result, Step, Trace
from graphrag_core.retriever import Cache, GraphRetriever

__version__ = "0.1.0"

__all__ = [
    "Added",
    "Additive",
    "Anchored",
    "Answer",
    "AnswerStream",
    "Cache",
    "Calibration",
    "Channel",
    "ChatModel",
    "Chunk",
    "Chunker",
    "Citation",
    "CitationGraph",
    "Combined",
    "Community",
    "Coverage",
    "CrossEncoder",
    "Document",
    "Edit",
    "Entity",
    "Estimate",
    "Expansion",
    "ExpansionQueries",
    "Extraction",
    "Fact",
    "Gate",
    "GraphPath",
    "GraphRetriever",
    "Hit",
    "KnowledgeExtractor",
    "KnowledgeIndex",
    "LLMExtractor",
    "Link",
    "Mark",
    "Mention",
    "Message",
    "Neighbourhood",
    "OpenAIChat",
    "OwnScores",
    "PageRank",
    "ReciprocalRank",
    "Recogniser",
    "RelatedEntities",
    "Relevance",
    "Reranked",
    "Result",
    "Route",
    "Router",
    "Rule",
    "ScoreReranker",
    "SearchSettings",
    "SentenceExtractor",
    "SpreadingActivation",
    "Stats",
    "Step",
    "Trace",
    "Verification",
    "Weighted",
    "__version__",
    "as_chat_model",
]
