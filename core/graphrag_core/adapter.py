"""What the retrievers of the adapters share: opening an index, a question, and methods that no framework defines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from typing_extensions import Self, Unpack

from graphrag_core.context.expanded import Around
from graphrag_core.engine.address import shown
from graphrag_core.errors import InputError, NotAnIndex
from graphrag_core.filters import DOCUMENT_ID, Where, parse_all
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import Time
from graphrag_core.ports import Embedder
from graphrag_core.query.plan import Plan
from graphrag_core.query.settings import Method, SearchSettings
from graphrag_core.result import Hit, Result, joined_hits
from graphrag_core.retriever import GraphRetriever

CITATION = ("section", "page", "document_id")
"""The added metadata that belongs to the passage and can be cited."""

ADDED = (*CITATION, "section_text", "score", "channels", "path", "graphrag")
"""What can be added to the metadata of a retrieved passage.

``section`` has the headings above it, ``document_id`` its source document, ``graphrag`` everything about the hit.
``section_text`` is the passage with those around it. It stays as it is itself. ``path`` and ``graphrag`` take time, as
they have to be explained.
"""

_INDEX_OPTIONS = {*signature(KnowledgeIndex).parameters, *signature(KnowledgeIndex.open).parameters} - {"settings"}
_NAMED = 5  # blank documents that a warning names
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class SettingOptions(TypedDict, total=False):
    """Settings of a question that the constructors and the questions of both adapters take by keyword."""

    settings: SearchSettings | None
    method: Method | None
    graph: Any
    use_graph: bool | None
    fusion: Any
    reranker: Any
    vector_weight: float | None
    score_threshold: float | None
    on_embedder_error: Literal["raise", "keyword"] | None
    context: Any
    expand: Around | None


class Options(SettingOptions, total=False):
    """Keywords of the constructors of both adapters: settings of a question, of a retriever and of an index.

    For type checkers: an unknown keyword is an error. At run time the values are checked where they are used, and all
    other fields of ``SearchSettings`` are taken too; in typed code they are a part of ``settings``.
    """

    add_metadata: Iterable[str]
    cache: Any
    refresh_every: float | None
    chunker: Any
    extractor: Any
    embed_names: bool | None
    batch_size: int
    edges: Any


class SearchOptions(SettingOptions, total=False):
    """Keywords of a question in both adapters: settings, filters, and what ``GraphRetriever.retrieve`` takes.

    For type checkers: an unknown keyword is an error. At run time each retriever checks its own. A number of a part,
    such as ``gate.min_score``, is in ``settings`` in typed code.
    """

    k: int | None
    similarity_top_k: int | None
    gate: Any
    recogniser: Any
    router: Any
    candidates: int | None
    where: Where | None
    filter: Any
    filters: Any
    node_ids: Sequence[str] | None
    doc_ids: Sequence[str] | None
    search_type: str
    fetch_k: int
    lambda_mult: float
    as_of: Time | None
    embedding: Iterable[float] | None
    history: Iterable[Any] | None
    count_access: bool
    explain: bool


def split_options(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a constructor that are settings of :class:`KnowledgeIndex`, and the others."""
    options = {name: value for name, value in keywords.items() if name in _INDEX_OPTIONS}
    return options, {name: value for name, value in keywords.items() if name not in options}


def open_index(
    embedder: Embedder | None,
    path: str | Path | None,
    fields: Mapping[str, Any],
    *,
    must_exist: bool = False,
    **options: Any,
) -> KnowledgeIndex:
    """Return the index in a folder or a database, or a new one in memory.

    A new index embeds names if the settings among the ``fields`` of the retriever need their vectors.

    Raises
    ------
    NotAnIndex
        There is no index, and it must exist.
    """
    exists = path is not None and KnowledgeIndex.exists(path)
    recogniser = fields.get("recogniser") or getattr(fields.get("settings"), "recogniser", None)
    if not exists and embedder is not None and options.get("embed_names") is None and recogniser is not None:
        options["embed_names"] = recogniser.needs_name_vectors
    if path is None:
        return KnowledgeIndex(embedder, **options)
    if must_exist and not exists:
        raise NotAnIndex(f"there is no index in {shown(path)}: check the path, or use from_documents(..., path=...)")
    return KnowledgeIndex.open(path, embedder, **options)


