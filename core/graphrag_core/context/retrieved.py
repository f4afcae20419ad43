"""What a query returns: passages, with the reason for each, as values without sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args

from typing_extensions import Self

from graphrag_core.context.expanded import Around, ExpandedPassage
from graphrag_core.context.settings import ContextFormat
from graphrag_core.errors import InputError
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
    """How one channel ranked a passage.

    ``rank`` counts from 1. ``score`` is the channel's own: cosine similarity, BM25, or the graph
    strategy's score.
    """

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
    """Why the hits of a result were found. ``reasons`` are by the id of the passage; see :class:`Result` for the rest.

    ``generation`` is the generation of the index that was read; None if nothing was read.
    """

    reasons: Mapping[str, Reason] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    known: Mapping[str, Entity] = field(default_factory=dict)
    uncovered: tuple[str, ...] = ()
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What a result says about itself; see :class:`Result`."""

    decided: str = ""
    gate: str = ""
    expansion_skipped: str = ""
    fallback: str = ""
    advice: str = ""


@dataclass(eq=False)
class Lazy(Generic[T]):
    """A value that is computed when it is first read. A result, its hits and their copies share one.

    A pickle holds the computed value. Without a lock: two threads may compute it at the same time, which gives the
    same.
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
_FORMAT = ContextFormat()


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
        """The words of the question that the passage contains, as the question writes them.

        This and the next two are empty if no reranker looked at them.
        """
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
        """By what the passage is above others that plain search ranks higher, most important first; see ``SIGNALS``.

        Empty if it is above none of these.
        """
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
        return {
            "id": chunk.id,
            "document_id": chunk.document_id,
            "title": chunk.title,
            "ordinal": chunk.ordinal,
            "start": chunk.start,
            "headings": list(chunk.headings),
            "page": chunk.page,
            "text": chunk.text,
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
    """Return hits with their expanded texts in place of their own.

    Of hits whose expanded passages overlap the best one is returned, with the joined text. Hits that are not expanded
    are returned as they are.
    """
    joined: dict[int, ExpandedPassage] = {}  # by the place of the best hit
    for place, hit in enumerate(hits):
        if hit.expanded is None:
            return tuple(hits)
        best, passage = place, hit.expanded
        for other in sorted(joined):
            if (both := joined[other].joined(passage)) is not None:
                best, passage = min(best, other), both
                del joined[other]
        joined[best] = passage
    return tuple(
        replace(hits[at], chunk=replace(hits[at].chunk, text=one.text, start=one.start), expanded=one)
        for at, one in sorted(joined.items())
    )


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
    context_format: ContextFormat = _FORMAT
    remarks: Lazy[Remarks] = field(default=_NO_REMARKS, repr=False, compare=False)
    explanation: Lazy[Explanation] = field(default=_NOTHING, repr=False, compare=False)
    read_around: Callable[[Sequence[Chunk], Around], Sequence[ExpandedPassage]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that support the answer, most important first.

        Those on the paths of the hits, then others about the question's entities.
        """
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
    def gate(self) -> str:
        """The numbers behind :attr:`decided`: the trust in the graph, and how much of the question is rare names.

        Empty if there are none.
        """
        return self.remarks.value.gate

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
        """What to do about an empty result, an embedder that failed, or a confidence that the gate finds low.

        Also that no word of the question occurs in the documents searched, so that its passages are only the nearest
        by vector.
        """
        return self.remarks.value.advice

    @property
    def explanation_generation(self) -> int | None:
        """The number of changes of the index from which the explanation was computed; None if nothing was read."""
        return self.explanation.value.generation

    @property
    def counts(self) -> dict[str, int]:
        """The number of hits by origin: ``{"plain": 5, "graph": 2}``."""
        by_graph = sum(hit.origin == "graph" for hit in self.hits)
        return {"plain": len(self.hits) - by_graph, "graph": by_graph}

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def expand(self, around: Around) -> Self:
        """Return the result with the passages around each hit, in :attr:`Hit.expanded`. The hits stay the same.

        Parameters
        ----------
        around
            ``"section"``: the passages with the same headings before and after the hit, in its document or in the
            source that an application cut, up to about 1,000 tokens. ``"neighbours"``: the passage before and the
            one after it, up to as many tokens.

        Raises
        ------
        InputError
            The result was pickled, or made without an index.
        IndexClosed
            The index was closed. ``retrieve(..., expand="section")`` reads the passages before.
        """
        if around not in get_args(Around):
            raise InputError(f"cannot read around={around!r}: use one of {', '.join(get_args(Around))}")
        if not self.hits:
            return self
        if self.read_around is None:
            advice = f"retrieve(..., expand={around!r}) reads the passages at once"
            raise InputError(f"the result has no index to read the passages around its hits from: {advice}")
        passages = self.read_around([hit.chunk for hit in self.hits], around)
        hits = (replace(hit, expanded=passage) for hit, passage in zip(self.hits, passages, strict=True))
        return replace(self, hits=tuple(hits))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-compatible values: chunks, graph context, confidence and counts.

        Returns
        -------
        dict
            ``chunks``: ``content``, ``score`` and ``source`` of each hit. The ``type`` of a source is ``"graph"`` by
            its origin, or else ``"vector"`` or ``"keyword"``; one of the graph has the ``entity`` and the ``hops``.
            ``graph_context``: the question's ``entities`` and the ``relationships`` among :attr:`facts`; None if the
            graph was not used or the question names no entity. ``confidence``, or None. ``metadata``:
            ``vector_results``, ``graph_results``, ``entities_recognized``, ``expansion_skipped``, the reason or an
            empty string, ``method`` and ``route``.
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
        return {
            "source": self._name(fact.entities[0]),
            "target": self._name(fact.entities[1]) if len(fact.entities) > 1 else fact.value,
            "type": fact.relation,
            "description": fact.text,
            "strength": fact.weight,
        }

    def _name(self, entity: str) -> str:
        return self.known[entity].name if entity in self.known else entity

    def details(self, hit: Hit) -> dict[str, Any]:
        """Return everything about a hit besides its text, metadata and score, as JSON-compatible values.

        Includes what holds for the whole result, since frameworks pass hits on one by one. The
        value is new on each call.
        """
        own = hit.to_dict()
        for name in ("id", "text", "metadata", "score"):
            del own[name]
        confidence = {} if self.confidence is None else {"confidence": self.confidence}
        return (
            own
            | confidence
            | {
                "facts": [fact.text for fact in self.facts],
                "entities": [entity.name for entity in self.entities],
                "method": self.method,
                "route": self.route,
                "decided": self.decided,
                "expansion_skipped": self.expansion_skipped,
                "gate": self.gate,
                "uncovered": list(self.uncovered),
                "fallback": self.fallback,
                "counts": self.counts,
                "advice": self.advice,
            }
        )


def _entity_dict(entity: Entity) -> dict[str, Any]:
    return {**asdict(entity), "aliases": list(entity.aliases)}
