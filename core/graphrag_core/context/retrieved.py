"""What a query returns: passages, with the reason for each, as values without sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from graphrag_core.context.expanded import ExpandedPassage
from graphrag_core.context.settings import ContextFormat
from graphrag_core.model import Chunk, Entity, Fact

CONFIDENCE_WITHOUT_GRAPH = 0.5
"""The confidence of a result in which plain search decides, with a gate that uses the confidence."""

T = TypeVar("T")

StepKind = Literal["question", "entity", "fact", "chunk"]
Origin = Literal["plain", "graph"]
LinkKind = Literal["about", "mentions", "both_about", "both_mention"]
Signal = Literal["plain", "words", "links", "graph", "vector", "document"]

SIGNALS: Mapping[Signal, str] = {
    "words": "the words of the question",
    "links": "links between passages",
    "graph": "the graph",
    "vector": "their ranks by vector",
    "document": "the document that the question names",
}
"""What moves passages from where plain search ranks them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a path: its kind, its id and its text."""

    kind: StepKind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Channel:
    """How one channel ranked a passage: its rank from 1, and the channel's own score (cosine, BM25, the graph's)."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Link:
    """How a passage is linked to a better one.

    Attributes
    ----------
    rank, chunk_id
        The rank of the other passage in the result, from 1, and its id.
    entity_id, entity
        The id and the name of the entity that links them. A section is named by its title and heading, a value of
        an explicit edge with its field: "author: Mara Lindqvist".
    kind
        ``"about"``: the passage is about the entity, and the other mentions it. ``"mentions"``: the other way round.
        ``"both_about"`` or ``"both_mention"``: both do the same.
    """

    rank: int
    chunk_id: str
    entity_id: str
    entity: str
    kind: LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one hit was found; see :class:`Hit`. ``subjects`` are the ids of the entities that the passage is about."""

    link: Link | None = None
    moved: tuple[Signal, ...] = ()
    path: tuple[Step, ...] = ()
    words: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why the hits of a result were found: the reason of each by its id, and values of the :class:`Result`."""

    reasons: Mapping[str, Reason] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    known: Mapping[str, Entity] = field(default_factory=dict)
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What a result says about itself; see :class:`Result`."""

    decided: str = ""
    trust: str = ""
    expansion_skipped: str = ""
    fallback: str = ""
    advice: str = ""


@dataclass(eq=False)
class Lazy(Generic[T]):
    """A value that is computed when it is first read. A result, its hits and their copies share one.

    A pickle holds the computed value. Two threads may compute it at the same time, which gives the same.
    """

    compute: Callable[[], T] = field(repr=False)
    computed: T | None = None

    @property
    def value(self) -> T:
        """The value."""
        if self.computed is None:
            self.computed = self.compute()
        return self.computed

    @classmethod
    def of(cls, value: T) -> Lazy[T]:
        """Return one that is computed already."""
        return cls(lambda: value, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy.of, (self.value,)

    def __deepcopy__(self, memo: Any) -> Lazy[T]:  # immutable
        return self


_NO_REASON = Reason()
_NOTHING = Lazy.of(Explanation())
_NO_REMARKS = Lazy.of(Remarks())


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved passage.

    Attributes
    ----------
    chunk
        The passage.
    score
        Falls with the rank. By default how likely the passage belongs to the answer, from 0 to 1
        (:class:`~graphrag_core.strategies.Linear`). Cosine similarity for the vector method, BM25 for the keyword
        method, a strength from 0 to 1 for the graph method, and the own score of a fusion or reranker that has one.
    channels
        The channels that found the passage.
    origin
        ``"graph"`` if the graph found the passage and plain search alone would not have returned it among its
        first ``k``, or if a query generated from the graph found it.
    graph_expansion
        The query that found it, for strategies that search with generated queries
        (:class:`~graphrag_core.strategies.ExpansionQueries`).
    via
        The entity through which the strategy found the passage and its hop, for strategies that tell
        (:class:`~graphrag_core.strategies.RelatedEntities`).
    explanation
        That of the result, from which the attributes below are read.
    expanded
        The passage together with those around it, with the setting ``expand``; else None.
    """

    chunk: Chunk
    score: float
    channels: Mapping[str, Channel] = field(default_factory=dict)
    origin: Origin = "plain"
    graph_expansion: str = ""
    via: tuple[Step, int] | None = None
    explanation: Lazy[Explanation] = field(default=_NOTHING, repr=False, compare=False)
    expanded: ExpandedPassage | None = field(default=None, repr=False)

    @property
    def reason(self) -> Reason:
        """Why the passage was found: the five attributes below together."""
        return self.explanation.value.reasons.get(self.chunk.id, _NO_REASON)

    @property
    def path(self) -> tuple[Step, ...]:
        """The strongest path through the graph from the question to the passage; empty if there is none."""
        return self.reason.path

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the question that the passage contains; empty if no reranker looked at them, as the next two."""
        return self.reason.words

    @property
    def covers(self) -> tuple[str, ...]:
        """Those of the words that no better passage of the result contains."""
        return self.reason.covers

    @property
    def link(self) -> Link | None:
        """The strongest link to a better passage of the result; None if there is none."""
        return self.reason.link

    @property
    def moved(self) -> tuple[Signal, ...]:
        """What moved the passage above others that plain search ranks higher, most important first; see ``SIGNALS``."""
        return self.reason.moved

    @property
    def entity(self) -> Step | None:
        """The entity through which the graph leads to the passage: the strategy's, or the last one of the path."""
        if self.via is not None:
            return self.via[0]
        return next((step for step in reversed(self.path) if step.kind == "entity"), None)

    @property
    def hops(self) -> int:
        """How many facts lead to :attr:`entity`; 0 for one that the question names."""
        return self.via[1] if self.via is not None else sum(step.kind == "fact" for step in self.path)

    def to_dict(self) -> dict[str, Any]:
        """Return the passage and everything about it as JSON-compatible values, new on each call."""
        chunk, reason, entity = self.chunk, self.reason, self.entity
        names = ("id", "document_id", "title", "ordinal", "start", "page", "text")
        return {
            **{name: getattr(chunk, name) for name in names},
            "headings": list(chunk.headings),
            "metadata": dict(chunk.metadata),
            "score": self.score,
            "origin": self.origin,
            "entity": entity.text if entity else None,
            "hops": self.hops,
            "graph_expansion": self.graph_expansion,
            "channels": {name: asdict(channel) for name, channel in self.channels.items()},
            "path": [asdict(step) for step in reason.path],
            "words": list(reason.words),
            "covers": list(reason.covers),
            "link": asdict(reason.link) if reason.link else None,
            "moved": list(reason.moved),
            "expanded": self.expanded.to_dict() if self.expanded else None,
        }


