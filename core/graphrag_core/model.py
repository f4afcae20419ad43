"""The values that pass through the library: built once, frozen, compared by content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Source = Literal["user_edit", "file", "system", "conversation"]
Status = Literal["staged", "confirmed"]

SENTENCE_WEIGHT = 3.0


@dataclass(frozen=True, slots=True)
class Document:
    """What a user adds, replaces and deletes.

    Parameters
    ----------
    id
        Names the document for good: adding another one under the same id replaces it.
    text
        The whole text; the index cuts it into passages.
    title
        The document's subject. Left empty, it is read from the metadata (``title``,
        ``name``, the stem of ``file_name``) or from the first heading of the text.
    metadata
        Anything JSON can hold. Comes back whole, and is what ``where`` filters on.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: the unit that is searched and returned.

    ``id`` is the document's own id while the document is a single passage, and
    ``"<document id>#<ordinal>"`` otherwise. ``start`` is the passage's offset in the
    document's text, so that ``document.text[start:start + len(text)] == text``.
    """

    id: str
    document_id: str
    text: str
    title: str = ""
    ordinal: int = 0
    start: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that passages mention.

    Nothing here is stored on its own: name, type, description and aliases are read from
    the passages that mention the entity, so they go when the last of those goes.
    ``id`` is the normalised name (``"auth service"``), ``mentions`` the number of passages.
    """

    id: str
    name: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    mentions: int = 0


@dataclass(frozen=True, slots=True)
class Mention:
    """An extractor's word that a chunk speaks of an entity.

    ``aliases`` are other names that the chunk itself gives the entity ("International
    Business Machines (IBM)"). ``subject`` marks what the whole chunk is about, as a title does.
    """

    name: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    subject: bool = False


@dataclass(frozen=True)  # without slots, for of_sentence
class Fact:
    """The smallest piece of evidence, and an edge of the graph.

    Parameters
    ----------
    entities
        What the fact connects, subject first. An extractor gives names as they are written;
        a fact read from an index has entity ids.
    text
        The fact in words: a sentence, or "subject relation object".
    relation
        The relation's name when the fact is a triple, empty when it is a sentence.
    weight
        Strength from 1 to 10. The edge between two entities weighs the sum of
        ``weight / 10`` over the facts that hold both. A sentence weighs 3.
    value
        A literal in place of the second entity ("dark mode").
    span
        Where the fact stands in its chunk, if it is a piece of it.
    id, chunk_id
        Set by the index.
    """

    entities: tuple[str, ...]
    text: str
    relation: str = ""
    weight: float = 10.0
    confidence: float = 1.0
    source: Source = "file"
    status: Status = "confirmed"
    value: str = ""
    created: float | None = None
    last_accessed: float | None = None
    access_count: int = 0
    span: tuple[int, int] | None = None
    id: str = ""
    chunk_id: str = ""

    @staticmethod
    def of_sentence(entities: tuple[str, ...], text: str, span: tuple[int, int]) -> Fact:
        """Return the fact that a sentence is.

        There is one for every sentence of every document; this takes half of the time.

        >>> Fact.of_sentence(("Ada",), "Ada wrote.", (0, 10)) == Fact(("Ada",), "Ada wrote.", weight=3.0, span=(0, 10))
        True
        """
        fact = object.__new__(Fact)
        vars(fact).update(_SENTENCE, entities=entities, text=text, span=span)
        return fact


_SENTENCE = vars(Fact((), "", weight=SENTENCE_WEIGHT))


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor read in one chunk. ``problem`` says why nothing could be read."""

    mentions: tuple[Mention, ...] = ()
    facts: tuple[Fact, ...] = ()
    problem: str = ""
