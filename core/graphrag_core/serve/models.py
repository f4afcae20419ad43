"""What operations take and return: the types of their parameters, and Pydantic models of what they return.

The HTTP routes and the MCP tools take names, descriptions and bounds of parameters from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from graphrag_core.model import Community, Entity
from graphrag_core.result import Channel, Step

# -- parameters

Question = Annotated[
    str, Field(description="The question, in words; names help.", examples=["Who runs the OAuth Provider?"])
]
Where = Annotated[
    dict[str, Any] | None,
    Field(
        description="A filter on metadata. It narrows that of the API key and cannot widen it. Omit it if unsure.",
        examples=[{"team": "identity", "year": {"gte": 2020}}],
    ),
]
SeedEntities = Annotated[
    list[str] | None,
    Field(
        max_length=50, description="Names of entities from which to follow the graph, besides those in the question."
    ),
]
Exclude = Annotated[
    list[str] | None,
    Field(
        max_length=1_000, description="Names of entities or ids of documents to leave out, such as those already read."
    ),
]
AsOf = Annotated[
    str | None, Field(description="Use the remembered facts that were valid then.", examples=["2024-05-01"])
]
ContextTokens = Annotated[
    int | None, Field(ge=1, le=100_000, description="Also return the result as prompt text of at most so many tokens.")
]
EntityName = Annotated[
    str, Field(min_length=1, max_length=1_000, description="The name, in any spelling or case, as results show it.")
]
Limit = Annotated[int, Field(ge=1, description="How many to return.")]
Offset = Annotated[int, Field(ge=0, description="How many to skip.")]
MaxHops = Annotated[int, Field(ge=1, le=10, description="The largest number of facts.")]
Subject = Annotated[
    str,
    Field(description="Whom or what the fact is about. Call the person you talk to User.", examples=["User"]),
]
Relation = Annotated[
    str, Field(description="The relation in one or two words, such as prefers or works_on.", examples=["prefers"])
]
Object = Annotated[str, Field(description="The other end of the relation: a name, or a value.", examples=["dark mode"])]
IsLiteral = Annotated[bool, Field(description="Whether the object is a value and not the name of a thing.")]
Supersedes = Annotated[
    bool, Field(description="Whether this replaces what was true before: there can be only one such object.")
]
ValidFrom = Annotated[str | None, Field(description="The date from which it is true.", examples=["2024-05-01"])]
ValidTo = Annotated[str | None, Field(description="The date until which it is true.")]
Confidence = Annotated[float, Field(ge=0, le=1, description="How certain it is.")]
Metadata = Annotated[dict[str, Any] | None, Field(description="The scope of the fact.")]


class NewDocument(BaseModel):
    """A document to add. One with the same id is replaced."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=1_000, description="Identifies the document.", examples=["auth.md"])
    text: str = Field(description="The whole text, plain or Markdown.", examples=["The Auth Service issues tokens."])
    title: str = Field(default="", description="The document's subject.", examples=["Auth Service"])
    metadata: dict[str, Any] = Field(default_factory=dict, description="For filters.", examples=[{"team": "identity"}])


# -- values that operations return


class _Value(BaseModel):
    """A value that is read from the attributes of a value of the core."""

    model_config = ConfigDict(from_attributes=True)


class FactValue(_Value):
    """A statement about entities."""

    id: str
    text: str
    entities: list[str] = Field(description="The ids of the entities, the subject first.")
    relation: str = Field(default="", description="Empty if the fact is a sentence.")
    value: str = Field(default="", description="A literal instead of a second entity.")
    weight: float = Field(description="Strength from 1 to 10.")
    confidence: float = 1.0
    source: str = "file"
    status: str = "confirmed"
    chunk_id: str = Field(description="The passage that states it.")
    valid_from: float | None = None
    valid_to: float | None = None


class Passage(_Value):
    """A passage to cite."""

    number: int = Field(description="The rank, from 1.")
    chunk_id: str
    document_id: str
    title: str = ""
    section: str = Field(default="", description="The headings above the passage, outermost first.")
    page: int | None = None
    text: str


