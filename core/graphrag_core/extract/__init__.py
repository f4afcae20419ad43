"""Extractors: from chunks to the entities they mention and the facts they state, each imported when it is used.

Any object with the method of :class:`graphrag_core.ports.Extractor` can take their place. The default one reads all
chunks of a source at once, without a model:

- ``names``: the candidates for names in a text, with their places;
- ``source_names``: which candidates are names, decided by the uses of this source alone;
- ``subjects``: what a chunk is about, and the addresses that links to it have;
- ``sentences``: the mentions and facts of a chunk. A sentence is a fact of its names and of the chunk's subjects.

What a rule is worth: mean recall@5 / @10 lost without it, in points, over MuSiQue and HotpotQA without titles, emanual
and privacy (466 questions; on one set two points are noise).

===============================================  ============
words that only open sentences of short sources  1.1 / 1.1
words at both ends that are not part of a name   0.4 / 0.4
names of several words in lower case             0.2 / 0.0
titles in quotation marks                        0.2 / 0.1
a name and its place are two names               0.2 / 0.1
statements and boilerplate told apart            0.2 / 0.0
a word is decided by its uses                    -0.4 / -0.3
===============================================  ============

Rules below half a point stay where people would see what they keep out: "The session", "Mara Lindqvist in Tallinn".
Without gain, and gone: full names for the surnames of persons, long forms for short ones, rows of tables as facts,
names in blocks of code, numbers of footnotes, headings that are sentences.
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
