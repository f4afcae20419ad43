"""``Plan``: one question with its settings and scope, as every caller passes it on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from graphrag_core.filters import Filter
from graphrag_core.ports import Matrix
from graphrag_core.query.conversation import Turn
from graphrag_core.query.settings import ResolvedSettings


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
