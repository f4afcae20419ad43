"""Triples that the user already has: from another tool, a database, an earlier run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import fingerprint, normalise

Triple = Sequence[str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TripleExtractor:
    """Takes ready triples, by chunk.

    Parameters
    ----------
    triples
        From a chunk's id, or its document's, to its triples: (subject, relation, object).
        Left out, they are read from the document's metadata.
    key
        The metadata key that holds the triples.

    A triple that has not three parts, or an empty one, is passed over and logged; the
    others of its chunk are kept.

    >>> chunk = Chunk("1", "1", "…", metadata={"triples": [["Auth Service", "depends on", "OAuth Provider"]]})
    >>> TripleExtractor().extract([chunk])[0].facts[0].text
    'Auth Service depends on OAuth Provider'
    """

    triples: Mapping[str, Iterable[Triple]] | Callable[[Chunk], Iterable[Triple]] | None = None
    key: str = "triples"
    weight: float = 10.0

    @property
    def identity(self) -> str:
        """The settings and the triples; of a callable its name, so rename it when it changes."""
        if self.triples is None:
            source = self.key
        elif callable(self.triples):
            source = getattr(self.triples, "__qualname__", type(self.triples).__qualname__)
        else:
            source = fingerprint(f"{key}\x00{value!r}" for key, value in sorted(self.triples.items()))
        return f"triples 1 {self.weight} {source}"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [self._read(chunk) for chunk in chunks]

    def _read(self, chunk: Chunk) -> Extraction:
        facts = []
        names: dict[str, None] = {}
        skipped = 0
        for triple in self._of(chunk):
            parts = _parts(triple)
            if parts is None:
                skipped += 1
                continue
            subject, relation, target = parts
            names.update({subject: None, target: None})
            facts.append(
                Fact((subject, target), f"{subject} {relation} {target}", relation=relation, weight=self.weight)
            )
        if skipped:
            _log.warning("chunk %r: passed over %d triples without subject, relation and object", chunk.id, skipped)
        return Extraction(tuple(Mention(name) for name in names), tuple(dict.fromkeys(facts)))

    def _of(self, chunk: Chunk) -> Iterable[Triple]:
        if callable(self.triples):
            return self.triples(chunk)
        if self.triples is not None:
            return self.triples.get(chunk.id) or self.triples.get(chunk.document_id) or ()
        ready: Any = chunk.metadata.get(self.key) or ()
        return ready if isinstance(ready, (list, tuple)) else ()


def _parts(triple: Any) -> tuple[str, str, str] | None:
    if isinstance(triple, str) or not isinstance(triple, Sequence) or len(triple) != 3:
        return None
    subject, relation, target = (str(part).strip() for part in triple)
    return (subject, relation, target) if normalise(subject) and relation and normalise(target) else None
