"""``Gateway``: what both servers serve, to whom, and with which limits."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from typing_extensions import Self

from graphrag_apps.serve.errors import Refused
from graphrag_apps.serve.keys import ApiKeys, Key
from graphrag_core.deadline import check_deadline
from graphrag_core.errors import FilterError, InputError
from graphrag_core.filters import Filter, Internal, Where, asked_keys, mark_unknown, parse, parse_all
from graphrag_core.index import KnowledgeIndex
from graphrag_core.llm import as_chat_model
from graphrag_core.retriever import GraphRetriever

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine in the header ``Host``."""

_MAX_FIELDS = 100  # different metadata keys in the filter of a restricted caller


@dataclass(frozen=True)
class Limits:
    """What a request may cost. Times are in seconds."""

    body_bytes: int = 10_000_000
    unread_bytes: int = 64_000_000  # of all bodies that have not arrived whole
    receive_seconds: float = 30.0  # for the headers, the body, and a client that takes no part of its answer
    connections: int = 500  # that wait for a request or for their client; the longest waiting is closed for another
    question: int = 10_000  # characters
    k: int = 100
    workers: int = field(default_factory=lambda: min((os.cpu_count() or 1) + 2, 8))  # threads that search and write
    answers: int = 64  # of a language model at once; others wait
    seconds: float = 30.0
    answer_seconds: float = 300.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise InputError(f"the limit {one.name} is {value!r:.80}: use a number above 0")
            if not one.name.endswith("seconds") and value != int(value):
                raise InputError(f"the limit {one.name} is {value!r:.80}: use an integer")


class Gateway:
    """An index as it is served. The server closes the index when it ends.

    Parameters
    ----------
    index, retriever
        What is served, and what answers questions; by default a retriever with the default settings.
    keys, where
        The keys of callers; None serves everybody. A filter that narrows every key.
    llm
        Writes answers: anything that :func:`graphrag_apps.ask.ask` takes. Without one, answers show what comes nearest.
    write, limits
        Whether keys that may write can change the index, and what a request may cost.
    hosts
        The names that the header ``Host`` may have, such as ``"search.example.org"`` or ``"*.example.org"``. By default
        those of this machine if there are no keys, so that no web page reaches the server, and all of them otherwise.
    """

    def __init__(
        self,
        index: KnowledgeIndex,
        retriever: GraphRetriever | None = None,
        *,
        keys: ApiKeys | None = None,
        where: Where | None = None,
        llm: Any = None,
        write: bool = False,
        limits: Limits | None = None,
        hosts: Sequence[str] | None = None,
    ) -> None:
        self.index = index
        self.retriever = GraphRetriever(index) if retriever is None else retriever
        if self.retriever.index is not index:
            raise InputError("the retriever must search the index that is served: pass GraphRetriever(index)")
        self.keys = keys
        self.where = parse_all(where)
        self.llm = None if llm is None else as_chat_model(llm)
        self.write = write
        self.limits = Limits() if limits is None else limits
        self.hosts = hosts or (LOCAL if keys is None else ("*",))

    def authenticate(self, secret: str | None) -> Key:
        """Return the key of a secret, with the filter of the server. Raise ``Refused`` if there is none."""
        key = Key("anyone", write=True) if self.keys is None else self.keys.authenticate(secret)
        return replace(key, where=parse_all(self.where, key.where))

    def check_write(self, key: Key) -> None:
        """Raise ``Refused`` unless the server and the key may write."""
        if not self.write:
            raise Refused(403, "this server is read-only: start it with --write")
        if not key.write:
            raise Refused(403, f"the key {key.name!r} may read only")

    def check_question(self, question: str) -> None:
        """Raise ``Refused`` if a question is too long."""
        if len(question) > self.limits.question:
            raise Refused(413, f"the question has {len(question):,} characters: at most {self.limits.question:,}")

    def scope(self, key: Key, where: Where | None = None) -> Filter | None:
        """Return the filter of a request: that of the key, narrowed by that of the caller.

        A comparison with a field that no document in the key's filter has matches nothing: an answer does not tell
        whether other documents have it.
        """
        check_deadline()
        if where is None or key.where is None:
            return parse_all(key.where, where)
        asked = parse(where)
        names = asked_keys(asked)
        if len(names) > _MAX_FIELDS:
            raise FilterError(f"the filter asks for {len(names)} different fields: at most {_MAX_FIELDS} are possible")
        unknown = [name for name in names if not self._has_field(key.where, name)]
        return parse_all(key.where, mark_unknown(asked, unknown))

    def _has_field(self, scope: Filter, name: str) -> bool:
        found = self.index.documents(where=parse_all(scope, Internal(name, "exists", ())))
        return next(found, None) is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index."""
        self.index.close()
