"""What the retrievers of the adapters share: opening an index, a question, and methods that no framework defines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args

from typing_extensions import Self, Unpack, get_type_hints

from graphrag_core.context.expanded import Around
from graphrag_core.context.settings import ContextFormat
from graphrag_core.engine.address import shown
from graphrag_core.errors import InputError, NotAnIndex, unknown_name
from graphrag_core.filters import DOCUMENT_ID, Where, json_value, parse_all
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.ingest.edges import Edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.remembered import Time
from graphrag_core.ingest.titles import stated_title
from graphrag_core.model import Added, Document
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.fusion import Fusion, Gate
from graphrag_core.query.plan import Plan
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.routing import Router
from graphrag_core.query.settings import Method, SearchSettings
from graphrag_core.query.strategies.strategy import GraphStrategy
from graphrag_core.result import Hit, Result
from graphrag_core.retriever import Cache, GraphRetriever

CITATION = ("section", "page", "document_id")
"""The added metadata that belongs to the passage and can be cited."""

ADDED = (*CITATION, "score", "channels", "path", "graphrag")
"""What can be added to the metadata of a retrieved passage.

``section`` has the headings above it, ``document_id`` its source document, ``graphrag`` everything about the hit.
``path`` and ``graphrag`` take time, as they have to be explained.
"""

EXPLAINED = {"path", "graphrag"}
"""What of it is part of an explanation."""

_INDEX_OPTIONS = {**signature(KnowledgeIndex).parameters, **signature(KnowledgeIndex.open).parameters}
_NAMED = 5  # blank documents that a warning names
_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

Embed = Callable[[Any], Awaitable[Any]]
"""The coroutine function of an embedding model: it returns a vector for each text."""


class SettingOptions(TypedDict, total=False):
    """Settings of a question that the constructors and the questions of both adapters take by keyword.

    These classes are for type checkers and editors: an unknown keyword is an error. At run time ``SearchSettings``
    checks its fields.
    """

    method: Method | None
    k: int | None
    graph: GraphStrategy | None
    use_graph: bool | None
    gate: Gate | None
    recogniser: Recogniser | None
    router: Router | None
    fusion: Fusion | None
    reranker: Any
    candidates: int | None
    vector_weight: float | None
    score_threshold: float | None
    on_embedder_error: Literal["raise", "keyword"] | None
    context: ContextFormat | None
    expand: Around | None


class RetrieverOptions(SettingOptions, total=False):
    """Keywords of the retrievers of both adapters."""

    add_metadata: Iterable[str]
    cache: Cache | bool | None


class IndexOptions(TypedDict, total=False):
    """Keywords of the constructors of both adapters for the index, and the settings as one value."""

    settings: SearchSettings | None
    llm: Any
    chunker: Chunker | None
    extractor: Extractor | None
    embed_names: bool | None
    batch_size: int
    progress: bool | None
    edges: Edges | None
    read_only: bool


class SearchOptions(SettingOptions, total=False):
    """Keywords of a question in both adapters: settings, filters, and what ``GraphRetriever.retrieve`` takes."""

    similarity_top_k: int | None
    settings: SearchSettings | None
    where: Where | None
    filter: Any
    filters: Any
    node_ids: Sequence[str] | None
    doc_ids: Sequence[str] | None
    as_of: Time | None
    embedding: Iterable[float] | None
    history: Iterable[Any] | None
    count_access: bool
    explain: bool


class _Default:
    """A default value that is not shown."""

    def __repr__(self) -> str:
        return "..."


def with_keywords(method: _F) -> _F:
    """Show in ``help()`` the keywords of a method that ends with ``**settings: Unpack[Options]``, with their types.

    ``**of_parts`` stands for settings of parts, which are no names in Python: ``**{"gate.min_score": 0.3}``.
    """
    *given, settings = signature(method).parameters.values()
    options = get_type_hints(get_args(get_type_hints(method)[settings.name])[0])
    defaults: dict[str, Any] = {name: one.default for name, one in _INDEX_OPTIONS.items()}
    defaults |= {one.name: one.default for one in fields(SearchSettings)}
    shown = {name: value for name, value in defaults.items() if isinstance(value, (bool, int, str))}
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=shown.get(name, _Default()), annotation=kind)
        for name, kind in options.items()
        if name not in {one.name for one in given}
    ]
    parts = settings.replace(name="of_parts", annotation=Any)
    method.__signature__ = signature(method).replace(parameters=[*given, *keywords, parts])  # type: ignore[attr-defined]
    return method


def open_index(
    embedder: Embedder | None, path: str | Path | None, settings: Mapping[str, Any], *, must_exist: bool = False
) -> tuple[KnowledgeIndex, dict[str, Any]]:
    """Return the index in a folder or a database, or a new one in memory; and the settings that are not its own.

    A new index embeds names if the settings of the retriever need their vectors.

    Raises
    ------
    NotAnIndex
        There is no index, and it must exist.
    """
    if embedder is not None:
        CheckedEmbedder(embedder)  # raises before a folder is made
    others = dict(settings)
    options = {name: others.pop(name) for name in settings if name in _INDEX_OPTIONS and name != "settings"}
    exists = path is not None and KnowledgeIndex.exists(path)
    if not exists and embedder is not None and options.get("embed_names") is None:
        recogniser = others.get("recogniser") or getattr(others.get("settings"), "recogniser", None)
        options["embed_names"] = getattr(recogniser, "needs_name_vectors", False)
    if path is None:
        return KnowledgeIndex(embedder, **options), others
    if must_exist and not exists:
        raise NotAnIndex(f"there is no index in {shown(path)}: check the path, or use from_documents(..., path=...)")
    return KnowledgeIndex.open(path, embedder, **options), others


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


def to_core(document_id: str, text: str, metadata: Mapping[str, Any]) -> Document:
    """Return a document of a framework for the core: metadata as it is stored, raw HTML as its readable text.

    Markdown stays as it is. A title that the loader states comes before that of the page.
    """
    with suppress(TypeError, ValueError, RecursionError):  # the core reports what is wrong with it
        metadata = json_value(metadata, "metadata")  # so that what is unchanged is known again
    document = Document(document_id, text, metadata=metadata)
    if not text.lstrip().startswith("<"):
        return document
    from graphrag_core.text.html import readable  # noqa: PLC0415 - with the readers of all formats, slow to import

    document = readable(document)
    return replace(document, title="") if document.title and stated_title(metadata) else document


def checked_names(add_metadata: Iterable[str]) -> tuple[str, ...]:
    """Return the names of what is added to the metadata of retrieved passages, or raise :class:`InputError`."""
    if isinstance(add_metadata, str):
        raise InputError(f"add_metadata is {add_metadata!r}: use a list of names")
    names = tuple(add_metadata)
    for name in names:
        if name not in ADDED:
            raise InputError(unknown_name(str(name), ADDED, "name in add_metadata"))
    return names


def added_metadata(result: Result, hit: Hit, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is added to the metadata of a retrieved passage: what has one of the names, and is known.

    A passage of a document that was split has ``document_id`` also if that is not among the names, and one that an
    expansion query found has ``origin`` and ``graph_expansion``, as in design 002.
    """
    chunk = hit.chunk
    values: dict[str, Any] = {
        "section": " › ".join(chunk.headings) or None,
        "page": chunk.page,
        "document_id": chunk.document_id,
        "score": hit.score,
    }
    if "channels" in names:
        values["channels"] = {name: asdict(channel) for name, channel in hit.channels.items()}
    if "path" in names:
        values["path"] = [asdict(step) for step in hit.path]
    if "graphrag" in names:
        values["graphrag"] = result.details(hit)
    added = {name: values[name] for name in names if values[name] is not None}
    if chunk.id != chunk.document_id:
        added["document_id"] = chunk.document_id
    if hit.graph_expansion:
        added |= {"origin": hit.origin, "graph_expansion": hit.graph_expansion}
    return added


