"""``Plan``: one question with its settings and scope; and its vector, computed in this thread or awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from graphrag_core.filters import Filter
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.ports import Matrix
from graphrag_core.query.conversation import Turn
from graphrag_core.query.settings import ResolvedSettings

_NOT_EMBEDDED = "the question could not be embedded, keyword search only"


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A question, its resolved settings, and what the call adds.

    Parameters
    ----------
    text, settings
        The question and its settings; the method is the one that the router chose.
    at, as_of
        The time whose facts count, in seconds since the epoch; and the one that the caller asked for, None for now.
    key
        What the result depends on besides the generation, for the cache.
    scope
        The caller's filter.
    vector
        The vector of the question, if the caller has it.
    embed, aembed
        What embeds the question in place of the index's embedder, in the calling thread and on the event loop.
    route
        Why the router chose the method.
    turns
        The turns of the conversation before a question that may refer to them.
    counts_access, explain
        Whether the facts that are read count as accessed, and whether the result is explained at once.
    """

    text: str
    settings: ResolvedSettings
    at: float
    key: Hashable
    scope: Filter | None = None
    as_of: float | None = None
    vector: Matrix | None = None
    embed: Callable[[], Matrix] | None = None
    aembed: Callable[[], Awaitable[Matrix]] | None = None
    route: str = ""
    turns: tuple[Turn, ...] = ()
    counts_access: bool = True
    explain: bool = False


class Embedded(NamedTuple):
    """The vector of a question; or None, with why there is none if the method needs one."""

    vector: Matrix | None = None
    problem: str = ""
    failed: bool = False


def embedded(index: KnowledgeIndex, plan: Plan) -> Embedded:
    """Return the question's vector, unless the method or the index needs none."""
    if plan.settings.method == "keyword":
        return Embedded()
    if plan.vector is not None:
        return Embedded(plan.vector)
    if (embedder := index.embedding) is None:
        if index.engine.settings().get("embedder", NO_EMBEDDER) != NO_EMBEDDER:
            return Embedded(problem=f"{_NOT_EMBEDDED}: the index was opened without its embedder")
        is_missing = plan.settings.method == "vector"
        return Embedded(problem="the index has no vectors: keyword search answers" if is_missing else "")
    try:
        return Embedded(embedder.query(plan.text) if plan.embed is None else plan.embed())
    except Exception as error:  # noqa: BLE001 - raised below, unless keyword search answers
        return _failed(index, plan, error)


async def awaited(index: KnowledgeIndex, plan: Plan) -> Embedded:
    """Return what :func:`embedded` does, with a vector that is awaited on the event loop."""
    import asyncio  # noqa: PLC0415 - slow to import

    if plan.aembed is None or plan.settings.method == "keyword":
        return await asyncio.to_thread(embedded, index, plan)
    try:
        return Embedded(await plan.aembed())
    except Exception as error:  # noqa: BLE001 - raised below, unless keyword search answers
        return _failed(index, plan, error)


def _failed(index: KnowledgeIndex, plan: Plan, error: Exception) -> Embedded:
    """Return how the embedder failed, or raise it if the settings say so."""
    problem, embedder = str(error), index.embedding
    if embedder is not None and embedder.identity not in problem:
        problem = f"{embedder.identity} raised {type(error).__name__} on a question: {error}"
    if plan.settings.on_embedder_error == "raise":
        raised = question_error(problem, error)
        raise raised from raised.__cause__
    return Embedded(problem=f"{_NOT_EMBEDDED}: {problem}", failed=True)
