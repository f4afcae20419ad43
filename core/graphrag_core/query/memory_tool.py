"""The memory tools for agents: names, descriptions, arguments and what they do. A framework's adapter wraps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from graphrag_core.context.escape import one_line
from graphrag_core.context.settings import Style
from graphrag_core.errors import InputError
from graphrag_core.filters import (
    DOCUMENT_ID,
    Condition,
    Filter,
    Group,
    Internal,
    Not,
    Where,
    attributes,
    conjuncts,
    parse,
    parse_all,
)
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import FACT_KEY, check_scope
from graphrag_core.model import FactSource
from graphrag_core.query.per_request import OfRequest, per_request
from graphrag_core.query.settings import Option
from graphrag_core.result import Result
from graphrag_core.text import Tokenizer

if TYPE_CHECKING:
    from pydantic import BaseModel

NAME = "memory_search"
DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the best passages, including those that only the graph leads to."
)
NOTHING_FOUND = "Nothing was found."
MAX_TOKENS = 1_000
REQUIRED: Any = ...
"""The default of an argument that must be given."""

SEARCH_ARGUMENTS = (
    Option("query", REQUIRED, str, "What to look for, in words; names help."),
    Option("max_results", 10, int, "The number of passages to return. A design may add some from the graph.", 1, 100),
    Option("use_graph", True, bool, "Whether to follow the knowledge graph."),
    Option("min_graph_score", None, float,
           "Leave out passages to which the graph leads by a weaker relation: its strength, from 0 to 1. "
           "By default the setting of the retriever.", 0, 1),
)  # fmt: skip
FACT_ARGUMENTS = (
    Option("subject", REQUIRED, str, "Whom or what the fact is about, by name. Call the person you talk to User."),
    Option("relation", REQUIRED, str, "The relation in one or two words, such as prefers or works_on."),
    Option("object", REQUIRED, str, "The other end of the relation: a name, or a value."),
    Option("literal", False, bool,
           "Whether the object is a value, such as a date or a wish, and not the name of a thing."),
    Option("supersedes", False, bool,
           "Whether this replaces what was true before: there can be only one such object at a time."),
    Option("valid_from", None, str, "The date from which it is true, such as 2024-05-01."),
    Option("valid_to", None, str, "The date until which it is true."),
    Option("confidence", 1.0, float, "How certain the fact is, from 0 to 1.", 0, 1),
)  # fmt: skip
"""What a fact is told with: arguments of :meth:`Memory.remember <graphrag_core.memory.Memory.remember>`."""

_FACT_ID = (
    Option("fact_id", REQUIRED, str,
           "The id of the fact, such as fact:0123456789abcdef, of memory_search or memory_remember."),
)  # fmt: skip


class Tool(NamedTuple):
    """A tool for an agent: what the model sees of it, and the function that it calls.

    ``run`` takes the scope of the request and the arguments of the model.
    """

    name: str
    description: str
    arguments: tuple[Option, ...]
    run: Callable[..., Any]


def arguments_model(name: str, arguments: Iterable[Option]) -> type[BaseModel]:
    """Return the arguments of a tool as a Pydantic model, which both frameworks take."""
    from pydantic import Field, create_model  # noqa: PLC0415 - a dependency of the frameworks, not of the core

    fields: dict[str, Any] = {
        one.name: (
            one.type if one.default is not None else one.type | None,
            Field(one.default, description=one.help, ge=one.minimum, le=one.maximum),
        )
        for one in arguments
    }
    return create_model(name, **fields)


def search_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the search that a model asks for by the arguments of the tool, without the query."""
    count, use_graph, least = (arguments.get(one.name, one.default) for one in SEARCH_ARGUMENTS[1:])
    return {"k": count, "use_graph": use_graph, "gate.min_graph_score": least}


class ContextArguments(TypedDict, total=False):
    """What :meth:`Result.context <graphrag_core.Result.context>` takes.

    ``max_tokens`` and ``style`` are those of ``context`` of the settings, or 1,000 and ``"passages"``.
    """

    max_tokens: int
    style: Style
    include_relationships: bool | None
    include_sources: bool


def to_content(result: Result, settings: ContextArguments, tokenizer: Tokenizer | None = None) -> str:
    """Return what the agent reads: the context, and what to do if there is none or the graph was skipped."""
    if not result.hits:
        return f"{NOTHING_FOUND} {one_line(result.advice[:1].upper() + result.advice[1:])}."
    given: dict[str, Any] = {
        "max_tokens": result.context_format.max_tokens or MAX_TOKENS,
        "style": result.context_format.style or "passages",
        **settings,
    }
    context = str(result.context(**given, tokenizer=tokenizer))
    is_noted = result.advice and (not result.graph_ran or result.embedder_failed)
    return f"{context}\n\nNote: {one_line(result.advice)}." if is_noted else context


