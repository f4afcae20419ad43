"""The LangChain adapter: a retriever over vectors, keywords and a knowledge graph, and a memory tool for agents.

>>> from graphrag_core.testing import HashEmbedder
>>> from langchain_core.documents import Document
>>> from langchain_graphrag import GraphRAGRetriever
>>> documents = [
...     Document("The Auth Service delegates to the OAuth Provider.", id="auth"),
...     Document("The OAuth Provider is run by Keyring.", id="oauth"),
... ]
>>> retriever = GraphRAGRetriever.from_documents(documents, HashEmbedder())
>>> [document.id for document in retriever.invoke("Who is behind the Auth Service?", k=2)]
['auth', 'oauth']
"""

from typing import TYPE_CHECKING

from graphrag_core.errors import MissingDependency
from graphrag_core.lazy import lazy_names

try:
    import langchain_core.retrievers  # first: in another order LangChain takes a tenth of a second longer to import
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "langchain_core":
        raise
    raise MissingDependency("langchain-core", "langchain", "langchain_graphrag") from error

if TYPE_CHECKING:
    from langchain_graphrag.extraction import llm_extractor
    from langchain_graphrag.memory_tool import create_memory_search_tool
    from langchain_graphrag.rerank import compressor_reranker
    from langchain_graphrag.retriever import GraphRAGRetriever

del langchain_core

__all__ = [
    "GraphRAGRetriever",
    "compressor_reranker",
    "create_memory_search_tool",
    "llm_extractor",
]

__getattr__ = lazy_names(
    __name__,
    {
        "extraction": "llm_extractor",
        "memory_tool": "create_memory_search_tool",
        "rerank": "compressor_reranker",
        "retriever": "GraphRAGRetriever",
    },
)
