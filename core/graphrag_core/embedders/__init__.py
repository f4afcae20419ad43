"""Embedders that run in this process, offline: the embedded default, and any ONNX model."""

from graphrag_core.embedders.onnx import Onnx
from graphrag_core.embedders.wordllama import WordLlama

__all__ = ["Onnx", "WordLlama"]