@contextmanager
def closed_on_error(opened: AdapterRetriever | KnowledgeIndex) -> Iterator[None]:
    """Close what was opened if the block raises."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def overrides(value: object, base: type, *methods: str) -> bool:
    """Return whether the class of an object implements one of some methods in another way than a base class.

    The default coroutines of the frameworks block the event loop, or run the plain method in a thread.
    """
    defaults = {name: getattr(base, name) for name in methods if hasattr(base, name)}
    return any(getattr(type(value), name, own) is not own for name, own in defaults.items())


def checked_names(add_metadata: Iterable[str]) -> tuple[str, ...]:
    """Return the names of what is added to the metadata of retrieved passages, or raise :class:`InputError`."""
    names = () if isinstance(add_metadata, str) else tuple(add_metadata)
    if isinstance(add_metadata, str):
        raise InputError(f"add_metadata is {add_metadata!r}: use a list of names")
    for name in names:
        if name not in ADDED:
            near = get_close_matches(str(name), ADDED, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(ADDED)}"
            raise InputError(f"add_metadata has {name!r}: {hint}")
    return names


def needs_explanation(names: Iterable[str]) -> bool:
    """Return whether something that is added to the metadata is part of an explanation."""
    return "path" in names or "graphrag" in names


def returned_hits(result: Result, names: tuple[str, ...] = ()) -> tuple[Hit, ...]:
    """Return the hits of a result as an adapter returns them.

    With the setting ``expand`` the text of a hit is that of its expanded passage, and hits whose passages overlap are
    one. If ``section_text`` is added to the metadata, every hit keeps its text.
    """
    if "section_text" not in names:
        return joined_hits(result.hits)
    is_read = all(hit.expanded is not None for hit in result.hits)
    return (result if is_read else result.expand("section")).hits


def added_metadata(result: Result, hit: Hit, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is added to the metadata of a retrieved passage: what has one of the names, and is known.

    A passage of a document that was split has ``document_id`` also if that is not among the names, and one that an
    expansion query found has ``origin`` and ``graph_expansion``, as in document 002.
    """
    chunk = hit.chunk
    expansion = {"origin": hit.origin, "graph_expansion": hit.graph_expansion} if hit.graph_expansion else {}
    if chunk.id != chunk.document_id and "document_id" not in names:
        names = (*names, "document_id")
    values: dict[str, Any] = {
        "section": " › ".join(chunk.headings) or None,
        "page": chunk.page,
        "document_id": chunk.document_id,
        "score": hit.score,
    }
    if "section_text" in names:
        values["section_text"] = hit.expanded and hit.expanded.text
    if "channels" in names:
        values["channels"] = {name: asdict(channel) for name, channel in hit.channels.items()}
    if "path" in names:
        values["path"] = [asdict(step) for step in hit.path]
    if "graphrag" in names:
        values["graphrag"] = result.details(hit)
    return expansion | {name: values[name] for name in names if values[name] is not None}


def to_history(history: Any, message: type, text_of: Callable[[Any], str]) -> Any:
    """Return a conversation for :meth:`graphrag_core.GraphRetriever.retrieve`: messages of a framework as texts.

    ``text_of`` returns an empty text for a message that is left out, such as one of the system or of a tool.
    """
    if isinstance(history, (str, Result)) or not isinstance(history, Iterable):
        return history  # which is None, or refused
    turns = [text_of(turn) if isinstance(turn, message) else turn for turn in history]
    return [turn for turn in turns if turn != ""]


