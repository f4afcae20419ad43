"""What operations take and return: the types of their parameters, and Pydantic models of what they return.

The HTTP routes and the MCP tools take names, descriptions and bounds of parameters from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from graphrag_apps.ask import AnswerKind, Citation
from graphrag_core.model import Community, Entity
from graphrag_core.result import Channel, Link, Origin, Signal, Step

# -- parameters

Question = Annotated[
    str, Field(description="The question, in words; names help.", examples=["Who runs the OAuth Provider?"])
]
Where = Annotated[
    dict[str, Any] | None,
    Field(
        description="A filter on metadata. It narrows the filter of the API key, never widens it. Omit it if unsure.",
        examples=[{"team": "identity", "year": {"gte": 2020}}],
    ),
]
History = Annotated[
    list[Annotated[str, Field(max_length=20_000)]] | None,
    Field(
        max_length=50,
        description="What the user and the assistant said before, oldest first. A question that refers back, such as "
        "'who owns it?', starts from the entities that the last turns name; any other is not changed.",
        examples=[["What is the Auth Service?", "It issues tokens."]],
    ),
]
AsOf = Annotated[
    str | None, Field(description="Use the remembered facts that were valid then.", examples=["2024-05-01"])
]
Design = Annotated[
    Literal["hybrid", "confident", "kg2rag", "memory", "research"] | None,
    Field(description="All settings of a published design, instead of the server's; other settings change its fields."),
]
Changes = Annotated[
    dict[str, bool | Annotated[float, Field(ge=-10_000, le=10_000)] | Annotated[str, Field(max_length=1_000)]] | None,
    Field(
        max_length=50,
        description="Changes search settings by their path, such as a number of the gate.",
        examples=[{"gate.min_score": 0.3, "context.style": "narrative"}],
    ),
]
AnswerThreshold = Annotated[
    float | None,
    Field(
        ge=0,
        description="The lowest score of the first passage with which the question is answered; 0 always answers. "
        "Below it the kind is none. Omit it if unsure.",
    ),
]
ContextTokens = Annotated[
    int | None,
    Field(
        ge=1,
        le=100_000,
        description="Also return the result as prompt text, with at most N tokens. The design or the setting "
        "context.style decides what it consists of.",
    ),
]
EntityName = Annotated[
    str, Field(min_length=1, max_length=1_000, description="The name, in any spelling or case, as results show it.")
]
Limit = Annotated[int, Field(ge=1, description="How many to return.")]
Offset = Annotated[int, Field(ge=0, description="How many to skip.")]
MaxHops = Annotated[int, Field(ge=1, le=10, description="The largest number of facts.")]
Metadata = Annotated[dict[str, Any] | None, Field(description="The scope of the fact.")]


# -- values that operations return


class _Value(BaseModel):
    """A value that may be read from the attributes of a value of the core."""

    model_config = ConfigDict(from_attributes=True)


class DocumentValue(_Value):
    """A document as it is added. One with the same id is replaced."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, description="Identifies the document.", examples=["auth.md"])
    text: str = Field(description="The whole text, plain or Markdown.", examples=["The Auth Service issues tokens."])
    title: str = Field(default="", description="The document's subject.", examples=["Auth Service"])
    metadata: dict[str, Any] = Field(default={}, description="For filters.", examples=[{"team": "identity"}])


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
    status: str = "staged"
    chunk_id: str = Field(description="The passage that states it.")
    valid_from: float | None = None
    valid_to: float | None = None


class ExpandedValue(BaseModel):
    """A passage together with those around it."""

    text: str
    ids: list[str] = Field(description="The ids of the passages, in order.")
    start: int = Field(description="Where the text starts in that of its document.")


class HitValue(BaseModel):
    """A passage, and why it was found: what :meth:`graphrag_core.Hit.to_dict` returns."""

    id: str = Field(description="The id of the passage.")
    document_id: str
    title: str
    ordinal: int = Field(description="The number of the passage in its document, from 0.")
    start: int = Field(description="Where it starts in the text of its document.")
    headings: list[str] = Field(description="The headings above the passage, outermost first.")
    page: int | None
    text: str
    metadata: dict[str, Any]
    score: float = Field(description="With the default settings how likely the passage belongs to the answer.")
    origin: Origin = Field(description="graph: plain search alone would not have returned it.")
    entity: str | None = Field(description="The name of the entity through which the graph leads to the passage.")
    hops: int = Field(description="How many facts lead to the entity.")
    graph_expansion: str = Field(description="The query that found it, if the graph strategy made queries.")
    channels: dict[str, Channel]
    path: list[Step] = Field(description="The path through the graph to the passage.")
    words: list[str] = Field(description="The words of the question that the passage contains.")
    covers: list[str] = Field(description="Those of them that no better passage contains.")
    link: Link | None = Field(description="The strongest link to a better passage.")
    moved: list[Signal] = Field(description="By what it is above passages that plain search ranks higher.")
    expanded: ExpandedValue | None = Field(description="The passage with those around it, if expand was given.")


class QueryResponse(BaseModel):
    """The passages for a question, best first."""

    question: str
    method: str
    hits: list[HitValue]
    entities: list[Entity] = Field(description="The entities that the question names.")
    facts: list[FactValue] = Field(description="The facts that support the answer, most important first.")
    confidence: float | None = Field(
        default=None, description="How far the graph can be trusted with this question, if the gate uses it."
    )
    graph_ran: bool
    route: str = ""
    decided: str = Field(default="", description="What decided the order of the passages, and why.")
    gate: str = Field(default="", description="The numbers behind it.")
    expansion_skipped: str = Field(default="", description="Why the graph did not run or found nothing.")
    fallback: str = ""
    advice: str = Field(default="", description="What to do about an empty or weak result.")
    context: str | None = Field(default=None, description="Prompt text, if context_tokens was given.")


class ExplainResponse(QueryResponse):
    """The passages for a question, and a report for a person."""

    explanation: str = Field(description="Each hit with its channels, its best sentence, its path, and what it adds.")


class AskResponse(_Value):
    """An answer with citations."""

    question: str
    text: str
    kind: AnswerKind = Field(
        description="llm: a language model wrote it. extract: sentences of the passages. none: the documents do not "
        "answer the question; the text lists the nearest passages, if there are any."
    )
    cited: bool = Field(description="Whether the answer cites a passage. Do not rely on one that does not.")
    citations: list[Citation]
    unknown_citations: list[int] = Field(default=[], description="Numbers that the answer cites and no passage has.")


class DocumentSummary(BaseModel):
    """A document without its text."""

    id: str
    title: str
    metadata: dict[str, Any]
    characters: int


class DocumentPage(BaseModel):
    """Documents in order of id."""

    documents: list[DocumentSummary]
    next: str | None = Field(default=None, description="Pass it as after to get the next page; null on the last page.")


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
    passages: list[Citation] = Field(default=[], description="Some passages that mention it, those about it first.")


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
