"""Extractors: from chunks to the entities they mention and the facts they state, each imported when it is used.

Any object with the method of :class:`graphrag_core.ports.Extractor` can take their place.
"""

from typing import TYPE_CHECKING

from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_core.extract.knowledge import KnowledgeExtractor as KnowledgeExtractor
    from graphrag_core.extract.llm import LLMExtractor as LLMExtractor
    from graphrag_core.extract.llm import LLMReport as LLMReport
    from graphrag_core.extract.sentences import Combined as Combined
    from graphrag_core.extract.sentences import SentenceExtractor as SentenceExtractor
    from graphrag_core.extract.source_names import source_and_rest as source_and_rest
    from graphrag_core.extract.source_names import source_of as source_of
    from graphrag_core.extract.source_names import sources as sources

__getattr__ = lazy_names(
    __name__,
    {
        "knowledge": "KnowledgeExtractor",
        "llm": "LLMExtractor LLMReport",
        "sentences": "Combined SentenceExtractor",
        "source_names": "source_and_rest source_of sources",
    },
)
