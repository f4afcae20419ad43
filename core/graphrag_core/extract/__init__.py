"""Extractors: from chunks to the entities they mention and the facts they state, each imported when it is used.

Any object with the method of :class:`graphrag_core.ports.Extractor` can take their place. The default one reads all
chunks of a source at once, without a model:

- ``names``: the candidates for names in a text, with their places;
- ``source_names``: which candidates are names, decided by the uses of this source alone;
- ``subjects``: what a chunk is about, and the addresses that links to it have;
- ``sentences``: the mentions and facts of a chunk. A sentence is a fact of its names and of the chunk's subjects.

What a rule is worth, in points of recall@5: words that only open sentences of short sources 1.1 (MuSiQue 3.2), words
at both ends that are not part of a name 0.4, names of several words in lower case 0.2 (documents 2.4), quoted titles
0.2, a name and its place 0.2 (documents 1.0). A word is decided by its uses for the sake of people (−0.4).
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
