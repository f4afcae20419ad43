"""What the retrievers of the adapters share: opening an index, the scope, and methods that no framework defines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from graphrag_core.engine.address import shown
from graphrag_core.errors import NotAnIndex
from graphrag_core.filters import DOCUMENT_ID, Filter, parse_all
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ports import Embedder
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.settings import SearchSettings
from graphrag_core.result import Result
from graphrag_core.retriever import GraphRetriever

CALL_ARGUMENTS = frozenset(signature(GraphRetriever.retrieve).parameters) - {"self", "question", "overrides"}
"""The arguments of a question that are no fields of :class:`~graphrag_core.SearchSettings`, such as ``as_of``."""

_INDEX_OPTIONS = {*signature(KnowledgeIndex).parameters, *signature(KnowledgeIndex.open).parameters} - {"settings"}
_NAMED = 5  # blank documents that a warning names
_log = logging.getLogger(__name__)


def split_options(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a constructor that are settings of :class:`KnowledgeIndex`, and the others."""
    options = {name: value for name, value in keywords.items() if name in _INDEX_OPTIONS}
    return options, {name: value for name, value in keywords.items() if name not in options}


def open_index(
    embedder: Embedder | None, path: str | Path | None, *, must_exist: bool = False, **options: Any
) -> KnowledgeIndex:
    """Return the index in a folder or a database, or a new one in memory.

    Raises
    ------
    NotAnIndex
        There is no index, and it must exist.
    """
    if path is None:
        return KnowledgeIndex(embedder, **options)
    if must_exist and not KnowledgeIndex.exists(path):
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


class AdapterRetriever:
    """The methods of an adapter's retriever that do not depend on its framework."""

    if TYPE_CHECKING:  # the adapter defines them, as attributes or properties
        _core: GraphRetriever
        index: Any
        settings: Any
        scope: Any

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
        arguments = {**self._call_defaults(), "settings": self.settings, "where": self.scope}
        return self._core.warm(questions, background=background, **arguments)

    def refresh(self) -> bool:
        """Let a read-only retriever see what another process wrote since; return whether anything was."""
        return self._core.refresh()

    async def arefresh(self) -> bool:
        """Async version of :meth:`refresh`."""
        return await asyncio.to_thread(self.refresh)

    def close(self) -> None:
        """Save the index and release its locks and files. Closing twice does nothing."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call_defaults(self) -> dict[str, Any]:
        """Return the arguments that the retriever passes with each question."""
        return {}

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

    def _settings_with(self, given: Mapping[str, Any]) -> SearchSettings:
        """Return the settings of a call, which may have other arguments too."""
        settings: SearchSettings = given.get("settings") or self.settings
        return settings.replace(**{name: value for name, value in given.items() if name not in CALL_ARGUMENTS})

    def _retrieve_result(self, question: str, given: Mapping[str, Any], where: Filter | None) -> Result:
        """Search with the arguments of a call, within ``where``."""
        arguments = {name: value for name, value in given.items() if name in CALL_ARGUMENTS}
        arguments |= {"settings": self._settings_with(given), "where": parse_all(where, given.get("where"))}
        return self._core.retrieve(question, explain=True, **{**self._call_defaults(), **arguments})

    def _needs_vector(self, question: str, given: Mapping[str, Any]) -> bool:
        """Return whether a search embeds the question."""
        is_blank = isinstance(question, str) and not question.strip()
        return self.index.embedding is not None and self._settings_with(given).method != "keyword" and not is_blank

    async def _avector(
        self, question: str, given: Mapping[str, Any], embed: Callable[[], Awaitable[Any]] | None
    ) -> Any:
        """Return the vector of a question or the exception; None if the search needs none, or embeds the question.

        ``embed`` is the coroutine of the embedding model, if it has one.
        """
        if not self._needs_vector(question, given):
            return None
        try:
            if embed is not None:
                return self.index.embedding.checked_query(await embed())
            if isinstance(self._settings_with(given).reranker, ScoreReranker):  # the search may run twice
                return await asyncio.to_thread(self.index.embedding.query, question)
        except Exception as error:  # noqa: BLE001 - the search raises it, or falls back to keywords
            return error
        return None
