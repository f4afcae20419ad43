"""``GraphRAGStore``: an index as the long-term memory of LangGraph, a ``BaseStore``.

Needs the package ``langgraph``; the rest of the adapter needs ``langchain-core`` alone::

    from langgraph.store.base import BaseStore
    from langchain_graphrag.store import GraphRAGStore

    graph = builder.compile(store=GraphRAGStore(retriever))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import graphrag_core
from graphrag_core.errors import FilterError, InputError, optional_import
from graphrag_core.filters import matches, parse_all
from graphrag_core.ingest.validation import to_json
from graphrag_core.text import fingerprint
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


class GraphRAGStore(BaseStore):
    """Items of LangGraph's long-term memory in the index of a retriever.

    ``search`` with a query uses vectors, keywords and the knowledge graph over the texts of the items. Items are
    documents of the index, so that the retriever's filters apply to them. Other documents of the index are not items.

    Parameters
    ----------
    retriever
        Searches, and has the index that is written.
    metadata
        Metadata of every item, such as ``{"tenant": "a"}``, for a retriever that is restricted by it. Items of other
        metadata are neither replaced nor deleted.

    Notes
    -----
    ``put(..., index=["text"])`` names the fields that are searched, ``index=False`` stores without a text to search. A
    time to live is not supported.
    """

    def __init__(self, retriever: GraphRAGRetriever, *, metadata: Mapping[str, Any] | None = None) -> None:
        self.retriever, self.metadata = retriever, dict(metadata or {})

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in their order; the last of several writes of one key counts."""
        return [self._run(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async version of :meth:`batch`."""
        return await run_in_executor(None, self.batch, list(ops))

    def _run(self, op: Op) -> Result:
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, GetOp):
            return next(iter(self._items({f"{_KEY}.id": _id(op.namespace, op.key)})), None)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InputError(f"unknown operation {type(op).__qualname__}")

    def _put(self, op: PutOp) -> None:
        name = _id(op.namespace, op.key)
        index = self.retriever.index
        # The same item of others is another, and nobody can test by an id whether they have it.
        document_id = f"{_KEY}/{fingerprint([index.pipeline.salt(), name, to_json(self.metadata)])}"
        if op.value is None:
            self.retriever.delete([document_id])
            return
        before = index.get(document_id)
        now = datetime.now(timezone.utc).isoformat()
        stored = {
            "id": name,
            "key": op.key,
            "namespace": list(op.namespace),
            "prefixes": ["", *(_joined(op.namespace[:end]) for end in range(1, len(op.namespace) + 1))],
            "value": [[json.dumps(op.value)]],  # not for filters of the index: a value may have any form
            "created": before.metadata[_KEY]["created"] if before is not None else now,
            "updated": now,
        }
        text = _NO_TEXT if op.index is False else "\n".join(_texts(op.value, op.index)) or _NO_TEXT
        index.add([graphrag_core.Document(document_id, text, metadata={**self.metadata, _KEY: stored})])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        where = {f"{_KEY}.prefixes": _joined(op.namespace_prefix)}
        if op.query:
            try:
                hits = self.retriever.search(op.query, k=max(1, len(self.retriever.index)), where=where)
            except FilterError:  # there is no item yet
                return []
            scored = [(hit.chunk.metadata[_KEY], hit.score) for hit in hits]
            found = list({stored["id"]: (_item(stored), score) for stored, score in reversed(scored)}.values())[::-1]
        else:
            found = [(item, None) for item in sorted(self._items(where), key=lambda item: item.created_at)]
        kept = [(item, score) for item, score in found if matches(_where(op.filter), item.value)]
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in kept[op.offset : op.offset + op.limit]
        ]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {item.namespace for item in self._items({f"{_KEY}.prefixes": ""})}
        found = {one for one in found if all(_fits(one, condition) for condition in op.match_conditions or ())}
        cut = {one[: op.max_depth] if op.max_depth is not None else one for one in found}
        return sorted(cut)[op.offset : op.offset + op.limit]

    def _items(self, where: Mapping[str, Any]) -> Iterator[Item]:
        """Yield the items within the retriever's filter."""
        try:
            ids = self.retriever.index.document_ids(parse_all(self.retriever.scope, where))
        except FilterError:  # no document has such a key: there is no item yet
            return
        for document_id in ids:
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


def _joined(namespace: Iterable[str]) -> str:
    return _SEPARATOR.join(namespace)


def _id(namespace: Iterable[str], key: str) -> str:
    return _joined([*namespace, key])


def _texts(value: Any, paths: list[str] | None) -> Iterator[str]:
    """Yield the texts of a value that are searched: those at some paths, or all."""
    if paths is not None:
        found = (text for path in paths for text in get_text_at_path(value, tokenize_path(path)))
    elif isinstance(value, (Mapping, list)):
        inner = value.values() if isinstance(value, Mapping) else value
        found = (text for one in inner for text in _texts(one, None))
    else:
        found = (text for text in [value] if isinstance(text, str))
    yield from (text for text in found if text.strip())


def _where(filter: Mapping[str, Any] | None) -> dict[str, Any] | None:  # noqa: A002 - LangGraph's word
    return dict(filter) if filter else None


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
