"""Looking things up in an index: documents, passages, entities and facts by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from graphrag_core.derived import Derived
from graphrag_core.entities import find_entity, read_entities
from graphrag_core.model import Chunk, Document, Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.stores.records import Records


class Lookup(ABC):
    """What can be asked of an index without a question: the reading half of ``KnowledgeIndex``."""

    _records: Records

    @abstractmethod
    def _check_open(self) -> None: ...

    @abstractmethod
    def reading(self) -> AbstractContextManager[Derived]:
        """Hold one generation of everything while a query runs; writers wait."""

    def get(self, document_id: str) -> Document | None:
        """Return a document as it was added, or None."""
        self._check_open()
        return self._records.document(document_id)

    def documents(self) -> Iterator[Document]:
        """Yield all documents in order of id, one at a time."""
        self._check_open()
        for document_id in self._records.document_ids():
            if (document := self._records.document(document_id)) is not None:
                yield document

    def __len__(self) -> int:
        self._check_open()
        return int(self._records.value("SELECT count(*) FROM documents"))

    def __contains__(self, document_id: object) -> bool:
        self._check_open()
        return isinstance(document_id, str) and bool(self._records.known([document_id]))

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's passages, in order."""
        self._check_open()
        return self._records.chunks_of(document_id)

    def entity(self, name: str) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            return None if position is None else read_entities(view, self._records, [position])[0]

    def facts(self, name: str) -> list[Fact]:
        """Return the facts that hold an entity, in the order of their ids."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            facts = [] if position is None else self._records.facts(view.fact_keys[view.facts_of(position)])
            return sorted(facts, key=lambda fact: fact.id)

    def related(self, name: str) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, with the edges' weights, strongest first."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            if position is None:
                return []
            others, weights = view.linked(position)
            pairs = zip(read_entities(view, self._records, others.tolist()), weights.tolist(), strict=True)
            return sorted(pairs, key=lambda pair: (-pair[1], pair[0].id))

    def scope(self, where: Mapping[str, Any] | None) -> Keys | None:
        """Return the keys of the chunks that a filter lets a query see; None for no filter."""
        self._check_open()
        return None if where is None else self._records.in_scope(where)

    @property
    def records(self) -> Records:
        """The records, for queries."""
        return self._records
