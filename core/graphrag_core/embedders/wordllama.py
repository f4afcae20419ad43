"""``WordLlama``: a 16 MB static embedding model whose weights ship in its wheel."""

from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import MissingDependency, optional_import
from graphrag_core.ports import Keys, Matrix

_TOKEN_DIMENSIONS = 64  # the model was trained so that the first ones can be used alone
_BATCH = 1_000  # texts per batch; bounds the memory for their tokens
_FEW = 32  # texts, up to which a question does not wake the tokenizer's threads


class WordLlama:
    """Embed texts with WordLlama: 256 dimensions, thousands of texts per second on a CPU, no download.

    A text's vector is the mean of its token vectors; a text without known tokens has the zero
    vector. wordllama itself pads a batch to equal length before it averages; here nothing is padded.

    Raises
    ------
    MissingDependency
        wordllama is not installed.
    """

    identity = "wordllama-l2-supercat-256"
    dim = 256
    vector_weight = 0.4

    def __init__(self) -> None:
        # Only the two files are read: importing wordllama changes the root logger, and needs its compiled modules.
        package = find_spec("wordllama")
        if package is None or package.origin is None:
            raise MissingDependency("wordllama", "wordllama", "The WordLlama embedder")
        with optional_import("safetensors and tokenizers", "wordllama", "The WordLlama embedder"):
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        folder = Path(package.origin).parent
        weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        self._weights: Matrix = weights.astype(np.float32)
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per text, as rows."""
        batches = [self.embed_tokens(*self._tokens(texts[at : at + _BATCH])) for at in range(0, len(texts), _BATCH)]
        return np.concatenate(batches) if batches else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        _, ids = self._tokens([text])  # a tenth of the time of one text in a batch
        vector: Matrix = _unit(self._weights[ids].sum(axis=0)[None] / np.float32(max(len(ids), 1)))[0]
        return vector

    def token_ids(self, texts: list[str]) -> list[npt.NDArray[np.uint16]]:
        """Return the ids of the tokens of each text, in order."""
        found: list[npt.NDArray[np.uint16]] = []
        for start in range(0, len(texts), _BATCH):
            count, ids = self._tokens(texts[start : start + _BATCH])
            found += np.split(ids.astype(np.uint16), np.cumsum(count)[:-1])
        return found

    def embed_tokens(self, counts: Keys, ids: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Return one unit vector per text, as rows, given the number of tokens of each text and their ids."""
        ends, ones = counts.cumsum(), np.ones(int(counts.max(initial=0)), np.float32)
        total = np.empty((len(counts), self.dim), np.float32)
        for row, (count, end) in enumerate(zip(counts.tolist(), ends.tolist(), strict=True)):
            np.dot(ones[:count], self._weights[ids[end - count : end]], out=total[row])
        return _unit(total / np.maximum(counts, 1).astype(np.float32)[:, None])

    def token_vectors(self, ids: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Return the unit vectors of tokens, one row each: their first 64 dimensions, which tell as much."""
        vectors: Matrix = self._token_table[ids]
        return vectors

    @cached_property
    def _token_table(self) -> Matrix:
        return _unit(self._weights[:, :_TOKEN_DIMENSIONS])

    def _tokens(self, texts: list[str]) -> tuple[Keys, npt.NDArray[np.int32]]:
        """Return the number of tokens of each text, and their ids."""
        tokenizer = self._tokenizer
        if len(texts) <= _FEW:
            tokens = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        else:  # encode_batch_fast, where available, does not compute character offsets
            encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
            tokens = [own.ids for own in encode(list(texts), add_special_tokens=False)]
        count = np.fromiter(map(len, tokens), np.int64, len(tokens))
        ids = np.fromiter(chain.from_iterable(tokens), np.int32, count.sum())
        return count, ids.clip(max=len(self._weights) - 1)


def _unit(vectors: Matrix) -> Matrix:
    unit: Matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
