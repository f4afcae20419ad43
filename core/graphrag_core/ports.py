"""The shapes that another engine, model or extractor must have to take a part's place.

Each port has a compliance suite in :mod:`graphrag_core.testing` that an implementer
runs with a dozen lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from graphrag_core.model import Chunk, Extraction

Keys = npt.NDArray[np.int64]
"""Integer keys of chunks, facts or names, given by the records and never used again."""

Matrix = npt.NDArray[np.float32]
"""One vector a row."""

Scores = npt.NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; the shape that LangChain's ``Embeddings`` has.

    Optional attributes are read where they exist: ``identity``, a string that changes when
    the vectors would; ``local``, true for a model that runs in this process; ``embedded``,
    true for one that does so for next to nothing.
    """

    def embed_documents(self, texts: list[str]) -> Any:
        """Return one vector for each text, in order, all of one dimension."""

    def embed_query(self, text: str) -> Any:
        """Return the vector of a question."""


@runtime_checkable
class Extractor(Protocol):
    """Reads entities and facts out of chunks.

    An optional ``identity`` string that changes with the settings lets the index notice
    that unchanged documents should be read again.
    """

    def extract(self, chunks: Sequence[Chunk]) -> Sequence[Extraction]:
        """Return one extraction for each chunk, in order."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens a text costs."""

    def __call__(self, text: str, /) -> int:
        """Return the number of tokens, 0 for the empty text."""


@runtime_checkable
class VectorStore(Protocol):
    """Nearest vectors by inner product (cosine, as all vectors are of length one)."""

    def add(self, keys: Keys, vectors: Matrix) -> None:
        """Add vectors under new keys, each greater than every key there ever was."""

    def remove(self, keys: Keys) -> None:
        """Remove vectors; keys that are not there are passed over."""

    def search(self, queries: Matrix, k: int, allowed: Keys | None = None) -> list[tuple[Keys, Scores]]:
        """Return for each query the best ``k`` keys and scores, best first.

        Vectors that tie with the last one are returned too, so that the caller can break
        the tie by id. ``allowed``, sorted, restricts the search.
        """

    def get(self, keys: Keys) -> Matrix:
        """Return the vectors of keys that are all there."""

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""

    def load(self, folder: Path) -> None:
        """Take back what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if damaged."""


@runtime_checkable
class KeywordStore(Protocol):
    """BM25 over texts.

    A store may have a ``rest()`` too: called after a long addition, it gives back what only
    writing needs. The next change must find it ready all the same.
    """

    def apply(self, generation: int, removed: Keys, added: Iterable[tuple[int, str]]) -> None:
        """Remove, add and become ``generation``, all or nothing even if the process dies."""

    def replace(self, generation: int, texts: Iterable[tuple[int, str]]) -> None:
        """Become exactly these texts at ``generation``, all or nothing."""

    def search(self, text: str, k: int, allowed: Keys | None = None) -> tuple[Keys, Scores]:
        """Return the best ``k`` keys with a positive score, best first, ties with the last too."""

    @property
    def generation(self) -> int:
        """The generation last applied; -1 for a new store."""

    @property
    def ghosts(self) -> int:
        """How many removed texts still count in the statistics; :meth:`replace` clears them."""

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""

    def refresh(self) -> None:
        """See what another process has applied since."""

    def close(self) -> None:
        """Give back locks and files."""


@runtime_checkable
class GraphStore(Protocol):
    """Entities, the chunks that mention them and the facts that join them."""

    def add(self, part: Any) -> None:
        """Add a :class:`~graphrag_core.stores.graph.GraphPart`."""

    def remove(self, chunks: Keys, names: Keys) -> None:
        """Remove chunks with their facts and mentions, and names that nothing mentions now."""

    def join_similar(self, pairs: tuple[Keys, Keys]) -> None:
        """Take pairs of names for the same entity, in place of all pairs taken so before."""

    @property
    def stale(self) -> bool:
        """Whether the view has to be built anew."""

    @property
    def view(self) -> Any:
        """The graph to traverse and rank on: a :class:`~graphrag_core.stores.graph.GraphView`."""

    def restricted(self, chunks: Keys) -> Any:
        """Return the view of some chunks alone, as if there were no others."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""

    def load(self, folder: Path) -> None:
        """Take back what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if damaged."""
