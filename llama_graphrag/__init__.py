"""The LlamaIndex adapter: a retriever over vectors, keywords and a knowledge graph, and a memory tool for agents.

>>> from llama_index.core.schema import TextNode
>>> from graphrag_core.testing import HashEmbedder
>>> from llama_graphrag import GraphRAGRetriever
>>> retriever = GraphRAGRetriever.from_nodes(
...     [
...         TextNode(id_="auth", text="The Auth Service delegates sign-in to the OAuth Provider."),
...         TextNode(id_="oauth", text="The OAuth Provider speaks to Keyring."),
...     ],
...     HashEmbedder(),
... )
>>> [found.node_id for found in retriever.retrieve("What does the Auth Service need?")]
['auth', 'oauth']
"""

from typing import TYPE_CHECKING

from graphrag_core.errors import optional_import
from graphrag_core.lazy import lazy_names

with optional_import("llama-index-core", "llama", "llama_graphrag"):
    import llama_index.core

if TYPE_CHECKING:
    from llama_graphrag.memory_tool import memory_search_tool
    from llama_graphrag.models import LocalEmbedding
    from llama_graphrag.retriever import GraphRAGRetriever
    from llama_graphrag.vector_store import GraphRAGVectorStore

del llama_index

__all__ = [
    "GraphRAGRetriever",
    "GraphRAGVectorStore",
    "LocalEmbedding",
    "memory_search_tool",
]

__getattr__ = lazy_names(
    __name__,
    {
        "memory_tool": "memory_search_tool",
        "models": "LocalEmbedding",
        "retriever": "GraphRAGRetriever",
        "vector_store": "GraphRAGVectorStore",
    },
)
