"""Embedders: two that run in this process without network access, and two that call a server.

Import from here: ``WordLlama``, 16 MB with its weights in a wheel; ``Onnx`` for any ONNX model;
``OpenAIEmbedder`` for OpenAI and every OpenAI-compatible server; ``OllamaEmbedder``.
"""

from graphrag_core.embedders.local import Onnx
from graphrag_core.embedders.openai import OllamaEmbedder, OpenAIEmbedder
from graphrag_core.embedders.wordllama import WordLlama

__all__ = ["OllamaEmbedder", "Onnx", "OpenAIEmbedder", "WordLlama"]
