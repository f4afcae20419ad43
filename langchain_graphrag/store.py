"""``GraphRAGStore``: an index as the long-term memory of LangGraph, a ``BaseStore``.

Needs the package ``langgraph``; the rest of the adapter needs ``langchain-core`` alone::

    from langgraph.store.base import BaseStore
    from langchain_graphrag.store import GraphRAGStore

    graph = builder.compile(store=GraphRAGStore(retriever))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any, cast

import graphrag_core
from graphrag_core.errors import InputError, optional_import
from graphrag_core.filters import Condition, Filter, Internal, Where, matches, parse, parse_all
from graphrag_core.ingest.validation import to_json
from graphrag_core.query.per_request import OfRequest, filter_or_metadata, per_request
from graphrag_core.text import fingerprint
from langchain_graphrag.request import current_request
from langchain_graphrag.retriever import GraphRAGRetriever

with optional_import("langgraph", "langchain", "langchain_graphrag.store"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
        tokenize_path,
    )

from langchain_core.runnables.config import run_in_executor

__all__ = ["GraphRAGStore"]

_KEY = "langgraph"  # of the metadata of an item
_SEPARATOR = "\x1f"  # between the labels of a namespace; no label has it
_NO_TEXT = "(no text)"
_MORE = 4  # times as many passages are searched if some are of the same item, or the filter drops some


class GraphRAGStore(BaseStore):
    """Items of LangGraph's long-term memory in the index of a retriever.

    ``search`` with a query uses vectors, keywords and the knowledge graph over the texts of the items. Items are
    documents of the index, so that the retriever's filters apply to them. Other documents of the index are not items.
    ``put(..., index=["text"])`` names the fields that are searched, ``index=False`` stores without a text to search. A
    time to live is not supported.

    Parameters
    ----------
    retriever
        Searches, and has the index that is written.
    metadata
        Metadata of every item, such as ``{"tenant": "a"}``, for a retriever that is restricted by it. Items of other
        metadata are neither replaced nor deleted. If one graph serves all users, a function of the request in which the
        store is called, as for :class:`~langchain_graphrag.agents.RetrieveMiddleware`.
    filter
        Narrows the retriever's filter for all that reads: a filter, or a function of the request. If ``metadata`` is a
        function, it is the filter too, unless there is another one.
    """

    def __init__(
        self,
        retriever: GraphRAGRetriever,
        *,
        metadata: Mapping[str, Any] | OfRequest | None = None,
        filter: Where | OfRequest | None = None,  # noqa: A002 - LangChain's word
    ) -> None:
        self.retriever = retriever
        where = filter_or_metadata(filter, metadata)
        self._scope_of = per_request(where, "filter of GraphRAGStore", partial(parse_all, retriever.scope))
        self._metadata_of = per_request(metadata, "metadata of GraphRAGStore", lambda given: dict(given or {}))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations as LangGraph's own store does: reads see what was there before the batch.

        Of several writes of one key the last counts. All items are written at once.

        Raises
        ------
        InputError
            An operation is unknown, a value is not a mapping, or a function finds no user in the request; nothing was
            written.
        """
        listed = list(ops)
        puts = [op for op in listed if isinstance(op, PutOp)]
        for op in puts:
            if op.value is not None and not isinstance(op.value, Mapping):
                raise InputError(
                    f"the value of {op.key!r} in {op.namespace!r} is {op.value!r:.60}: store a mapping such as "
                    "{'text': ...}"
                )
        request = current_request()
        items = _Items(self.retriever, self._scope_of(request), self._metadata_of(request))
        results = [None if isinstance(op, PutOp) else items.read(op) for op in listed]
        if puts:
            items.write(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async version of :meth:`batch`."""
        return await run_in_executor(None, self.batch, list(ops))


@dataclass(frozen=True)
class _Items:
    """The items that a request may read, and the metadata of those that it writes."""

    retriever: GraphRAGRetriever
    scope: Filter | None
    metadata: Mapping[str, Any]

    def read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return next(iter(self._items(_has("id", _joined([*op.namespace, op.key])))), None)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InputError(f"unknown operation {type(op).__qualname__}")

    def write(self, puts: Sequence[PutOp]) -> None:
        index, now = self.retriever.index, datetime.now(timezone.utc).isoformat()
        salt, own = index.pipeline.salt(), to_json(self.metadata)
        # The same item of others is another, and nobody can test by an id whether they have it.
        last = {f"{_KEY}/{fingerprint([salt, _joined([*op.namespace, op.key]), own])}": op for op in puts}
        kept = {document_id: op for document_id, op in last.items() if op.value is not None}
        created = {
            document_id: document.metadata[_KEY]["created"]
            for document_id in index.engine.stored(list(kept))
            if (document := index.get(document_id)) is not None
        }
        index.add([self._document(name, op, created.get(name, now), now) for name, op in kept.items()])
        if deleted := last.keys() - kept.keys():
            self.retriever.delete(sorted(deleted))

    def _document(self, document_id: str, op: PutOp, created: str, updated: str) -> graphrag_core.Document:
        value = dict(op.value or {})
        stored = {
            "id": _joined([*op.namespace, op.key]),
            "key": op.key,
            "namespace": list(op.namespace),
            "prefixes": ["", *(_joined(op.namespace[:end]) for end in range(1, len(op.namespace) + 1))],
            "value": [[json.dumps(value)]],  # not for filters of the index: a value may have any form
            "created": created,
            "updated": updated,
        }
        text = _NO_TEXT if op.index is False else "\n".join(_texts(value, op.index)) or _NO_TEXT
        return graphrag_core.Document(document_id, text, metadata={**self.metadata, _KEY: stored})

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self._ranked(op) if op.query else self._listed(op)
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in found[op.offset : op.offset + op.limit]
        ]

    def _listed(self, op: SearchOp) -> list[tuple[Item, float | None]]:
        """Return the items below a namespace, in the order of their creation."""
        found = sorted(self._items(_has("prefixes", _joined(op.namespace_prefix))), key=lambda item: item.created_at)
        return [(item, None) for item in found if matches(op.filter or None, item.value)]

    def _ranked(self, op: SearchOp) -> list[tuple[Item, float | None]]:
        """Return the items that answer a query, best first: as many as are wanted, or all."""
        where, wanted = parse_all(self.scope, _has("prefixes", _joined(op.namespace_prefix))), op.offset + op.limit
        k = max(1, wanted)
        while True:
            hits = self.retriever.search(str(op.query), k=k, where=where).hits
            best: dict[str, tuple[Item, float | None]] = {}
            for hit in hits:  # an item may have several passages
                stored = hit.chunk.metadata[_KEY]
                best.setdefault(stored["id"], (_item(stored), hit.score))
            found = [(item, score) for item, score in best.values() if matches(op.filter or None, item.value)]
            if len(found) >= wanted or len(hits) < k:
                return found
            k *= _MORE

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        spaces = {item.namespace for item in self._items(_has("prefixes", ""))}
        conditions = op.match_conditions or ()
        shown = {space[: op.max_depth] for space in spaces if all(_fits(space, condition) for condition in conditions)}
        return sorted(shown)[op.offset : op.offset + op.limit]

    def _items(self, where: Filter) -> Iterator[Item]:
        """Yield the items within the filters."""
        for document_id in self.retriever.index.document_ids(parse_all(self.scope, where)):
            if (document := self.retriever.index.get(document_id)) is not None:
                yield _item(document.metadata[_KEY])


def _item(stored: Mapping[str, Any]) -> Item:
    return Item(
        value=json.loads(stored["value"][0][0]),
        key=stored["key"],
        namespace=tuple(stored["namespace"]),
        created_at=datetime.fromisoformat(stored["created"]),
        updated_at=datetime.fromisoformat(stored["updated"]),
    )


def _has(name: str, value: str) -> Filter:
    """Return a filter for the items with a value. Nobody is told if there is no item yet."""
    checked = cast("Condition", parse({f"{_KEY}.{name}": value}))
    return Internal(checked.key, checked.operator, checked.values)


def _joined(labels: Iterable[str]) -> str:
    return _SEPARATOR.join(labels)


def _texts(value: Any, paths: list[str] | None) -> Iterator[str]:
    """Yield the texts of a value that are searched: those at some paths, or all."""
    if paths is not None:
        found = (text for path in paths for text in get_text_at_path(value, tokenize_path(path)))
    elif isinstance(value, (Mapping, list)):
        inner = value.values() if isinstance(value, Mapping) else value
        found = (text for part in inner for text in _texts(part, None))
    else:
        found = (text for text in [value] if isinstance(text, str))
    yield from (text for text in found if text.strip())


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
