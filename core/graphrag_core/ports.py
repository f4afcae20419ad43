"""The interfaces that can be implemented outside this library.

``Embedder`` and ``Extractor`` are small; :mod:`graphrag_core.testing` has a compliance suite for each. The values
below are what :class:`~graphrag_core.engine.snapshot.Snapshot` returns, which a strategy reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from graphrag_core.model import Chunk, Document, Extraction

Keys = npt.NDArray[np.int64]
"""Keys of chunks, entities or facts: opaque integers.

Keys of facts are the same in all snapshots of one generation and scope, keys of chunks and entities in one snapshot.
"""

Matrix = npt.NDArray[np.float32]
"""One vector per row."""

Scores = npt.NDArray[np.float32]

Ranking = tuple[Keys, Scores]
"""Keys and their scores, best first."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. LangChain's ``Embeddings`` has the same shape.

    Optional attributes: ``identity``, a string that changes when the vectors change; ``embed_queries``, a method that
    embeds a list of questions in one call, for strategies that search with many: without it ``embed_query`` is called
    for each; ``vector_weight``, the weight of vector search in plain search that suits the vectors, 0.5 without it.

    Three optional methods of static models, whose vocabulary has at most 65,536 tokens:
    ``token_ids(texts: list[str]) -> list[npt.NDArray[np.uint16]]`` returns the ids of the tokens of each text, in
    order; ``embed_tokens(counts, ids) -> Matrix`` returns the vectors of texts, given the number of tokens of each and
    their ids; ``token_vectors(ids: npt.NDArray[np.integer]) -> Matrix`` returns the unit vectors of
    tokens, one row each. With all of them, the token ids of passages are stored, and the vectors of facts are made of
    them when a question needs them.
    """

    def embed_documents(self, texts: list[str]) -> Any:
        """Return one vector for each text, in order, all of the same dimension."""

    def embed_query(self, text: str) -> Any:
        """Return the vector of a question."""


@runtime_checkable
class Extractor(Protocol):
    """Extracts entities and facts from chunks.

    An optional ``identity`` string that changes with the settings tells the index to extract
    unchanged documents again.
    """

    def extract(self, chunks: Sequence[Chunk]) -> Sequence[Extraction]:
        """Return one extraction for each chunk, in order."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document after chunking, extraction and embedding, ready to be written.

    ``metadata`` is JSON. ``digest`` is a hash of the content and of the settings; empty if extraction failed in part.
    ``names`` are those that each chunk mentions, subjects first; the value is true for a subject.
    ``chunk_vectors`` has a row for each chunk. ``chunk_tokens`` has for each the ids of its tokens, packed as
    little-endian 16-bit numbers: of its label, of each fact, and of the rest of the text; ``token_counts`` how many
    these are, packed in the same way.
    """

    document: Document
    metadata: str
    digest: str
    chunks: Sequence[Chunk]
    extractions: Sequence[Extraction]
    names: Sequence[Mapping[str, bool]]
    chunk_vectors: Matrix | None = None
    chunk_tokens: Sequence[bytes] | None = None
    token_counts: Sequence[bytes] | None = None


class StoredFile(NamedTuple):
    """A file that documents were read from: its path, the id of one of its documents, and how many there are.

    ``version`` is that of the file if all of its documents are there and extracted completely, else empty.
    """

    path: str
    document: str
    documents: int
    version: str


class Adjacency(NamedTuple):
    """The edges of some nodes, one node after the other: how many each has, and where they lead."""

    counts: Keys
    targets: Keys
    weights: Scores

    @property
    def totals(self) -> npt.NDArray[np.float64]:
        """The sum of the weights of the edges of each node."""
        owners = np.arange(len(self.counts)).repeat(self.counts)
        return np.bincount(owners, self.weights, len(self.counts)).astype(np.float64, copy=False)

    @property
    def is_about(self) -> npt.NDArray[np.bool_]:
        """Which edges lead from a chunk to an entity that it is about, or back."""
        return self.weights > 5


class FactRows(NamedTuple):
    """Facts as columns: their chunks, their weights (1 to 10), and their entities one fact after the other."""

    keys: Keys
    chunks: Keys
    weights: Scores
    counts: Keys
    entities: Keys


class Sentences(NamedTuple):
    """Some chunks and their facts, and which of some terms each contains: a row for each, a column for each term.

    ``owners`` has the position of the chunk of each fact.
    """

    of_chunks: npt.NDArray[np.bool_]
    facts: Keys
    owners: Keys
    of_facts: npt.NDArray[np.bool_]
