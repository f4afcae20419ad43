"""Embedders that run in this process without network access.

Import from here: ``WordLlama``, 16 MB with its weights in a wheel, and ``Onnx`` for any ONNX model.
"""

from graphrag_core.embedders.onnx import Onnx
from graphrag_core.embedders.wordllama import WordLlama

__all__ = ["Onnx", "WordLlama"]