class HitValue(Passage):
    """A passage, and why it was found."""

    score: float = Field(description="With the default settings how likely the passage belongs to the answer.")
    metadata: dict[str, Any] = {}
    origin: Literal["plain", "graph"] = Field(description="graph: plain search alone would not have returned it.")
    channels: dict[str, Channel] = {}
    path: list[Step] = Field(default=[], description="The path through the graph to the passage.")
    copies: list[str] = Field(default=[], description="The ids of passages that say the same.")


class QueryResponse(BaseModel):
    """The passages for a question, best first."""

    question: str
    method: str
    hits: list[HitValue]
    entities: list[Entity] = Field(description="The entities that the question names.")
    facts: list[FactValue] = Field(description="The facts that support the answer, most important first.")
    communities: list[Community] = Field(default=[], description="The themes that matter, for the method global.")
    confidence: float = Field(description="How far the graph can be trusted with this question, from 0 to 1.")
    graph_ran: bool
    route: str = ""
    expansion_skipped: str = ""
    fallback: str = ""
    advice: str = Field(default="", description="What to do about an empty result or a low confidence.")
    context: str | None = Field(default=None, description="Prompt text, if context_tokens was given.")


class ExplainResponse(QueryResponse):
    """The passages for a question, and a report for a person."""

    explanation: str = Field(description="Each hit with its channels, its best sentence, its path, and what it adds.")


class AskResponse(_Value):
    """An answer with citations."""

    question: str
    text: str
    kind: Literal["llm", "extract", "none"] = Field(
        description="llm: a language model wrote it. extract: sentences of the passages. none: not in the documents."
    )
    cited: bool = Field(description="Whether the answer cites a passage. Do not rely on one that does not.")
    citations: list[Passage]
    unknown_citations: list[int] = Field(default=[], description="Numbers that the answer cites and no passage has.")


class DocumentSummary(BaseModel):
    """A document without its text."""

    id: str
    title: str = ""
    metadata: dict[str, Any] = {}
    characters: int


class DocumentPage(BaseModel):
    """Documents in order of id."""

    documents: list[DocumentSummary]
    next: str | None = Field(default=None, description="Pass it as after to get the next page; null on the last page.")


class DocumentValue(_Value):
    """A document as it was added."""

    id: str
    text: str
    title: str = ""
    metadata: dict[str, Any] = {}


class DeleteResponse(BaseModel):
    """What a deletion did."""

    deleted: int


class EntityList(BaseModel):
    """Entities, the most mentioned first."""

    entities: list[Entity]


class EntityResponse(BaseModel):
    """An entity with its facts."""

    entity: Entity
    facts: list[FactValue]
    more_facts: int = Field(default=0, description="How many facts were left out.")
    passages: list[Passage] = Field(default=[], description="Some passages that mention it, those about it first.")


class Neighbour(BaseModel):
    """An entity that shares facts with another one."""

    entity: Entity
    weight: float = Field(description="The sum of weight / 10 over the facts that hold both.")


class NeighboursResponse(BaseModel):
    """The entities that share facts with an entity, strongest first."""

    entity: Entity
    neighbours: list[Neighbour]
    total: int


class PathResponse(_Value):
    """The shortest path between two entities."""

    found: bool = True
    entities: list[Entity] = []
    facts: list[FactValue] = Field(default=[], description="One for each link.")


class CommunityList(BaseModel):
    """The themes of the collection, the largest first."""

    communities: list[Community]


class StatsResponse(_Value):
    """The size of what the API key sees. The last fields are for keys without a filter only."""

    documents: int
    chunks: int
    entities: int
    facts: int
    top_entities: list[tuple[str, int]]
    embedder: str | None = None
    generation: int | None = None
    bytes_on_disk: int | None = None


class HealthResponse(BaseModel):
    """Whether the server takes requests."""

    status: Literal["ok", "closing"]
    version: str


class ErrorValue(BaseModel):
    """What went wrong and what to do about it."""

    type: str
    message: str


class ErrorResponse(BaseModel):
    """An error."""

    error: ErrorValue
