"""What an agent reads, in tokens of the framework."""

from __future__ import annotations

import llama_index.core
from llama_index.core.schema import TextNode

from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, memory_search_tool


def test_tokens_are_counted_with_the_tokenizer_of_the_framework(monkeypatch):
    counted = []
    monkeypatch.setattr(llama_index.core, "global_tokenizer", lambda text: counted.append(text) or text.split())
    nodes = [TextNode(id_="auth", text="The Auth Service calls the Keyring.")]
    with GraphRAGRetriever.from_nodes(nodes, HashEmbedder()) as retriever:
        memory_search_tool(retriever).call(query="Keyring")
    assert counted