@dataclass(frozen=True)
class MemoryWriter:
    """What the tools that write do, restricted to a scope. Each method returns what the agent is told.

    Parameters
    ----------
    index
        The index to write to.
    metadata
        The scope of every fact that is told, such as ``{"user": "ada"}``. Other facts cannot be changed.
    source
        The source of every fact that is told.
    """

    index: KnowledgeIndex
    metadata: Mapping[str, Any]
    source: FactSource = "conversation"

    @classmethod
    def of(
        cls, index: KnowledgeIndex, metadata: Mapping[str, Any] | None, where: Where | None, source: FactSource
    ) -> MemoryWriter:
        """Return the writer of a scope; without metadata, the scope is that of a retriever's filter.

        Raises
        ------
        InputError
            The filter does not say which metadata a fact needs to match it.
        """
        if metadata is None:
            metadata = dict(map(_equality, conjuncts(parse(where)))) if where is not None else {}
        return cls(index, check_scope(metadata), source)

    @property
    def where(self) -> Filter | None:
        """The filter that a fact has to match to be changed."""
        conditions = tuple(Internal(key, "eq", (value,)) for key, value in attributes(self.metadata))
        return Group(all=True, parts=conditions) if conditions else None

    @property
    def searched(self) -> Filter | None:
        """The filter of a search: no remembered fact of another scope. Documents are not restricted by it."""
        if self.where is None:
            return None
        return Group(all=False, parts=(Not(Internal(f"{FACT_KEY}.subject", "exists", ())), self.where))

    def remember(self, subject: str, relation: str, object: str, **more: Any) -> str:  # noqa: A002 - the usual word
        """Store a fact. ``more`` are the other :data:`FACT_ARGUMENTS`; an empty date is none."""
        given: dict[str, Any] = {name: None if value == "" else value for name, value in more.items()}
        fact = self.index.memory.remember(
            subject, relation, object, **given, source=self.source, metadata=self.metadata
        )
        if fact.status == "rejected":
            return f"Not remembered, as it was rejected before: {one_line(fact.text)} ({fact.chunk_id})"
        return f"Remembered ({fact.status}): {one_line(fact.text)} ({fact.chunk_id})"

    def confirm(self, fact_id: str) -> str:
        """Confirm a fact."""
        return f"Confirmed: {one_line(self.index.memory.confirm(fact_id, where=self.where).text)}"

    def reject(self, fact_id: str) -> str:
        """Reject a fact."""
        return f"Rejected: {one_line(self.index.memory.reject(fact_id, where=self.where).text)}"

    def forget(self, fact_id: str) -> str:
        """Delete a fact."""
        if not self.index.memory.forget(fact_id, where=self.where or {}):
            raise InputError(f"there is no fact {fact_id!r} in this scope: use the id that memory_search returned")
        return f"Forgotten: {one_line(fact_id)}"


WRITING_TOOLS = (
    Tool(
        "memory_remember",
        "Store a fact for later: a subject, a relation and an object, such as User, prefers, dark mode. "
        "Write one fact in each call. Call the person you talk to User. Returns the id of the fact.",
        FACT_ARGUMENTS,
        MemoryWriter.remember,
    ),
    Tool(
        "memory_confirm",
        "Confirm a remembered fact by its id, when the user says that it is true.",
        _FACT_ID,
        MemoryWriter.confirm,
    ),
    Tool(
        "memory_reject",
        "Reject a remembered fact by its id, when the user says that it is wrong. It is not found again.",
        _FACT_ID,
        MemoryWriter.reject,
    ),
    Tool(
        "memory_forget",
        "Delete a remembered fact by its id, when the user asks to forget it.",
        _FACT_ID,
        MemoryWriter.forget,
    ),
)
"""The tools that remember, confirm, reject and forget facts; their scope is a :class:`MemoryWriter`."""


def where_for(given: Where | OfRequest | None, *fixed: Where | None) -> Callable[[Any], Filter | None]:
    """Return a function from a request to the filter of ``memory_search``; it also matches the fixed filters."""
    return per_request(given, "filter of the memory tools", partial(parse_all, *fixed))


def writer_for(
    index: KnowledgeIndex, metadata: Mapping[str, Any] | OfRequest | None, where: Where | None, source: FactSource
) -> Callable[[Any], MemoryWriter]:
    """Return a function from a request to the writer of its scope, as :meth:`MemoryWriter.of` returns it."""
    return per_request(
        metadata, "metadata of the memory tools", lambda given: MemoryWriter.of(index, given, where, source)
    )


def _equality(part: Filter) -> tuple[str, Any]:
    """Return the key and the value that a condition asks for; raise if it asks for anything else."""
    if not isinstance(part, Condition) or part.operator != "eq" or "." in part.key or part.key == DOCUMENT_ID:
        what = repr(part.key) if isinstance(part, Condition) else "'or'" if isinstance(part, Group) else "'not'"
        raise InputError(
            f"the condition on {what} of the filter does not say which metadata a remembered fact gets: "
            "pass metadata={...} to the memory tools"
        )
    ((kind, value),) = part.values
    return part.key, None if kind == "null" else value
