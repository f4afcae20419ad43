"""The interfaces that can be implemented outside this library.

``Embedder`` and ``Extractor`` are small; :mod:`graphrag_core.testing` has a compliance suite for each. ``Snapshot`` is
what a strategy reads of an index.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from graphrag_core.model import Chunk, Document, Entity, Extraction, Fact

Keys = npt.NDArray[np.int64]
"""Keys of chunks, entities or facts: opaque integers.

Keys of facts are the same in all snapshots of one generation and scope, keys of chunks and entities in one snapshot.
"""

Matrix = npt.NDArray[np.float32]
"""One vector per row."""

Scores = npt.NDArray[np.float32]

Ranking = tuple[Keys, Scores]
"""Keys and their scores, best first."""

Kind = Literal["chunks", "facts", "entities"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. LangChain's ``Embeddings`` has the same shape.

    Optional attributes: ``identity``, a string that changes when the vectors change; ``local``,
    true for a model that runs in this process; ``embedded``, true for one whose cost is negligible;
    ``embed_queries``, a method that embeds a list of questions in one call, for strategies that search
    with many. Without it ``embed_query`` is called for each. ``vector_weight`` is the weight of vector search
    in plain search that suits the vectors, 0.5 without it.

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

    Attributes
    ----------
    document
        The document as it was added.
    metadata
        The document's metadata as JSON.
    digest
        Hash of the content and of the settings it was parsed with; empty if extraction failed in part.
    chunks, extractions
        The passages and what was extracted from each.
    names
        For each chunk the names it mentions, subjects first; the value is true for a subject.
    chunk_vectors
        One row for each chunk; None if they are not embedded.
    chunk_tokens
        For each chunk the ids of its tokens, packed as little-endian 16-bit numbers: of its label, of each fact, and
        of the rest of the text; None if the embedder has no token ids.
    token_counts
        For each chunk the numbers of tokens of its label, of each fact and of the rest, packed in the same way.
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
    """A file that documents were read from.

    Attributes
    ----------
    path
        As in :class:`~graphrag_core.model.FileMark`.
    document
        The id of one of its documents.
    documents
        How many there are.
    version
        The version of the file if all of its documents are there and extracted completely, else empty.
    """

    path: str
    document: str
    documents: int
    version: str


class Adjacency(NamedTuple):
    """The edges of some nodes, one node after the other.

    Attributes
    ----------
    counts
        The number of edges of each node.
    targets, weights
        Where the edges lead and their weights.
    totals
        For each node the sum of the weights of these edges.
    """

    counts: Keys
    targets: Keys
    weights: Scores
    totals: Scores

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
    """Some chunks and their facts, and which of some terms each contains.

    Attributes
    ----------
    of_chunks
        One row for each chunk, one column for each term.
    facts, owners
        The facts, and the position of the chunk of each.
    of_facts
        One row for each fact, one column for each term.
    """

    of_chunks: npt.NDArray[np.bool_]
    facts: Keys
    owners: Keys
    of_facts: npt.NDArray[np.bool_]


class Snapshot(Protocol):
    """One generation of an index, restricted to a scope. All reads of a query go through it.

    Chunks and entities are the nodes of the graph. An edge from a chunk to an entity weighs 1
    for a mention and 5 more if the entity is the chunk's subject. An edge between two entities
    weighs the sum of ``weight / 10`` over the facts that hold both. Chunks, facts, mentions
    and counts outside the scope do not exist for a snapshot.

    Every operation can be answered by a remote database in one round trip. None needs all
    vectors, all keys or the whole graph on the client.
    """

    @property
    def generation(self) -> int:
        """The number of changes the index has seen."""

    @property
    def numbering(self) -> object:
        """Two snapshots of one generation that have the same object here have the same keys."""

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""

    @property
    def statistics_count(self) -> int:
        """The number of chunks of all documents, which :meth:`term_counts` counts."""

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """The metadata keys of the scope that no document of the index has."""

    def metadata_keys(self) -> list[str]:
        """Return the metadata keys of all documents, for the log of the operator. At most some thousand."""

    @property
    def first_entity(self) -> int:
        """Keys of chunks are below this number, keys of entities are not."""

    @property
    def node_limit(self) -> int:
        """All node keys seen so far are below this number, so that algorithms can use arrays."""

    @property
    def linked_share(self) -> float:
        """The share of chunks that mention the subject of another chunk. 0 if the graph leads nowhere."""

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any chunks, facts or entities, or any vectors of them."""

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the nearest ``k`` chunks or entities by cosine, and what ties with the last."""

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks or facts by BM25 with a positive score, and what ties with the last.

        Phrases in quotation marks count as phrases. Facts that say the same are returned once, the best of them.
        """

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text as keyword search sees them: stemmed, without stop words, each once.

        An identifier has a term for each part and one for the whole.
        """

    def term_counts(self, terms: Sequence[str]) -> Keys:
        """Return how many chunks of all documents contain each term in their title, headings or text.

        0 for a term that no chunk in scope contains: a score must not tell whether other documents contain a word.
        """

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which terms chunks or the names of entities contain: one row for each key, one column for each term.

        A chunk's title and headings belong to its text; the title and headings of a chunk do not belong to its facts.
        """

    def sentences(self, chunks: Keys, terms: Sequence[str]) -> Sentences:
        """Return which terms chunks and each of their facts contain."""

    def facts_in(self, chunks: Keys) -> Keys:
        """Return the facts of chunks in the order of ids; of those that say the same the first."""

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector; 0 where one of the two has no vector."""

    def tokens(self, chunks: Keys) -> tuple[Keys, npt.NDArray[np.uint16]]:
        """Return the number of token ids of each chunk (0 without), and the ids one chunk after the other."""

    def documents_of(self, chunks: Keys) -> Keys:
        """Return a number for each chunk, which chunks of the same document share."""

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        """Return numbers that sort chunks by id, or facts by chunk id and position in the chunk."""

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the chunks of some ids; those that do not exist are left out."""

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        """Return the entities of normalised names; unknown names are left out."""

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""

    def entity_counts(self, entities: Keys) -> Keys:
        """Return how many chunks mention each entity, in a scope at most 200."""

    def are_subjects(self, entities: Keys) -> npt.NDArray[np.bool_]:
        """Return whether some chunk is about each entity."""

    def mentions(self, chunks: Keys) -> Adjacency:
        """Return the entities that chunks mention, in the order in which they were found.

        An entity that a chunk is about weighs 6. A chunk that is about none is about the one with the longest name that
        it opens with.
        """

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes, restricted to chunks or entities as targets if ``to`` is given.

        With ``limit`` the strongest edges of each node, strongest first, ties by key.
        """

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. Counting may stop at ``most``."""

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes: the entities of chunks, and the chunks of entities.

        An engine may return only the strongest if a node has thousands.
        """

    def search_names(self, start: str, inside: str) -> Keys:
        """Return the entities of which a normalised name begins with one text and contains another.

        In the order of :meth:`top_entities`. It may return more: callers check them.
        """

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        """Return the facts that hold any of some entities, or with ``joint`` all of them, in order of key.

        ``relations`` restricts them to triples of these relations, ``limit`` restricts their number per entity.
        """

    def outgoing_facts(self, entity: int, facts: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return which of an entity's facts start at it: sentences, and triples whose subject it is.

        With each fact's confidence and the time of its last access, or of its creation if it was never accessed.
        """

    def are_triples(self, facts: Keys) -> npt.NDArray[np.bool_]:
        """Return which facts have a relation."""

    def fact_rows(self, facts: Keys) -> FactRows:
        """Return facts as columns, in the order given."""

    def chunks(self, keys: Keys) -> list[Chunk]:
        """Return chunks in the order given."""

    def facts(self, keys: Keys) -> list[Fact]:
        """Return facts in the order given, with entity ids in place of names."""

    def entities(self, keys: Keys) -> list[Entity]:
        """Return entities in the order given, described by the chunks in scope alone."""

    def top_entities(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first."""

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact. May be written later, with the next change of the index."""
