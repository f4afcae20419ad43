"""Knowledge that exists already, from another tool, a database or an earlier run."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import fingerprint, normalise

Triple = Sequence[str]
Knowledge = Extraction | Mapping[str, Any] | Iterable[Triple]

_log = logging.getLogger(__name__)
_STRENGTH_KEYS = ("strength", "relationship_strength", "weight")


@dataclass(frozen=True, kw_only=True)
class KnowledgeExtractor:
    """Takes ready entities and relations, or ready triples, for each chunk.

    Parameters
    ----------
    knowledge
        Maps the id of a chunk, or of its document, to what is known about it; or a function of the chunk. If omitted,
        it is read from the document's metadata, so it is stored and deleted with the document. It is triples
        (``[(subject, relation, object), ...]``, or with a strength from 1 to 10), an
        :class:`~graphrag_core.model.Extraction`, or in the format that :class:`~graphrag_core.LLMExtractor` requests:
        ``{"entities": [{"name", "type", "description"}], "relations": [{"source", "type", "target", "description",
        "strength"}]}``. Incomplete entries and other formats are logged and skipped.
    key
        The metadata key that holds the knowledge.
    weight
        The weight of a triple, and of a relation without ``strength``.

    >>> known = {"entities": [{"name": "Keyring", "type": "vendor"}], "relations": []}
    >>> KnowledgeExtractor().extract([Chunk("1", "1", "…", metadata={"knowledge": known})])[0].mentions[0].type
    'vendor'
    >>> triples = [("Auth Service", "depends on", "OAuth Provider")]
    >>> KnowledgeExtractor(knowledge={"1": triples}).extract([Chunk("1", "1", "…")])[0].facts[0].text
    'Auth Service depends on OAuth Provider'
    """

    knowledge: Mapping[str, Knowledge] | Callable[[Chunk], Knowledge | None] | None = None
    key: str = "knowledge"
    weight: float = 10.0

    @property
    def identity(self) -> str:
        """The settings and the knowledge. Of a callable only the name: rename it when its results change."""
        if self.knowledge is None:
            source = self.key
        elif callable(self.knowledge):
            source = getattr(self.knowledge, "__qualname__", type(self.knowledge).__qualname__)
        else:
            source = fingerprint(f"{key}\x00{value!r}" for key, value in sorted(self.knowledge.items()))
        return f"knowledge 1 {self.weight} {source}"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction per chunk, in order."""
        return [self._extract(chunk) for chunk in chunks]

    def _extract(self, chunk: Chunk) -> Extraction:
        known: Any
        if self.knowledge is None:
            known = chunk.metadata.get(self.key)
        elif callable(self.knowledge):
            known = self.knowledge(chunk)
        else:
            known = self.knowledge.get(chunk.id) or self.knowledge.get(chunk.document_id)
        if not known or isinstance(known, Extraction):
            return known or Extraction()
        try:
            if isinstance(known, Mapping):
                return parse_knowledge(known, self.weight)
            if isinstance(known, Iterable) and not isinstance(known, (str, bytes)):
                return self._from_triples(chunk, known)
            raise ValueError(f"expected a mapping or triples, not {type(known).__qualname__}")  # noqa: TRY301
        except ValueError as error:
            _log.warning("chunk %r: skipped its knowledge: %s", chunk.id, error)
            return Extraction()

    def _from_triples(self, chunk: Chunk, triples: Iterable[Any]) -> Extraction:
        facts, skipped = [], 0
        for triple in triples:
            is_triple = isinstance(triple, Sequence) and not isinstance(triple, str) and len(triple) in (3, 4)
            subject, relation, target = (str(part).strip() for part in triple[:3]) if is_triple else ("", "", "")
            if not (normalise(subject) and relation and normalise(target)):
                skipped += 1
                continue
            strength = _strength(triple[3]) if len(triple) == 4 else None
            text = f"{subject} {relation} {target}"
            facts.append(Fact((subject, target), text, relation=relation, weight=strength or self.weight))
        if skipped:
            _log.warning("chunk %r: skipped %d triples without subject, relation and object", chunk.id, skipped)
        names = dict.fromkeys(name for fact in facts for name in fact.entities)
        return Extraction(tuple(map(Mention, names)), tuple(dict.fromkeys(facts)))


def parse_knowledge(data: Mapping[str, Any], weight: float = 5.0) -> Extraction:
    """Convert a mapping with ``entities`` and ``relations`` to an extraction.

    Incomplete entries are skipped. ``weight`` is used for relations without ``strength``.
    Raises ``ValueError`` if there is nothing to convert.
    """
    if not {"entities", "relations", "relationships"} & data.keys():
        raise ValueError("neither 'entities' nor 'relations' found")
    entities = data.get("entities", [])
    relations = data.get("relations", data.get("relationships", []))
    if not isinstance(entities, list) or not isinstance(relations, list):
        raise ValueError("'entities' and 'relations' must be lists")  # noqa: TRY004 - one error for all bad input
    mentions = [
        Mention(name, _text(entry.get("type")).lower(), _text(entry.get("description")))
        for entry in entities
        if isinstance(entry, dict) and normalise(name := _text(entry.get("name")))
    ]
    facts = [fact for entry in relations if (fact := _fact(entry, weight))]
    if (entities or relations) and not mentions and not facts:
        raise ValueError("no entry is complete")
    return Extraction(tuple(dict.fromkeys(mentions)), tuple(dict.fromkeys(facts)))


def _fact(entry: Any, weight: float) -> Fact | None:
    if not isinstance(entry, dict):
        return None
    source, target = _text(entry.get("source")), _text(entry.get("target"))
    relation = _text(entry.get("type", entry.get("relation")))
    if not (normalise(source) and normalise(target) and relation):
        return None
    text = _text(entry.get("description")) or f"{source} {relation.replace('_', ' ')} {target}"
    return Fact((source, target), text, relation=relation, weight=strength_of(entry) or weight)


def strength_of(properties: Mapping[str, Any]) -> float | None:
    """Return the strength of a relation by its properties, from 1 to 10; None if they have none.

    Takes ``strength``, ``relationship_strength`` (as GraphRAG prompts name it) or ``weight``, as a number or a text.

    >>> strength_of({"strength": 2}), strength_of({"weight": "7.5"}), strength_of({"weight": "high"})
    (2.0, 7.5, None)
    """
    return next((value for key in _STRENGTH_KEYS if (value := _strength(properties.get(key))) is not None), None)


def _strength(value: Any) -> float | None:
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return min(max(number, 1.0), 10.0) if math.isfinite(number) else None


def _text(value: Any) -> str:
    """Return a text in one line, without characters that cannot be stored; empty if it is not a text."""
    if not isinstance(value, str):
        return ""
    return " ".join(value.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "").split())
