"""What the servers take and return, as Pydantic models: the schema of the HTTP API and of the MCP tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MethodName = Literal["hybrid", "vector", "keyword", "graph", "agentic", "global"]
WhereMapping = Annotated[
    dict[str, Any] | None,
    Field(
        description="A filter on metadata. It narrows the filter of the API key and cannot widen it.",
        examples=[{"team": "identity", "year": {"gte": 2020}}],
    ),
]


class Request(BaseModel):
    """A request body. Unknown fields are refused, so that a misspelled filter does not open the scope."""

    model_config = ConfigDict(extra="forbid")


class QueryRequest(Request):
    """A question, and how to search for it."""

    question: str = Field(description="The question, in words; names help.", examples=["Who runs the OAuth Provider?"])
    k: int | None = Field(default=None, ge=1, description="The number of passages. Default: the server's setting.")
    method: MethodName | None = Field(
        default=None,
        description="hybrid uses vectors, keywords and the graph; agentic chooses; global is for overviews.",
    )
    where: WhereMapping = None
    use_graph: bool = Field(default=True, description="False restricts hybrid to vector and keyword search.")
    seed_entities: list[str] | None = Field(
        default=None,
        max_length=50,
        description="Names of entities at which the graph search starts, besides those found.",
    )
    exclude: list[str] | None = Field(
        default=None, max_length=1_000, description="Names of entities or ids of documents that must not be used."
    )
    score_threshold: float | None = Field(default=None, ge=0, description="Leave out hits with a lower score.")
    as_of: str | None = Field(
        default=None, description="Use the remembered facts that were valid then.", examples=["2024-05-01"]
    )
    context_tokens: int | None = Field(
        default=None, ge=1, le=100_000, description="Also return the result as prompt text of at most so many tokens."
    )


class AskRequest(Request):
    """A question to be answered in words."""

    question: str = Field(description="The question.", examples=["Who runs the OAuth Provider?"])
    k: int | None = Field(default=None, ge=1, description="The number of passages. Default: the server's setting.")
    method: MethodName | None = Field(default=None, description="As for query.")
    where: WhereMapping = None
    seed_entities: list[str] | None = Field(default=None, max_length=50, description="As for query.")
    exclude: list[str] | None = Field(default=None, max_length=1_000, description="As for query.")
    stream: bool = Field(
        default=False, description="True answers with Server-Sent Events: piece, then answer, or error."
    )


class NewDocument(Request):
    """A document to add. One with the same id is replaced."""

    id: str = Field(min_length=1, max_length=1_000, description="Identifies the document.", examples=["auth.md"])
    text: str = Field(description="The whole text, plain or Markdown.", examples=["The Auth Service issues tokens."])
    title: str = Field(default="", description="The document's subject.", examples=["Auth Service"])
    metadata: dict[str, Any] = Field(default_factory=dict, description="For filters.", examples=[{"team": "identity"}])


class AddRequest(Request):
    """Documents to add, all or none."""

    documents: list[NewDocument] = Field(min_length=1, max_length=1_000)


class FactRequest(Request):
    """A fact to remember."""

    subject: str = Field(description="Whom or what the fact is about.", examples=["User"])
    relation: str = Field(description="The relation in one or two words.", examples=["prefers"])
    object: str = Field(description="The other end: a name or a value.", examples=["dark mode"])
    literal: bool = Field(default=False, description="Whether the object is a value and no entity.")
    supersedes: bool = Field(default=False, description="Whether it replaces other facts of this subject and relation.")
    valid_from: str | None = Field(default=None, description="The date from which it is true.", examples=["2024-05-01"])
    valid_to: str | None = Field(default=None, description="The date until which it is true.")
    confidence: float = Field(default=1.0, ge=0, le=1, description="How certain it is.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="The scope of the fact.")


# -- responses


class EntityValue(BaseModel):
    """A thing that passages mention."""

    id: str = Field(description="The normalised name.")
    name: str
    type: str = ""
    description: str = ""
    aliases: list[str] = []
    mentions: int = Field(default=0, description="How many passages mention it, within the scope.")


class FactValue(BaseModel):
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


class StepValue(BaseModel):
    """One node of a path from the question to a passage."""

    kind: Literal["question", "entity", "fact", "chunk"]
    id: str
    text: str


class ChannelValue(BaseModel):
    """How one channel ranked a passage."""

    rank: int
    score: float
    share: float


class HitValue(BaseModel):
    """A passage, and why it was found."""

    number: int = Field(description="The rank, from 1.")
    chunk_id: str
    document_id: str
    title: str = ""
    headings: list[str] = Field(default=[], description="The headings above the passage, outermost first.")
    page: int | None = None
    text: str
    score: float = Field(description="With the default settings how likely the passage belongs to the answer.")
    metadata: dict[str, Any] = {}
    origin: Literal["plain", "graph"] = Field(description="graph: plain search alone would not have returned it.")
    channels: dict[str, ChannelValue] = {}
    path: list[StepValue] = Field(default=[], description="The path through the graph to the passage.")
    copies: list[str] = Field(default=[], description="The ids of passages that say the same.")


class CommunityValue(BaseModel):
    """A group of entities that belong together: a theme of the collection."""

    id: str
    level: int
    parent: str | None = None
    name: str
    names: list[str] = Field(description="The names of its main entities.")
    entities: int
    documents: int
    description: str = ""
    sentences: list[str] = []


class QueryResponse(BaseModel):
    """The passages for a question, best first."""

    question: str
    method: str
    hits: list[HitValue]
    entities: list[EntityValue] = Field(description="The entities that the question names.")
    facts: list[FactValue] = Field(description="The facts that support the answer, most important first.")
    communities: list[CommunityValue] = Field(default=[], description="The themes that matter, for the method global.")
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


class CitationValue(BaseModel):
    """A passage that an answer cites."""

    number: int
    document_id: str
    chunk_id: str
    title: str = ""
    section: str = ""
    page: int | None = None
    text: str


class AskResponse(BaseModel):
    """An answer with citations."""

    question: str
    text: str
    kind: Literal["llm", "extract", "none"] = Field(
        description="llm: a language model wrote it. extract: sentences of the passages. none: not in the documents."
    )
    cited: bool = Field(description="Whether the answer cites a passage.")
    citations: list[CitationValue]
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


class DocumentValue(BaseModel):
    """A document as it was added."""

    id: str
    text: str
    title: str = ""
    metadata: dict[str, Any] = {}


class AddResponse(BaseModel):
    """What an addition did, in numbers of documents."""

    added: int
    replaced: int
    unchanged: int
    problems: dict[str, str] = {}


class DeleteResponse(BaseModel):
    """What a deletion did."""

    deleted: int


class EntityList(BaseModel):
    """Entities, the most mentioned first."""

    entities: list[EntityValue]


class PassageValue(BaseModel):
    """A passage that mentions an entity."""

    chunk_id: str
    document_id: str
    title: str = ""
    headings: list[str] = []
    page: int | None = None
    text: str


class EntityResponse(BaseModel):
    """An entity with its facts."""

    entity: EntityValue
    facts: list[FactValue]
    more_facts: int = Field(default=0, description="How many facts were left out.")
    passages: list[PassageValue] = Field(default=[], description="Some passages that mention it, those about it first.")


class NeighbourValue(BaseModel):
    """An entity that shares facts with another one."""

    entity: EntityValue
    weight: float = Field(description="The sum of weight / 10 over the facts that hold both.")


class NeighboursResponse(BaseModel):
    """The entities that share facts with an entity, strongest first."""

    entity: EntityValue
    neighbours: list[NeighbourValue]
    total: int


class PathResponse(BaseModel):
    """The shortest path between two entities."""

    found: bool
    entities: list[EntityValue] = []
    facts: list[FactValue] = Field(default=[], description="One for each link.")


class CommunityList(BaseModel):
    """The themes of the collection, the largest first."""

    communities: list[CommunityValue]


class StatsResponse(BaseModel):
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
