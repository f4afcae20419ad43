"""An embedder, checked: what it returns is usable, or the error says which text it failed on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphrag_core.errors import DocumentError, EmbedderError, InputError
from graphrag_core.ports import Embedder, Matrix

_TINY = 1e-12


def identity_of(embedder: Embedder) -> str:
    """Return the name under which an index remembers an embedder.

    Its ``identity`` if it has one, else its class and the model it names.
    """
    known = getattr(embedder, "identity", None)
    if isinstance(known, str) and known:
        return known
    kind = type(embedder)
    for attribute in ("model_name", "model", "model_id", "deployment"):
        if isinstance(model := getattr(embedder, attribute, None), str) and model:
            return f"{kind.__module__}.{kind.__qualname__}({model})"
    return f"{kind.__module__}.{kind.__qualname__}"


class Embedding:
    """Wraps an embedder: unit vectors of one dimension, or an :class:`EmbedderError`.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents`` and ``embed_query``.
    dim
        The dimension the index has; None until the first vectors come.
    """

    def __init__(self, embedder: Embedder, dim: int | None = None) -> None:
        for method in ("embed_documents", "embed_query"):
            if not callable(getattr(embedder, method, None)):
                kind = type(embedder).__qualname__
                raise InputError(f"{kind} is no embedder: it needs embed_documents(list[str]) and embed_query(str)")
        self.embedder = embedder
        self.identity = identity_of(embedder)
        self.embedded = bool(getattr(embedder, "embedded", False))
        self.local = self.embedded or bool(getattr(embedder, "local", False))
        self.dim = dim

    def copy(self) -> Embedding:
        """Return the same with a memory of its own for the dimension."""
        return Embedding(self.embedder, self.dim)

    def documents(self, texts: Sequence[str], owners: Sequence[str]) -> Matrix:
        """Return a unit vector for each text; ``owners`` name the documents they come from."""
        if not texts:
            return np.empty((0, self.dim or 0), np.float32)
        try:
            raw = self.embedder.embed_documents(list(texts))
        except Exception as error:
            raise EmbedderError(
                f"{self.identity} raised {type(error).__name__} on {len(texts)} texts, "
                f"the first of document {owners[0]!r}: {error}"
            ) from error
        return self._checked(raw, len(texts), owners)

    def query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        try:
            raw = self.embedder.embed_query(text)
        except Exception as error:
            raise EmbedderError(f"{self.identity} raised {type(error).__name__} on a question: {error}") from error
        vector: Matrix = self.copy()._checked([raw], 1, ["the question"])[0]  # noqa: SLF001 - learns nothing
        return vector

    def given(self, document_id: str, vector: Sequence[float]) -> Matrix:
        """Return a vector that came with a document as a unit vector of the index's dimension."""
        try:
            row = np.array(vector, np.float32)
        except (TypeError, ValueError) as error:
            raise DocumentError(document_id, f"its vector is no row of numbers: {error}") from error
        if row.ndim != 1 or not len(row) or not np.isfinite(row).all():
            raise DocumentError(document_id, f"its vector, of shape {row.shape}, is no row of finite numbers")
        if self.dim is not None and len(row) != self.dim:
            raise DocumentError(
                document_id,
                f"its vector has {len(row)} components, the index {self.dim}: give vectors of the index's own embedder",
            )
        self.dim = len(row)
        unit: Matrix = row / np.float32(max(float(np.linalg.norm(row)), _TINY))
        return unit

    def _checked(self, raw: object, count: int, owners: Sequence[str]) -> Matrix:
        try:
            vectors = np.array(raw, np.float32)
        except (TypeError, ValueError) as error:
            raise EmbedderError(
                f"{self.identity} returned vectors of differing lengths or no numbers: {error}"
            ) from error
        if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
            raise EmbedderError(
                f"{self.identity} returned an array of shape {vectors.shape} for {count} texts "
                f"(the first of document {owners[0]!r}): one vector for each text is needed"
            )
        if self.dim is not None and vectors.shape[1] != self.dim:
            raise EmbedderError(
                f"{self.identity} returned vectors of dimension {vectors.shape[1]}, the index has {self.dim}: "
                "use the embedder that built it"
            )
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise EmbedderError(f"{self.identity} returned NaN or infinity for document {owners[int(bad[0])]!r}")
        self.dim = vectors.shape[1]
        unit: Matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
        return unit
