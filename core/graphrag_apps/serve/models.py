"""The bodies of requests, and the types and descriptions of parameters, for both servers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from graphrag_core.context.expanded import Around
from graphrag_core.model import FactSource
from graphrag_core.query.settings import Method

Text = Annotated[str, Field(max_length=20_000)]
QuestionText = Annotated[str, Field(description="The question, in words.")]
K = Annotated[int | None, Field(description="Number of passages.", ge=1)]
HowToSearch = Annotated[
    Method | None, Field(description="How to search; agentic selects a method for the question. Default: hybrid.")
]
Design = Annotated[
    Literal["hybrid", "confident", "kg2rag", "memory", "research"] | None,
    Field(description="A published design, in place of all settings."),
]
Numbers = Annotated[
    dict[str, bool | int | float | str] | None,
    Field(description="Numbers of parts of the search settings by path, such as {'gate.min_score': 0.3}."),
]
History = Annotated[
    list[Text] | None,
    Field(description="The turns of the conversation before the question, oldest first.", max_length=50),
]
Threshold = Annotated[
    float | None,
    Field(description="The lowest score of the first passage with which the question is answered.", ge=0, le=1),
]
WhereObject = Annotated[
    dict[str, Any] | None,
    Field(description="A filter on document metadata, such as {'team': 'identity', 'year': {'gte': 2020}}."),
]
Name = Annotated[str, Field(description="The name of an entity, in any spelling or case.", max_length=1_000)]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Search(Body):
    """A question with its options."""

    question: QuestionText
    where: WhereObject = None
    k: K = None
    method: HowToSearch = None
    design: Design = None
    use_graph: bool | None = Field(None, description="Whether hybrid search uses the graph.")
    score_threshold: float | None = Field(None, description="Leave out passages with a lower score.", ge=0)
    expand: Around | None = Field(None, description="Read around each passage: its section, or its neighbours.")
    set: Numbers = None
    history: History = None
    as_of: float | str | None = Field(None, description="Facts that were valid at this time, such as 2024-05-01.")

    def options(self) -> dict[str, Any]:
        """Return the arguments of :func:`graphrag_apps.serve.operations.retrieve`, but the question."""
        names = ("k", "method", "design", "use_graph", "score_threshold", "expand", "history", "as_of")
        return {**{name: getattr(self, name) for name in names}, "numbers": self.set}


class QueryRequest(Search):
    """A question; ``context_tokens`` asks for prompt text, too."""

    context_tokens: int | None = Field(None, description="Return prompt text of at most so many tokens.", ge=1)


class AskRequest(Search):
    """A question that is answered in words."""

    answer_threshold: Threshold = None
    stream: bool = Field(False, description="Whether the answer is sent in pieces, as Server-Sent Events.")


class DocumentBody(Body):
    """A document."""

    id: str = Field(description="Identifies the document; an existing one is replaced.", max_length=1_000)
    text: str
    title: str = Field("", max_length=10_000)
    metadata: dict[str, Any] = Field({}, description="Fields that filters compare.")


class AddRequest(Body):
    """Documents to add, all or none."""

    documents: list[DocumentBody] = Field(max_length=1_000)


class FactRequest(Body):
    """A fact to remember."""

    subject: Name
    relation: str = Field(description="What joins them, such as 'owns'.", max_length=1_000)
    object: str = Field(description="The name of an entity, or a value if literal is true.", max_length=1_000)
    literal: bool = Field(False, description="Whether the object is a value and no entity.")
    source: FactSource = "user_edit"
    confidence: float = Field(1.0, ge=0, le=1)
    metadata: dict[str, Any] = {}
    valid_from: float | str | None = None
    valid_to: float | str | None = None
    supersedes: bool = Field(False, description="Whether it ends older facts of the same subject and relation.")


class ExploreRequest(Body):
    """What the page of the explorer asks for; each request uses some of the fields."""

    where: WhereObject = None
    text: str = Field("", max_length=10_000)
    name: str = Field("", max_length=1_000)
    source: str = Field("", max_length=1_000)
    target: str = Field("", max_length=1_000)
    id: str = Field("", max_length=1_000)
    offset: int = Field(0, ge=0)
    limit: int = Field(24, ge=1, le=100)
    drawn: list[str] = Field([], max_length=300)
