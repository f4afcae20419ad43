"""Extractors: from chunks to the entities they mention and the facts they state.

Import the names in ``__all__`` from here. Any object with the method of
:class:`graphrag_core.ports.Extractor` can take their place.
"""

from typing import TYPE_CHECKING

from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_core.extract.knowledge import KnowledgeExtractor
    from graphrag_core.extract.llm import LLMExtractor, LLMReport
    from graphrag_core.extract.sentences import Combined, SentenceExtractor
    from graphrag_core.extract.source_names import source_and_rest, source_of, sources

__all__ = [
    "Combined",
    "KnowledgeExtractor",
    "LLMExtractor",
    "LLMReport",
    "SentenceExtractor",
    "source_and_rest",
    "source_of",
    "sources",
]

__getattr__ = lazy_names(
    __name__,
    {
        "knowledge": "KnowledgeExtractor",
        "llm": "LLMExtractor LLMReport",
        "sentences": "Combined SentenceExtractor",
        "source_names": "source_and_rest source_of sources",
    },
)
