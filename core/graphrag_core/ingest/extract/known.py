"""Knowledge that is there already: another tool's graph, a database, an earlier run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag_core.ingest.extract.parse import read_knowledge
from graphrag_core.model import Chunk, Extraction
from graphrag_core.text import fingerprint

Knowledge = Extraction | Mapping[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class KnowledgeExtractor:
    """Takes ready entities, with their types and descriptions, and ready relations, by chunk.

    Parameters
    ----------
    knowledge
        From a chunk's id, or its document's, to what is known of it: an
        :class:`~graphrag_core.model.Extraction`, or in plain values what
        :class:`~graphrag_core.LLMExtractor` asks a model for, ``{"entities": [{"name", "type",
        "description"}], "relations": [{"source", "type", "target", "description",
        "strength"}]}``. A callable is given the chunk. Left out, it is read from the
        document's metadata, so that it is stored, and goes, with the document.
    key
        The metadata key that holds it.
    weight
        The weight of a relation that names no ``strength``.

    Entries that miss a part are passed over. Knowledge of another shape is logged and passed
    over; the chunk loses no more than that.

    >>> known = {"entities": [{"name": "Keyring", "type": "vendor"}], "relations": []}
    >>> KnowledgeExtractor().extract([Chunk("1", "1", "…", metadata={"knowledge": known})])[0].mentions[0].type
    'vendor'
    """

    knowledge: Mapping[str, Knowledge] | Callable[[Chunk], Knowledge | None] | None = None
    key: str = "knowledge"
    weight: float = 10.0

    @property
    def identity(self) -> str:
        """The settings and the knowledge; of a callable its name, so rename it when it changes."""
        if self.knowledge is None:
            source = self.key
        elif callable(self.knowledge):
            source = getattr(self.knowledge, "__qualname__", type(self.knowledge).__qualname__)
        else:
            source = fingerprint(f"{key}\x00{value!r}" for key, value in sorted(self.knowledge.items()))
        return f"knowledge 1 {self.weight} {source}"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [self._read(chunk) for chunk in chunks]

    def _read(self, chunk: Chunk) -> Extraction:
        known = self._of(chunk)
        if not known or isinstance(known, Extraction):
            return known or Extraction()
        if not isinstance(known, Mapping):
            _log.warning("chunk %r: its knowledge is %s, no mapping: passed over", chunk.id, type(known).__qualname__)
            return Extraction()
        try:
            return read_knowledge(known, self.weight)
        except ValueError as error:
            _log.warning("chunk %r: its knowledge was passed over: %s", chunk.id, error)
            return Extraction()

    def _of(self, chunk: Chunk) -> Any:
        if callable(self.knowledge):
            return self.knowledge(chunk)
        if self.knowledge is not None:
            return self.knowledge.get(chunk.id) or self.knowledge.get(chunk.document_id)
        return chunk.metadata.get(self.key)