class AdapterRetriever:
    """The methods of an adapter's retriever that do not depend on its framework."""

    if TYPE_CHECKING:  # the adapter defines them, as attributes or properties
        _core: GraphRetriever
        index: Any
        settings: Any
        scope: Any

        def _plan(self, query: Any, given: Mapping[str, Any]) -> Plan:
            """Return a question of the framework with the settings that a caller gave."""

    # -- questions

    def search(self, query: Any, **settings: Unpack[SearchOptions]) -> Result:
        """Return the core's result: hits with scores and paths, facts, ``context()``, ``explain()``.

        Parameters
        ----------
        query
            The question, in the form that the framework's own method takes.
        settings
            The settings of the framework's own method: fields of :class:`graphrag_core.SearchSettings`, filters, and
            ``as_of``, ``history``, ``count_access`` and ``explain`` of :meth:`graphrag_core.GraphRetriever.retrieve`.
            Turns of ``history`` may be messages of the framework: those of the user and the assistant count.
        """
        return self._core.run(self._plan(query, settings))

    async def asearch(self, query: Any, **settings: Unpack[SearchOptions]) -> Result:
        """Async version of :meth:`search`: what the embedding model and a reranker can await is awaited."""
        return await self._core.arun(self._plan(query, settings))

    def facts_about(self, texts: Iterable[str]) -> list[str]:
        """Return the facts that connect entities named in the texts, within the retriever's :attr:`scope`."""
        return [fact.text for fact in self._core.facts_about(texts, where=self.scope)]

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, within the retriever's :attr:`scope`; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """

        def ask(question: str) -> Result:
            return self._core.run(replace(self._plan(question, {"count_access": False}), finish=None))

        return self._core.warm_by(ask, questions, self.scope, background=background)

    async def awarm(self, questions: Iterable[str]) -> int:
        """Run questions in advance as :meth:`asearch` would, which may embed them in another way; return how many."""
        return len([await self.asearch(question, count_access=False) for question in questions])

    # -- the index

    def refresh(self) -> bool:
        """Let a read-only retriever see what another process wrote since; return whether anything was."""
        return self._core.refresh()

    def close(self) -> None:
        """Save the index and release its locks and files. Closing twice does nothing."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _in_scope(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of documents that exist within the :attr:`scope`, in the order given."""
        wanted, scope = list(dict.fromkeys(ids)), self.scope
        if scope is None:
            return [document_id for document_id in wanted if document_id in self.index]
        found = set(self.index.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": wanted}})))
        return [document_id for document_id in wanted if document_id in found]

    def _drop_blank(self, names: Mapping[str, str]) -> None:
        """Delete earlier versions of documents that have no text any more, and log what was skipped.

        ``names`` are what the log calls them, by id.
        """
        if not names:
            return
        deleted = self.index.delete(names)
        named = ", ".join(list(names.values())[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        gone = f"; earlier versions of {deleted} of them were deleted" if deleted else ""
        _log.warning("%d documents without text were skipped: %s%s%s", len(names), named, more, gone)


def changed_settings(settings: SearchSettings) -> dict[str, Any]:
    """Return the fields of settings that differ from the default, for the ``repr`` of a retriever."""
    default = SearchSettings()
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


# -- vector stores


def by_class_name(store: object, readers: Mapping[str, _T]) -> _T | None:
    """Return the reader for the class of a store or for one of its parents. By name, so that no store is imported."""
    return next((readers[kind.__name__] for kind in type(store).__mro__ if kind.__name__ in readers), None)


def chroma_rows(page: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield id, text, metadata and vector of each entry that ``get`` of a Chroma collection returned."""
    columns = (page[name] for name in ("documents", "metadatas", "embeddings"))
    nothing = [None] * len(page["ids"])
    return zip(page["ids"], *(nothing if column is None else column for column in columns), strict=True)


def qdrant_points(client: Any, collection: str, **options: Any) -> Iterator[Any]:
    """Yield the points of a Qdrant collection, page by page; ``options`` are those of ``client.scroll``."""
    offset = None
    while True:
        points, offset = client.scroll(collection, offset=offset, **options)
        yield from points
        if offset is None:
            return
