"""The embedded default: a 16 MB static embedding whose weights are inside its wheel."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core.errors import MissingDependency
from graphrag_core.ports import Matrix


class WordLlama:
    """Vectors of 256 components from WordLlama; thousands of texts a second on a CPU, no download.

    A text without a single known token has the zero vector.
    """

    identity = "wordllama-l2-supercat-256"
    embedded = True
    dim = 256

    def __init__(self) -> None:
        root = logging.getLogger()
        level, handlers = root.level, root.handlers[:]  # importing wordllama sets both
        try:
            import wordllama

            folder = Path(wordllama.__file__).parent
            self._model: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        except ImportError as error:
            raise MissingDependency("wordllama", "cli", "The embedded embedder") from error
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector a row."""
        if not texts:
            return np.empty((0, self.dim), np.float32)
        vectors = np.asarray(self._model.embed(list(texts), norm=False), np.float32)
        vectors = np.nan_to_num(vectors)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Matrix = vectors / np.maximum(length, 1e-12)
        return unit

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        vector: Matrix = self.embed_documents([text])[0]
        return vector
