"""The graph as queries see it: sparse matrices over positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import igraph
import numpy as np
import numpy.typing as npt
from scipy.sparse import block_array, csr_array

from graphrag_core.ports import Keys

Index = npt.NDArray[np.int64]

SUBJECT_WEIGHT = 5.0

_MATRICES = ("mentions", "subjects", "incidence", "links")
_VECTORS = ("chunk_keys", "fact_keys", "fact_chunk", "fact_weight", "entity_ids", "name_keys", "name_entity")


@dataclass(frozen=True)
class GraphView:
    """Chunks, facts and entities by position, with the matrices that join them.

    Attributes
    ----------
    chunk_keys, fact_keys, name_keys
        Keys of the records, ascending; an array's index is the position.
    entity_ids
        The number of each entity: the hash of the normalised name that stands for it.
    name_entity
        The entity of each name.
    fact_chunk, fact_weight
        The chunk (position) and the strength (1 to 10) of each fact.
    mentions, subjects
        Chunk × entity, 1 where the chunk mentions the entity or is about it.
    incidence
        Fact × entity, 1 where the fact holds the entity.
    links
        Entity × entity, symmetric: the sum of weight / 10 over the facts that hold both.
    """

    chunk_keys: Keys
    fact_keys: Keys
    fact_chunk: Index
    fact_weight: npt.NDArray[np.float32]
    entity_ids: Index
    name_keys: Keys
    name_entity: Index
    mentions: csr_array
    subjects: csr_array
    incidence: csr_array
    links: csr_array

    @cached_property
    def adjacency(self) -> csr_array:
        """Chunks and then entities, symmetric: 1 a mention, 5 more for a subject, and the links."""
        touching = self._touching
        return block_array([[None, touching], [touching.T, self.links]], format="csr")

    @property
    def _touching(self) -> csr_array:
        """Chunk × entity: 1 a mention, 5 more for a subject."""
        return self.mentions.astype(np.float32) + np.float32(SUBJECT_WEIGHT) * self.subjects

    @cached_property
    def transition(self) -> csr_array:
        """The adjacency with every row brought to sum 1: one step of a walk from the row's node.

        It shares the adjacency's structure.
        """
        degree = np.asarray(self.adjacency.sum(axis=1)).ravel()
        share = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
        near = self.adjacency
        shares = (near.data * np.repeat(share, np.diff(near.indptr))).astype(np.float32)
        return csr_array((shares, near.indices, near.indptr), shape=near.shape)

    @cached_property
    def fanout(self) -> npt.NDArray[np.float32]:
        """How many neighbours each node of the adjacency has."""
        counts: npt.NDArray[np.float32] = np.diff(self.adjacency.indptr).astype(np.float32)
        return counts

    @cached_property
    def entity_chunks(self) -> Index:
        """How many chunks mention each entity."""
        return np.bincount(self.mentions.indices, minlength=len(self.entity_ids))

    @cached_property
    def rarity(self) -> npt.NDArray[np.float32]:
        """The number of chunks that mention each entity, to the power of -1/2."""
        return (self.entity_chunks.clip(1) ** -0.5).astype(np.float32)

    @cached_property
    def bridged(self) -> float:
        """The share of chunks that mention what another chunk is about: how far the graph can lead."""
        foreign = (self.mentions - self.subjects).tocsr()
        foreign.data = np.where(self.is_subject[foreign.indices], foreign.data, 0)
        leading = np.asarray(foreign.sum(axis=1)).ravel() > 0
        return float(leading.mean()) if len(leading) else 0.0

    @cached_property
    def facts_by_entity(self) -> csr_array:
        """Entity × fact: the incidence from the other side."""
        return self.incidence.T.tocsr()

    @cached_property
    def chunks_by_entity(self) -> csr_array:
        """Entity × chunk: the mentions from the other side, in the order of the chunks."""
        return self.mentions.T.tocsr()

    @cached_property
    def names_by_entity(self) -> tuple[Index, Index]:
        """The positions of all names, grouped by entity, and where each entity's group starts."""
        order = np.argsort(self.name_entity, kind="stable")
        return order, np.searchsorted(self.name_entity[order], np.arange(len(self.entity_ids) + 1))

    @cached_property
    def is_subject(self) -> npt.NDArray[np.bool_]:
        """Which entities some chunk is about."""
        return np.bincount(self.subjects.indices, minlength=len(self.entity_ids)) > 0

    @cached_property
    def graph(self) -> igraph.Graph:
        """The same as an igraph graph, for paths, neighbourhoods and communities.

        Vertices are the entities and then the chunks; an edge's ``weight`` is that of
        :attr:`adjacency`. Built when first asked for.
        """
        links = self.links.tocoo()
        upper = links.row < links.col
        touching = self._touching.tocoo()
        ends = np.concatenate(
            [
                np.column_stack([links.row[upper], links.col[upper]]),
                np.column_stack([touching.col, touching.row + len(self.entity_ids)]),
            ]
        )
        graph = igraph.Graph(len(self.entity_ids) + len(self.chunk_keys), ends)
        graph.es["weight"] = np.concatenate([links.data[upper], touching.data])
        return graph

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, but for what is built on demand."""
        matrices = [getattr(self, name) for name in _MATRICES]
        sizes = [m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices]
        return int(sum(sizes) + sum(getattr(self, name).nbytes for name in _VECTORS))

    def entity_of(self, number: int) -> int | None:
        """Return the position of an entity by its number."""
        position = int(np.searchsorted(self.entity_ids, number))
        if position < len(self.entity_ids) and int(self.entity_ids[position]) == number:
            return position
        return None

    def linked(self, entity: int) -> tuple[Index, npt.NDArray[np.float32]]:
        """Return the entities that share a fact with one, and the weights of the links."""
        row = slice(self.links.indptr[entity], self.links.indptr[entity + 1])
        return self.links.indices[row], self.links.data[row]

    def facts_of(self, entity: int) -> Index:
        """Return the positions of the facts that hold an entity, ascending."""
        by_entity = self.facts_by_entity
        facts: Index = by_entity.indices[by_entity.indptr[entity] : by_entity.indptr[entity + 1]]
        return facts

    def entities_in(self, fact: int) -> Index:
        """Return the entities that a fact holds."""
        entities: Index = self.incidence.indices[self.incidence.indptr[fact] : self.incidence.indptr[fact + 1]]
        return entities

    def chunks_with(self, entity: int) -> Index:
        """Return the positions of the chunks that mention an entity."""
        by_entity = self.chunks_by_entity
        chunks: Index = by_entity.indices[by_entity.indptr[entity] : by_entity.indptr[entity + 1]]
        return chunks

    def entities_of(self, chunk: int) -> Index:
        """Return the entities that a chunk mentions, ascending."""
        entities: Index = self.mentions.indices[self.mentions.indptr[chunk] : self.mentions.indptr[chunk + 1]]
        return entities

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays, to be saved."""
        arrays = {f"view.{name}": getattr(self, name) for name in _VECTORS}
        for name in _MATRICES:
            matrix: csr_array = getattr(self, name)
            arrays[f"view.{name}.data"] = matrix.data
            arrays[f"view.{name}.indices"] = matrix.indices
            arrays[f"view.{name}.indptr"] = matrix.indptr
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> GraphView:
        """Take back what :meth:`arrays` gave."""
        vectors = {name: arrays[f"view.{name}"] for name in _VECTORS}
        chunks, facts, entities = (len(vectors[name]) for name in ("chunk_keys", "fact_keys", "entity_ids"))
        rows = {"mentions": chunks, "subjects": chunks, "incidence": facts, "links": entities}
        matrices = {
            name: csr_array(
                tuple(arrays[f"view.{name}.{part}"] for part in ("data", "indices", "indptr")),
                shape=(rows[name], entities),
            )
            for name in _MATRICES
        }
        return cls(**vectors, **matrices)
