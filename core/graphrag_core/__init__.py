"""Index documents into chunks, entities and facts; retrieve by vector, keyword and graph.

>>> from graphrag_core import Document, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> with KnowledgeIndex(HashEmbedder()) as index:
...     report = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage.")])
...     [entity.name for entity, weight in index.graph.neighbours("Ada Lovelace")]
['Charles Babbage']
"""

from typing import TYPE_CHECKING

from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_core.extract import Combined, KnowledgeExtractor, LLMExtractor, SentenceExtractor
    from graphrag_core.index import KnowledgeIndex
    from graphrag_core.ingest.chunker import Chunker
    from graphrag_core.llm import OpenAIChat
    from graphrag_core.model import Added, Chunk, Document, Edit, Entity, Extraction, Fact, Mention, Stats
    from graphrag_core.query.settings import SearchSettings
    from graphrag_core.result import Hit, Result
    from graphrag_core.retriever import Cache, GraphRetriever

__version__ = "0.1.0"

__all__ = [
    "Added",
    "Cache",
    "Chunk",
    "Chunker",
    "Combined",
    "Document",
    "Edit",
    "Entity",
    "Extraction",
    "Fact",
    "GraphRetriever",
    "Hit",
    "KnowledgeExtractor",
    "KnowledgeIndex",
    "LLMExtractor",
    "Mention",
    "OpenAIChat",
    "Result",
    "SearchSettings",
    "SentenceExtractor",
    "Stats",
    "__version__",
]

__getattr__ = lazy_names(
    __name__,
    {
        "extract": "Combined KnowledgeExtractor LLMExtractor SentenceExtractor",
        "index": "KnowledgeIndex",
        "ingest.chunker": "Chunker",
        "llm": "OpenAIChat",
        "model": "Added Chunk Document Edit Entity Extraction Fact Mention Stats",
        "query.settings": "SearchSettings",
        "result": "Hit Result",
        "retriever": "Cache GraphRetriever",
    },
)