class AdapterRetriever:
    """The methods of an adapter's retriever that do not depend on its framework."""

    if TYPE_CHECKING:  # the adapter defines them, as attributes or properties
        _core: GraphRetriever
        index: Any
        settings: Any
        scope: Any
        add_metadata: Any

        def _plan(self, query: Any, given: Mapping[str, Any], *, awaits: bool = False) -> Plan:
            """Return a question of the framework with the settings that a caller gave; it may await the embedding."""

    # -- questions

    @with_keywords
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

    @with_keywords
    async def asearch(self, query: Any, **settings: Unpack[SearchOptions]) -> Result:
        """Async version of :meth:`search`: what the embedding model and a reranker can await is awaited."""
        return await self._core.arun(self._plan(query, settings, awaits=True))

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, within the retriever's :attr:`scope`; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """
        ask = partial(self.search, count_access=False)
        return self._core.warm_by(ask, questions, self.scope, background=background)

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

    def _add(self, documents: Sequence[Document], **given: Any) -> Added:
        """Add documents; skip those without text, delete their earlier versions, and log their names."""
        added: Added = self.index.add([document for document in documents if document.text.strip()], **given)
        blank = {document.id: _name(document) for document in documents if not document.text.strip()}
        if blank:
            deleted = self.index.delete(blank)
            named = ", ".join(list(blank.values())[:_NAMED])
            more = f" and {len(blank) - _NAMED} more" if len(blank) > _NAMED else ""
            gone = f"; earlier versions of {deleted} of them were deleted" if deleted else ""
            _log.warning("%d documents without text were skipped: %s%s%s", len(blank), named, more, gone)
        return added

    async def _aadd(
        self, documents: Sequence[Document], vectors: Mapping[str, Any], embed: Embed | None, **given: Any
    ) -> Added:
        """Async version of :meth:`_add`: texts are embedded by a coroutine function, if the model has one."""
        embeddings = {}
        if embed is not None:
            filled = [document for document in documents if document.text.strip()]
            embeddings = await self._aembed(await asyncio.to_thread(self.index.to_embed, filled, vectors), embed)
        return await asyncio.to_thread(self._add, documents, vectors=vectors, embeddings=embeddings, **given)

    async def _aembed(self, texts: Sequence[str], embed: Embed) -> dict[str, Any]:
        """Return the vectors of texts, by text."""
        vectors: dict[str, Any] = {}
        for start in range(0, len(texts), size := self.index.batch_size):
            batch = texts[start : start + size]
            vectors |= await self.index.embedding.awaited_documents(batch, embed(batch))
        return vectors


def _name(document: Document) -> str:
    """Return what the log calls a document: its id, and the file and page it comes from."""
    source, page = document.metadata.get("source"), document.metadata.get("page")
    where = [str(source)] * (source is not None) + [f"page {page}"] * (page is not None)
    return f"{document.id!r} ({', '.join(where)})" if where else repr(document.id)


def to_history(history: Any, message: type, text_of: Callable[[Any], str]) -> Any:
    """Return a conversation for :meth:`graphrag_core.GraphRetriever.retrieve`: messages of a framework as texts.

    ``text_of`` returns an empty text for a message that is left out, such as one of the system or of a tool.
    """
    if isinstance(history, (str, Result)) or not isinstance(history, Iterable):
        return history  # which is None, or refused
    turns = [text_of(turn) if isinstance(turn, message) else turn for turn in history]
    return [turn for turn in turns if turn != ""]


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
