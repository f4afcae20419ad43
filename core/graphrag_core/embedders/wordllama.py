"""The embedded default: a 16 MB static embedding whose weights are inside its wheel."""

from __future__ import annotations

import logging
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from graphrag_core.errors import MissingDependency
from graphrag_core.ports import Matrix

_PAGE = 1_000  # texts at once: what their tokens take stays small


class WordLlama:
    """Vectors of 256 components from WordLlama; thousands of texts a second on a CPU, no download.

    A text's vector is the mean of its tokens'. The library pads texts to equal length before it
    takes the mean; here the tokens of many texts are summed up as they are, which gives the
    same numbers in less than half of the time.

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
            model: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        except ImportError as error:
            raise MissingDependency("wordllama", "cli", "The embedded embedder") from error
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers
        self._weights: Matrix = model.embedding
        self._tokenizer: Any = model.tokenizer
        self._tokenizer.no_padding()

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector a row."""
        texts = list(texts)
        pages = [self._embed(texts[start : start + _PAGE]) for start in range(0, len(texts), _PAGE)]
        return np.concatenate(pages) if pages else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        vector: Matrix = self._embed([text])[0]
        return vector

    def _embed(self, texts: list[str]) -> Matrix:
        # The fast one, where there is one, keeps no account of where in the text a token was.
        encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        tokens = [encoding.ids for encoding in encode(texts, add_special_tokens=False)]
        count = np.fromiter(map(len, tokens), np.int64, len(tokens))
        ends = np.concatenate([[0], np.cumsum(count)])
        ids = np.fromiter(chain.from_iterable(tokens), np.int32, ends[-1]).clip(max=len(self._weights) - 1)
        once = np.ones(len(ids), np.float32)
        total = csr_array((once, ids, ends), shape=(len(texts), len(self._weights))) @ self._weights
        mean = total / np.maximum(count, 1).astype(np.float32)[:, None]
        unit: Matrix = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
        return unit
