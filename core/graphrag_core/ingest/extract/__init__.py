"""Extractors: from a chunk to the entities it mentions and the facts it states."""

from graphrag_core.ingest.extract.combine import Combined
from graphrag_core.ingest.extract.known import KnowledgeExtractor
from graphrag_core.ingest.extract.llm import LLMExtractor, LLMReport
from graphrag_core.ingest.extract.sentence import SentenceExtractor
from graphrag_core.ingest.extract.triples import TripleExtractor

__all__ = ["Combined", "KnowledgeExtractor", "LLMExtractor", "LLMReport", "SentenceExtractor", "TripleExtractor"]
