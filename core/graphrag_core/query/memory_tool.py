"""The memory tools for agents: names, descriptions, arguments and what they do. A framework's adapter wraps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphrag_core.context import one_line
from graphrag_core.errors import InputError
from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Group, Where, attributes, optional, parse
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import FACT_KEY, check_scope
from graphrag_core.model import FactSource
from graphrag_core.result import Result

NAME = "memory_search"
DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the best passages, including those that only the graph leads to."
)
NOTHING_FOUND = "Nothing was found."
MAX_TOKENS = 1_000


class Argument(NamedTuple):
    """An argument of a tool, as the model sees it. ``...`` as default: it is required."""

    name: str
    type: Any
    help: str
    default: Any = ...
    at_least: float | None = None
    at_most: float | None = None


class Tool(NamedTuple):
    """A tool for an agent: what the model sees of it, and the function that it calls with the arguments."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    run: Callable[..., str]


SEARCH_ARGUMENTS = (
    Argument("query", str, "What to look for, in words; names help."),
    Argument("max_results", int, "The maximum number of passages to return.", 10, 1, 100),
    Argument("use_graph", bool, "Whether to follow the knowledge graph.", default=True),
    Argument(
        "min_graph_score",
        float,
        "Leave out passages to which the graph leads by a weaker relation: its strength, from 0 to 1.",
        0.3,
        0,
        1,
    ),
)


def search_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the search that a model asks for by the arguments of the tool, without the query."""
    given = {argument.name: arguments.get(argument.name, argument.default) for argument in SEARCH_ARGUMENTS[1:]}
    return {"k": given.pop("max_results"), **given}


def to_content(result: Result, **settings: Any) -> str:
    """Return what the agent reads: the context, and what to do if there is none or the graph was skipped."""
    if not result.hits:
        return f"{NOTHING_FOUND} {one_line(result.advice[:1].upper() + result.advice[1:])}."
    context = str(result.context(**settings))
    is_noted = result.advice and (not result.graph_ran or result.embedder_failed)
    return f"{context}\n\nNote: {one_line(result.advice)}." if is_noted else context


# -- the tools that write

_FACT = (
    Argument("subject", str, "Whom or what the fact is about, by name."),
    Argument("relation", str, "The relation in one or two words, such as prefers or works_on."),
    Argument("object", str, "The other end of the relation: a name, or a value."),
    Argument(
        "literal",
        bool,
        "Whether the object is a value, such as a date or a wish, and not the name of a thing.",
        default=False,
    ),
    Argument(
        "supersedes",
        bool,
        "Whether this replaces what was true before: there can be only one such object at a time.",
        default=False,
    ),
    Argument("valid_from", str | None, "The date from which it is true, such as 2024-05-01.", None),
    Argument("valid_to", str | None, "The date until which it is true.", None),
    Argument("confidence", float, "How certain the fact is, from 0 to 1.", 1.0, 0, 1),
)
_FACT_ID = (
    Argument("fact_id", str, "The id of the fact, such as fact:0123456789abcdef, of memory_search or memory_remember."),
)


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
            metadata = dict(_equalities(parse(where))) if where is not None else {}
        return cls(index, check_scope(metadata), source)

    @property
    def where(self) -> Where | None:
        """The filter that a fact has to match to be changed."""
        conditions = [{key: {"eq": value}} for key, value in attributes_of(self.metadata)]
        return {"and": conditions} if conditions else None

    @property
    def searched(self) -> Where | None:
        """The filter of a search: no remembered fact of another scope. Documents are not restricted by it.

        It does not raise before the first fact of the scope is told.
        """
        if self.where is None:
            return None
        return optional(parse({"or": [{f"{FACT_KEY}.subject": {"exists": False}}, self.where]}))

    def tools(self) -> list[Tool]:
        """Return the tools that remember, confirm, reject and forget facts."""
        return [
            Tool(
                "memory_remember",
                "Store a fact for later: a subject, a relation and an object, such as User, prefers, dark mode. "
                "Write one fact in each call. Call the person you talk to User. Returns the id of the fact.",
                _FACT,
                self.remember,
            ),
            Tool(
                "memory_confirm",
                "Confirm a remembered fact by its id, when the user says that it is true.",
                _FACT_ID,
                self.confirm,
            ),
            Tool(
                "memory_reject",
                "Reject a remembered fact by its id, when the user says that it is wrong. It is not found again.",
                _FACT_ID,
                self.reject,
            ),
            Tool(
                "memory_forget",
                "Delete a remembered fact by its id, when the user asks to forget it.",
                _FACT_ID,
                self.forget,
            ),
        ]

    def remember(
        self,
        subject: str,
        relation: str,
        object: str,  # noqa: A002 - the usual word
        literal: bool = False,
        supersedes: bool = False,
        valid_from: str | None = None,
        valid_to: str | None = None,
        confidence: float = 1.0,
    ) -> str:
        """Store a fact."""
        fact = self.index.memory.remember(
            subject, relation, object, literal=literal, supersedes=supersedes, valid_from=valid_from or None,
            valid_to=valid_to or None, confidence=confidence, source=self.source, metadata=self.metadata,
        )  # fmt: skip
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


def attributes_of(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of metadata by which a filter can select it."""
    return ((key, None if kind == "null" else value) for key, (kind, value) in attributes(metadata))


def _equalities(parsed: Filter) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values that a filter asks for; raise if it asks for anything else."""
    if isinstance(parsed, Group) and parsed.all:
        for part in parsed.parts:
            yield from _equalities(part)
        return
    if not isinstance(parsed, Condition) or parsed.operator != "eq" or "." in parsed.key or parsed.key == DOCUMENT_ID:
        what = repr(parsed.key) if isinstance(parsed, Condition) else "'or'" if isinstance(parsed, Group) else "'not'"
        raise InputError(
            f"the condition on {what} of the filter does not say which metadata a remembered fact gets: "
            "pass metadata={...} to the memory tools"
        )
    ((kind, value),) = parsed.values
    yield parsed.key, None if kind == "null" else value
