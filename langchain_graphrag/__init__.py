"""GraphRAG as a LangChain retriever: vectors, keywords and a knowledge graph answer together.

>>> from graphrag_core.testing import HashEmbedder
>>> retriever = GraphRAGRetriever.from_texts(
...     ["The Auth Service delegates to the OAuth Provider.", "The OAuth Provider is run by Keyring."],
...     HashEmbedder(),
...     ids=["auth", "oauth"],
... )
>>> [document.id for document in retriever.invoke("Who is behind the Auth Service?", k=2)]
['auth', 'oauth']
"""

from graphrag_core.errors import MissingDependency

try:
    from langchain_graphrag.documents import Found
    from langchain_graphrag.extraction import llm_extractor
    from langchain_graphrag.memory import create_memory_search_tool
    from langchain_graphrag.retriever import GraphRAGRetriever
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "langchain_core":
        raise
    raise MissingDependency("langchain-core", "langchain", "langchain_graphrag") from error

__all__ = ["Found", "GraphRAGRetriever", "create_memory_search_tool", "llm_extractor"]