def joined_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return hits with their expanded texts in place of their own; those that are not expanded as they are.

    A passage is in one text alone, that of the best hit; a hit whose own passage is in a better one is left out.
    """
    shown: set[str] = set()
    joined = []
    for hit in hits:
        if hit.expanded is None:
            joined.append(hit)
        elif hit.chunk.id not in shown:
            passage = ExpandedPassage(tuple(part for part in hit.expanded.parts if part.id not in shown))
            chunk = replace(hit.chunk, text=passage.text, start=passage.start)
            joined.append(replace(hit, chunk=chunk, expanded=passage))
            shown |= set(passage.ids)
    return tuple(joined)


@dataclass(frozen=True, slots=True)
class Trace:
    """How long each stage of the query took, in milliseconds."""

    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The sum over all stages."""
        return sum(self.stages.values())


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The fields and values of :class:`~graphrag_core.Result`, which also writes them as text."""

    question: str
    method: str
    hits: tuple[Hit, ...] = ()
    entities: tuple[Entity, ...] = ()
    confidence: float | None = None
    route: str = ""
    trace: Trace = field(default_factory=Trace)
    graph_ran: bool = True
    scores_are_probabilities: bool = False
    embedder_failed: bool = False
    is_complete: bool = True
    generation: int = field(default=0, compare=False)
    context_format: ContextFormat = field(default_factory=ContextFormat)
    remarks: Lazy[Remarks] = field(default=_NO_REMARKS, repr=False, compare=False)
    explanation: Lazy[Explanation] = field(default=_NOTHING, repr=False, compare=False)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that support the answer: those on the paths of the hits, then others about the question's names."""
        return self.explanation.value.facts

    @property
    def known(self) -> Mapping[str, Entity]:
        """Every entity in :attr:`facts` and in the paths, by id."""
        return MappingProxyType(self.explanation.value.known)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The words of the question that no hit contains; empty if no reranker looked at them."""
        return self.explanation.value.uncovered

    @property
    def decided(self) -> str:
        """What decided the order of the hits, and why: "the graph led: the question names Ada Lovelace"."""
        return self.remarks.value.decided

    @property
    def trust(self) -> str:
        """The numbers behind :attr:`decided`: how far the graph is trusted, how much of the question is rare names."""
        return self.remarks.value.trust

    @property
    def expansion_skipped(self) -> str:
        """Why the graph did not run or found nothing; empty if it found something, or if the method does not ask it."""
        return self.remarks.value.expansion_skipped

    @property
    def fallback(self) -> str:
        """What was unavailable, such as the embedder; empty if nothing was."""
        return self.remarks.value.fallback

    @property
    def advice(self) -> str:
        """What to do about an empty result, an embedder that failed, a low confidence, or words that no passage has."""
        return self.remarks.value.advice

    @property
    def counts(self) -> dict[str, int]:
        """The number of hits by origin: ``{"plain": 5, "graph": 2}``."""
        by_graph = sum(hit.origin == "graph" for hit in self.hits)
        return {"plain": len(self.hits) - by_graph, "graph": by_graph}

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-compatible values, in the form of design 001.

        Returns
        -------
        dict
            ``chunks``: ``content``, ``score`` and ``source`` of each hit. The ``type`` of a source is ``"graph"`` by
            its origin, or else ``"vector"`` or ``"keyword"``; one of the graph has the ``entity`` and the ``hops``.
            ``graph_context``: the question's ``entities`` and the ``relationships`` among :attr:`facts`; None if the
            graph was not used or the question names no entity. ``confidence``, or None. ``metadata``: counts of the
            hits and entities, ``expansion_skipped``, ``method`` and ``route``.
        """
        context = None
        if self.entities and self.graph_ran:
            context = {
                "entities": [_entity_dict(entity) for entity in self.entities],
                "relationships": [self._relationship(fact) for fact in self.facts if fact.relation],
            }
        return {
            "chunks": [
                {"content": hit.chunk.text, "score": hit.score, "source": self._source(hit)} for hit in self.hits
            ],
            "graph_context": context,
            "confidence": self.confidence,
            "metadata": {
                "vector_results": self.counts["plain"],
                "graph_results": self.counts["graph"],
                "entities_recognized": len(self.entities),
                "expansion_skipped": self.expansion_skipped,
                "method": self.method,
                "route": self.route,
            },
        }

    def _source(self, hit: Hit) -> dict[str, Any]:
        """Return where a hit comes from, for :meth:`to_dict`."""
        if hit.origin == "graph":
            entity = self.known.get(hit.entity.id) if hit.entity else None
            return {"type": "graph", "entity": _entity_dict(entity) if entity else None, "hops": hit.hops}
        in_place = self.embedder_failed and self.context_format.published  # keyword search in place of vector search
        return {"type": "vector" if in_place or "vector" in hit.channels else "keyword"}

    def _relationship(self, fact: Fact) -> dict[str, Any]:
        ends = [self.known[end].name if end in self.known else end for end in fact.entities]
        return {
            "source": ends[0],
            "target": ends[1] if len(ends) > 1 else fact.value,
            "type": fact.relation,
            "description": fact.text,
            "strength": fact.weight,
        }

    def details(self, hit: Hit) -> dict[str, Any]:
        """Return everything about a hit besides its text, metadata and score, as JSON-compatible values.

        Includes what holds for the whole result, since frameworks pass hits on one by one.
        """
        own = {name: value for name, value in hit.to_dict().items() if name not in ("id", "text", "metadata", "score")}
        same = ("method", "route", "decided", "expansion_skipped", "trust", "fallback", "counts", "advice")
        return (
            own
            | ({} if self.confidence is None else {"confidence": self.confidence})
            | {name: getattr(self, name) for name in same}
            | {
                "facts": [fact.text for fact in self.facts],
                "entities": [entity.name for entity in self.entities],
                "uncovered": list(self.uncovered),
            }
        )


def _entity_dict(entity: Entity) -> dict[str, Any]:
    return {**asdict(entity), "aliases": list(entity.aliases)}
