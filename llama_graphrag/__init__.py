"""The LlamaIndex adapter: a retriever over vectors, keywords and a knowledge graph, and a memory tool for agents.

Import :class:`GraphRAGRetriever`, :func:`memory_search_tool`, :func:`memory_tools`,
:func:`postprocessor_reranker`, :class:`LocalEmbedding` and the two events from here; the modules inside are private.

>>> from llama_index.core.schema import TextNode
>>> from graphrag_core.testing import HashEmbedder
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

from graphrag_core.errors import MissingDependency

try:
    import llama_index.core as _llama_index
except ImportError as error:
    raise MissingDependency("llama-index-core", "llama", "llama_graphrag") from error

from llama_graphrag.embedding import LocalEmbedding
from llama_graphrag.events import GraphRAGInsertEvent, GraphRAGRetrievalEvent
from llama_graphrag.memory_tool import memory_search_tool, memory_tools
from llama_graphrag.prompt import GraphContextPostprocessor
from llama_graphrag.rerank import postprocessor_reranker
from llama_graphrag.retriever import GraphRAGRetriever

del _llama_index

__all__ = [
    "GraphContextPostprocessor",
    "GraphRAGInsertEvent",
    "GraphRAGRetrievalEvent",
    "GraphRAGRetriever",
    "LocalEmbedding",
    "memory_search_tool",
    "memory_tools",
    "postprocessor_reranker",
]
