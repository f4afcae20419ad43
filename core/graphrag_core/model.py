"""The values that the library takes, stores and returns: frozen, compared by content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

FactSource = Literal["user_edit", "file", "system", "conversation"]
FactStatus = Literal["staged", "confirmed", "rejected"]
MarkKind = Literal[
    "page", "anchor", "link", "term", "literal",
    "heading", "paragraph", "item", "definition", "table", "code",
]  # fmt: skip

SENTENCE_WEIGHT = 3.0

ADAPTER_KEY = "__graphrag__"
"""The metadata key under which the adapters store what only they read, and the source of a LlamaIndex node."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a part of a text is: a block, a link, a term.

    Parameters
    ----------
    kind
        - ``page``: a page starts at ``start``; ``value`` is its number.
        - ``anchor``: links can lead to ``start``; ``value`` is the anchor's name.
        - ``link``: the text links to ``value``: a URL, ``path#anchor``, ``#anchor``, or the label of an anchor.
        - ``term``: the text names what is defined here; ``value`` is the name.
        - ``literal``: inline code.
        - ``heading``, ``paragraph``, ``item`` (of a list), ``definition``, ``table`` and ``code`` are
          blocks; the ``value`` of a heading is its level, "1" to "6".
    start, end
        Offsets in the text.
    """

    kind: MarkKind
    start: int
    end: int
    value: str = ""


class FileMark(NamedTuple):
    """The file that a document was read from, and a hash of what the file was then.

    The version of a file's last document ends with ``:`` and the number of its documents: the index has the whole file
    if it has so many, all of this version.
    """

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Document:
    """The unit that users add, replace and delete.

    Parameters
    ----------
    id
        Identifies the document: adding a document with an existing id replaces that one.
    text
        The whole text, Markdown or plain; the index splits it into chunks. ``<!-- page 3 -->`` starts a page and
        ``<a id="name"></a>`` is a place that links lead to.
    title
        The document's subject. If empty, it is taken from the metadata (``title``, ``name``,
        the stem of ``file_name``) or from the first heading of the text.
    metadata
        Texts, numbers, dates, UUIDs, paths, lists and mappings of them, stored as JSON: the table is in
        :mod:`graphrag_core.filters`. Returned with each hit; ``where`` filters on it.
    file
        For ``sync_files`` alone. Stored beside the document, and neither returned with it nor compared.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    file: FileMark | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: the unit that is searched and returned.

    ``id`` is the document's id if the document has a single chunk, else
    ``"<document id>#<ordinal>"``. ``start`` is the chunk's offset in the document's text:
    ``document.text[start:start + len(text)] == text``. ``title`` is the document's title,
    ``headings`` the path of headings above the chunk, outermost first and without the title,
    ``page`` the page it starts on. ``marks`` are the chunk's blocks, links, anchors and terms, with offsets in
    ``text``. Extractors get them; a chunk read from an index has none.
    """

    id: str
    document_id: str
    text: str
    title: str = ""
    ordinal: int = 0
    start: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    headings: tuple[str, ...] = ()
    page: int | None = None
    marks: tuple[Mark, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that chunks mention.

    ``id`` is the normalised name (``"auth service"``); ``mentions`` is the number of chunks that
    mention the entity. Name, type, description and aliases are derived from these mentions, so
    an entity disappears with the last of them.
    """

    id: str
    name: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    mentions: int = 0


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity mention found by an extractor in a chunk.

    ``aliases`` are other names that the chunk gives the entity ("International Business Machines
    (IBM)"). ``subject`` marks the entity that the whole chunk is about, such as its title.
    """

    name: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    subject: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about entities: an edge of the graph.

    Parameters
    ----------
    entities
        The entities that the fact connects, subject first. An extractor returns names as they are
        written; a fact read from an index has entity ids.
    text
        The fact in words: a sentence, or "subject relation object".
    relation
        The relation's name if the fact is a triple, empty if it is a sentence.
    weight
        Strength from 1 to 10. The edge between two entities weighs the sum of ``weight / 10``
        over the facts that contain both. A sentence weighs 3.
    value
        A literal instead of a second entity ("dark mode").
    confidence, source, status, created, last_accessed, access_count
        How reliable the fact is, where it comes from, whether it is confirmed, and when (seconds since
        the epoch) and how often it was read: what :class:`~graphrag_core.strategies.Relevance` weighs. A fact that an
        extractor rejects is not stored.
    span
        The start and end of the fact in its chunk's text, if it is a part of it.
    id, chunk_id
        Set by the index.
    valid_from, valid_to
        When a remembered fact (:meth:`~graphrag_core.memory.Memory.remember`) is valid, in seconds since the
        epoch, from the first until just before the second; None for no limit. Extractors cannot set them.
    """

    entities: tuple[str, ...]
    text: str
    relation: str = ""
    weight: float = 10.0
    confidence: float = 1.0
    source: FactSource = "file"
    status: FactStatus = "staged"
    value: str = ""
    created: float | None = None
    last_accessed: float | None = None
    access_count: int = 0
    span: tuple[int, int] | None = None
    id: str = ""
    chunk_id: str = ""
    valid_from: float | None = None
    valid_to: float | None = None


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A path between two entities.

    ``entities`` are those on the way, both ends included; ``facts`` has for each link the strongest fact that holds
    both of its ends, so that there is one less. A path from an entity to itself has no facts.
    """

    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def hops(self) -> int:
        """The number of links."""
        return len(self.facts)

    def __str__(self) -> str:
        return " → ".join(
            text
            for entity, fact in zip_longest(self.entities, self.facts)
            for text in (entity.name, *((fact.text,) if fact else ()))
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor found in one chunk. ``problem`` is the reason if extraction failed."""

    mentions: tuple[Mention, ...] = ()
    facts: tuple[Fact, ...] = ()
    problem: str = ""


EditAction = Literal["rename", "merge", "delete_entity", "delete_relation", "add_relation"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the graph that a person made, and that can be undone.

    ``number`` identifies it, ``time`` is when it was made (seconds since the epoch), ``text`` says what was done.
    ``details`` is what is applied and undone: names as documents write them, or the documents before the edit.
    """

    number: int
    time: float
    action: EditAction
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.time, timezone.utc).isoformat(" ", "seconds").removesuffix("+00:00")
        return f"{self.number}  {moment}  {self.text}"


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that are linked with each other more than with the rest: a theme of the collection.

    Attributes
    ----------
    id
        The id of the member that is linked most strongly with the others.
    name
        The first names, in a few words.
    names
        Names of up to eight members, the most strongly linked first.
    entities
        How many entities it has.
    members
        The ids of its entities, the most strongly linked first.
    """

    id: str
    name: str
    names: tuple[str, ...]
    entities: int
    members: tuple[str, ...] = field(repr=False)


# -- what an index reports


@dataclass(frozen=True, slots=True)
class Added:
    """What a call of ``add`` did, in numbers of documents.

    ``problems`` maps document ids to the reason why extraction failed in part. These documents
    are in the index, and are extracted again the next time they are added.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Added) -> Added:
        return Added(
            self.added + other.added,
            self.replaced + other.replaced,
            self.unchanged + other.unchanged,
            {**self.problems, **other.problems},
        )


NO_RELATIONS = (
    "no typed relations: they come from an LLM (index --llm) or from triples that you give (graph edit add); "
    "the graph links entities through sentences"
)


@dataclass(frozen=True, slots=True)
class Stats:
    """The size of an index and its most mentioned entities.

    ``entities`` counts what ``index.graph.entities`` lists: names, not numbers. ``facts`` are sentences that name
    entities, relations, and ``references`` between sections. ``relations`` counts what ``index.graph.relations`` lists,
    by relation. Deleted relations are not counted; remembered facts that are no longer valid are. ``vectors`` counts
    vectors by kind. ``bytes_in_memory`` does not include the operating system's file cache.
    """

    documents: int
    chunks: int
    entities: int
    facts: int
    relations: Mapping[str, int]
    vectors: Mapping[str, int]
    dim: int
    embedder: str
    generation: int
    bytes_on_disk: int
    bytes_in_memory: int
    top_entities: tuple[tuple[str, int], ...]
    references: int = 0

    def rows(self) -> list[tuple[str, str]]:
        """Return labels and formatted values, for a table."""
        vectors = ", ".join(f"{count:,} {kind}" for kind, count in self.vectors.items())
        relations = sum(self.relations.values())
        sentences = self.facts - relations - self.references
        kinds = {"sentence": sentences, "relation": relations, "reference": self.references}
        facts = ", ".join(f"{count:,} {kind}{'s' * (count > 1)}" for kind, count in kinds.items() if count > 0)
        return [
            ("documents", f"{self.documents:,}"),
            ("chunks", f"{self.chunks:,}"),
            ("entities", f"{self.entities:,}"),
            ("facts", f"{self.facts:,}" + (f": {facts}" if facts else "")),
            ("relation types", f"{len(self.relations):,}" if self.relations else NO_RELATIONS),
            ("vectors", vectors + f" × {self.dim}" if self.dim else "none"),
            ("embedder", self.embedder or "none yet"),
            ("on disk", _format_bytes(self.bytes_on_disk)),
            ("in memory", _format_bytes(self.bytes_in_memory)),
            ("top entities", ", ".join(f"{name} ({count})" for name, count in self.top_entities) or "none"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{label:<15}{value}" for label, value in self.rows())


@dataclass(frozen=True, slots=True)
class Verification:
    """The inconsistencies that ``verify`` found. True if there are none."""

    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(self.problems) or "records, vectors, keywords and graph agree"


def _format_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
