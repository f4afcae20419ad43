"""Extractors: from chunks to the entities they mention and the facts they state.

Import the names in ``__all__`` from here. Any object with the method of
:class:`graphrag_core.ports.Extractor` can take their place.
"""

from graphrag_core.extract.knowledge import KnowledgeExtractor
from graphrag_core.extract.llm import LLMExtractor, LLMReport
from graphrag_core.extract.sentences import Combined, SentenceExtractor

__all__ = ["Combined", "KnowledgeExtractor", "LLMExtractor", "LLMReport", "SentenceExtractor"]
