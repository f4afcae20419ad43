"""``Gateway``: the one place that authorises a request, narrows its filter, limits it, and calls the core.

Its operations are methods that take a key and typed, documented parameters: the HTTP routes and the MCP tools are made
from them. They do the work and may take long; ``await gateway.run(...)`` runs one in a bounded pool of
threads. Both servers, and the pages that they serve, reach the index through this class only.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import Field
from typing_extensions import Self

from graphrag_apps.ask import AnswerStream, Citation, ask_stream
from graphrag_apps.explore.explorer import find_entity, strongest
from graphrag_apps.serve import models as api
from graphrag_apps.serve.errors import (
    Conflict,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TimeLimit,
    TooLarge,
    Unavailable,
)
from graphrag_apps.serve.keys import ApiKeys, Key, make_key
from graphrag_apps.serve.limits import Limits, RateLimits, ThreadPool, WaitingAnswer, closing
from graphrag_core import filters
from graphrag_core.deadline import check_deadline, deadline
from graphrag_core.designs import DESIGNS
from graphrag_core.errors import DeadlineExceeded, FilterError, GraphRAGError, IdTaken, InputError, check_integer
from graphrag_core.filters import DOCUMENT_ID, Filter, Internal, Where
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import visible
from graphrag_core.model import Added, Document, Entity, FactSource
from graphrag_core.ports import Snapshot
from graphrag_core.result import Result
from graphrag_core.retriever import GraphRetriever

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_ALL = 1 << 40  # more entities than there are
_MAX_FACTS = 50  # of one entity
_MAX_PASSAGES = 5  # of one entity
_MAX_FIELDS = 100  # of a filter
_LIKE_A_PASSAGE = re.compile(r"#\d+\Z")  # how the ids of passages end
_UNKNOWN_PER_MINUTE = 60  # API keys of one address that are answered with status 401
_ABANDONED = 4  # threads per answer allowed, as a language model that writes nothing cannot be interrupted


class Gateway:
    """Answers requests of clients that hold an API key.

    Its operations raise :class:`NotFound` for things outside the scope of the key, :class:`NotAllowed` if the key may
    not write, :class:`TooLarge` and ``InputError`` for arguments beyond the limits.

    Parameters
    ----------
    index
        The index. The gateway closes it.
    retriever
        Searches the index; by default with its default settings.
    keys
        The API keys. None for a server that needs none: every client sees ``where``.
    llm
        Writes answers: whatever :meth:`GraphRetriever.ask <graphrag_core.GraphRetriever.ask>` takes. Without one, an
        answer consists of sentences of the passages.
    limits
        What a request may use.
    where
        A filter that narrows every request, of every key.
    write
        Whether documents and facts may be written, by keys that may write.
    refresh_every
        For an index that another process writes: the number of seconds after which a request lets the index see what
        was written. None for never.
    clock
        Returns the time in seconds, for rate limits and ``refresh_every``.
    """

    def __init__(
        self,
        index: KnowledgeIndex,
        retriever: GraphRetriever | None = None,
        *,
        keys: ApiKeys | None = None,
        llm: Any = None,
        limits: Limits | None = None,
        where: Where | None = None,
        write: bool = False,
        refresh_every: float | None = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.index = index
        self.retriever = retriever or GraphRetriever(index)
        if self.retriever.index is not index:
            raise InputError("the retriever must search the index of the gateway")
        if write and index.read_only:
            raise InputError("the index is open for reading: open it for writing, or leave write out")
        self.keys = keys
        self.llm = llm
        self.limits = limits or Limits()
        self.write = write
        self.anonymous = make_key("anonymous", where, write=write)
        self.refresh_every = refresh_every
        self.closing = False
        self._clock = clock
        self._rates, self._unknown = RateLimits(clock), RateLimits(clock)
        self._refreshed = clock()
        self._refreshing = threading.Lock()
        self._pool = ThreadPool("search", self.limits.workers, self.limits.waiting)
        self._writer = ThreadPool("write", 1, self.limits.waiting)
        self.pools = {"search": self._pool, "write": self._writer}
        self._lock = threading.Lock()
        self._answers: set[WaitingAnswer] = set()
        self._readers = 0  # threads that read a language model

    # -- who may do what

    def identify(self, secret: str | None, address: str = "") -> Key:
        """Return the key of a secret.

        Raises :class:`NotAuthenticated`, or :class:`TooManyRequests` if its address has sent too many unknown keys. A
        valid key is never refused for that: other clients may have the same address.
        """
        try:
            return self.anonymous if self.keys is None else self.keys.authenticate(secret)
        except NotAuthenticated:
            if secret:
                refusal = "the API key is unknown, and this address may send {:g} unknown keys per minute"
                self._unknown.count(address, _UNKNOWN_PER_MINUTE, refusal)
            raise

    def authenticate(self, secret: str | None, address: str = "") -> Key:
        """Return the key of a secret, narrowed by ``where``, and count the request against its rate limit.

        Raises as :meth:`identify` does, and :class:`TooManyRequests` if the key sends too many requests.
        """
        key = self.identify(secret, address)
        if key is not self.anonymous:
            key = replace(key, where=filters.parse_all(self.anonymous.where, key.where))
        rate = key.requests_per_minute or self.limits.requests_per_minute
        if rate is not None:
            self._rates.count(key.name, rate)
        return key

    def scope(self, key: Key, where: Where | None = None) -> Filter | None:
        """Return the filter of a request: both the API key's filter and the caller's must match."""
        if where is None:
            return key.where
        parsed = filters.parse(where)
        return parsed if key.where is None else filters.parse_all(key.where, self._marked(parsed, key.where))

    def _marked(self, parsed: Filter, within: Filter | None = None) -> Filter:
        """Return a filter whose comparisons with fields that no document has match nothing.

        Only documents within a scope count: a caller cannot find out which fields other documents have.
        """
        names = filters.asked_keys(parsed)
        if len(names) > _MAX_FIELDS:
            raise FilterError(f"the filter has {len(names):,} different fields: at most {_MAX_FIELDS} are possible")

        def is_known(name: str) -> bool:
            check_deadline()
            scope = filters.parse_all(within, Internal(name, "exists", ()))
            return next(iter(self.index.engine.document_ids(scope)), None) is not None

        unknown = [name for name in names if not is_known(name)]
        return filters.mark_unknown(parsed, unknown) if unknown else parsed

    def may_write(self, key: Key) -> None:
        """Raise :class:`NotAllowed` unless the key may write to the index of this server."""
        if not self.write:
            raise NotAllowed("this server does not change documents: start it with --write")
        if not key.write:
            raise NotAllowed("this API key may read only: use one that was created with --write")

    # -- limits

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run a function in a thread, when one is free, and return what it returns.

        A function that is cancelled while it waits, since its client went away, does not run. Raises
        :class:`Unavailable` if too many requests wait, or :class:`TimeLimit`.
        """
        until = time.monotonic() + self.limits.seconds

        def limited() -> _T:
            with deadline(until):
                check_deadline()  # it may have waited for a thread
                self._refresh()
                return work()

        return await self._run(self._pool, self.limits.seconds, limited)

    async def run_write(self, key: Key, work: Callable[[], _T]) -> _T:
        """Run a function that changes the index, one after the other. Raises as :meth:`run` does, or ``NotAllowed``.

        A change is not cut off in the middle: it has no deadline.
        """
        self.may_write(key)
        return await self._run(self._writer, self.limits.write_seconds, work)

    async def _run(self, pool: ThreadPool, seconds: float, work: Callable[[], _T]) -> _T:
        if self.closing:
            raise closing()
        job = pool.submit(work)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), seconds)
        except (DeadlineExceeded, TimeoutError, asyncio.TimeoutError) as error:
            failure = job.exception() if job.done() and not job.cancelled() else None
            if failure is not None and not isinstance(failure, DeadlineExceeded):
                raise failure from None  # a time limit of an embedder, for example
            state = "" if job.cancelled() or pool is not self._writer else "; the change goes on"
            raise TimeLimit(f"the request took longer than {seconds:g} seconds{state}", retry_after=1) from error

    def _refresh(self) -> None:
        """Let the index see what other processes wrote, if that is due."""
        due = self.refresh_every is not None and self._clock() - self._refreshed >= self.refresh_every
        if due and self.index.read_only and self._refreshing.acquire(blocking=False):
            try:
                self._refreshed = self._clock()
                self.retriever.refresh()
            except GraphRAGError as error:  # the state that was read before is still there
                _log.warning("the index is not refreshed: %s", error)
            finally:
                self._refreshing.release()

    def check_question(self, question: str, k: int | None = None) -> None:
        """Raise unless a question and the number of passages are within the limits."""
        if len(question) > self.limits.question:
            raise TooLarge(f"the question has {len(question):,} characters: at most {self.limits.question:,}")
        if k is not None and k > self.limits.k:
            raise InputError(f"k is {k}: this server allows at most {self.limits.k}")

    def _checked_limit(self, limit: int) -> int:
        return check_integer(limit, "limit", most=10 * self.limits.k)

    # -- questions

    def retrieve(
        self,
        key: Key,
        question: api.Question,
        *,
        where: api.Where = None,
        history: api.History = None,
        as_of: api.AsOf = None,
        design: api.Design = None,
        set: api.Changes = None,  # noqa: A002 - as the option of the command line
        **settings: Any,
    ) -> Result:
        """Return the result of a question within the scope of a key. ``settings`` are search settings."""
        settings = self._changed(settings, set)
        self.check_question(question, settings.get("k"))
        return self.retriever.retrieve(
            question, where=self.scope(key, where), history=history, as_of=as_of,
            settings=DESIGNS.get(design or ""), **settings,
        )  # fmt: skip

    def _changed(self, settings: dict[str, Any], changes: api.Changes) -> dict[str, Any]:
        """Return search settings with changes by path. Whole numbers of JSON are integers."""
        for name, value in (changes or {}).items():
            if name in ("k", "candidates") or (name in settings and settings[name] is not None):
                raise InputError(f"{name} cannot be changed by set: use the field of the request, if it has one")
            settings = {**settings, name: int(value) if isinstance(value, float) and value.is_integer() else value}
        return settings

    def query(
        self, key: Key, question: api.Question, *, context_tokens: api.ContextTokens = None, **arguments: Any
    ) -> api.QueryResponse:
        """Return the passages for a question, best first, with the reason for each.

        ``arguments`` are those of :meth:`retrieve`.
        """
        result = self.retrieve(key, question, explain=True, **arguments)
        return api.QueryResponse(**_response(result, context_tokens))

    def explain(
        self, key: Key, question: api.Question, *, context_tokens: api.ContextTokens = None, **arguments: Any
    ) -> api.ExplainResponse:
        """Return the passages for a question, best first, and a report for a person."""
        result = self.retrieve(key, question, explain=True, **arguments)
        return api.ExplainResponse(**_response(result, context_tokens), explanation=result.explain())

    async def answer(
        self, key: Key, question: api.Question, **arguments: Any
    ) -> AsyncGenerator[str | api.AskResponse, None]:
        """Yield the pieces of an answer as they are written, then the whole answer with its citations.

        The pieces are read from the language model in a thread, and wait here for the client. Close the iterator to
        stop the language model. ``arguments`` are those of :meth:`ask`.
        """
        where, settings = arguments.pop("where", None), DESIGNS.get(arguments.pop("design", None) or "")
        arguments = self._changed(arguments, arguments.pop("set", None))

        def search() -> AnswerStream:
            """Search the passages. The stream that is returned calls the language model."""
            scope = self.scope(key, where)
            return ask_stream(self.retriever, question, self.llm, where=scope, settings=settings, **arguments)

        self.check_question(question, arguments.get("k"))
        answer, most = WaitingAnswer(asyncio.get_running_loop()), self.limits.answer_seconds
        with self._lock:
            if self.closing:
                raise closing()
            if len(self._answers) >= self.limits.answers or self._readers >= _ABANDONED * self.limits.answers:
                raise Unavailable("too many answers are being written: try again in a moment", retry_after=2)
            self._answers.add(answer)
        until = answer.loop.time() + most
        try:
            answer.stream = await self.run(search)
            with self._lock:
                self._readers += 1
            answer.start(self._count_ended_reader)
            while True:
                try:
                    piece = await asyncio.wait_for(answer.pieces.get(), max(until - answer.loop.time(), 0.0))
                except (TimeoutError, asyncio.TimeoutError) as error:
                    raise TimeLimit(f"the answer took longer than {most:g} seconds", retry_after=1) from error
                if isinstance(piece, BaseException):
                    raise piece
                if not isinstance(piece, str):
                    yield api.AskResponse.model_validate(piece)
                    return
                yield piece
        finally:
            answer.stop()
            with self._lock:
                self._answers.discard(answer)

    async def ask(
        self, key: Key, question: api.Question, *, answer_threshold: api.AnswerThreshold = None, **arguments: Any
    ) -> api.AskResponse:
        """Return the whole answer to a question, with its citations. ``arguments`` are those of :meth:`retrieve`."""
        async with aclosing(self.answer(key, question, answer_threshold=answer_threshold, **arguments)) as pieces:
            answer = [piece async for piece in pieces][-1]
        assert not isinstance(answer, str)  # noqa: S101 - the last one is the whole answer
        return answer

    def _count_ended_reader(self) -> None:
        """Count a thread that ended. One whose client went away ends when the language model writes or times out."""
        with self._lock:
            self._readers -= 1

    # -- documents

    def documents(
        self,
        key: Key,
        *,
        where: api.Where = None,
        after: Annotated[str | None, Field(description="The field next of the page before.")] = None,
        limit: api.Limit = 100,
    ) -> api.DocumentPage:
        """List documents in order of id, without their texts."""
        limit = self._checked_limit(limit)
        scope = filters.parse_all(self.scope(key, where), None if after is None else {DOCUMENT_ID: {"gt": after}})
        listed: list[api.DocumentSummary] = []
        for document_id in self.index.engine.document_ids(scope):
            check_deadline()
            document = self._inside(key, document_id)
            if document is None:
                continue
            if len(listed) == limit:
                return api.DocumentPage(documents=listed, next=listed[-1].id)
            characters, metadata = len(document.text), dict(document.metadata)
            summary = api.DocumentSummary(
                id=document.id, title=document.title, metadata=metadata, characters=characters
            )
            listed.append(summary)
        return api.DocumentPage(documents=listed)

    def document(self, key: Key, document_id: str) -> api.DocumentValue:
        """Return a document as it was added."""
        document = self._inside(key, document_id)
        if document is None:
            raise _no_document(document_id)
        return api.DocumentValue.model_validate(document)

    def _inside(self, key: Key, document_id: str) -> Document | None:
        """Return a document if it is within the scope of a key: the very state of it that is returned."""
        document = self.index.get(document_id)
        return document if document is not None and self._matches(key, document) else None

    def _matches(self, key: Key, document: Document) -> bool:
        scope = None if key.where is None else self._marked(key.where)
        return filters.matches(scope, document.metadata, document.id)

    def add(
        self, key: Key, documents: Annotated[list[api.DocumentValue], Field(min_length=1, max_length=1_000)]
    ) -> Added:
        """Add documents, all or none; replace those whose id exists. Needs --write and a key that may write.

        A document gets the fields that the filter of the key demands, and is refused if its metadata contradicts them.
        With such a key, a new id must not end like that of a passage, with # and a number.
        """
        self.may_write(key)
        stamped = [Document(one.id, one.text, one.title, key.stamp(one.metadata, one.id)) for one in documents]
        for document in stamped:
            existing = self.index.get(document.id)
            if existing is None:  # the same answer whether or not a document of others has such a passage
                usable = not (key.restricted and _LIKE_A_PASSAGE.search(document.id))
            else:
                usable = self._matches(key, existing)
            if not usable:
                raise _unusable_id(document.id)
        try:
            return self.index.add(stamped, progress=False)
        except IdTaken as error:
            taken = str(error.document_id)
            if not key.restricted:
                raise
            raise _unusable_id(taken if taken in {one.id for one in stamped} else taken.rpartition("#")[0]) from error

    def delete(self, key: Key, document_id: str) -> api.DeleteResponse:
        """Delete a document with its passages, entities and facts. Needs --write and a key that may write."""
        self.may_write(key)
        if self._inside(key, document_id) is None or not self.index.delete(document_id):
            raise _no_document(document_id)
        return api.DeleteResponse(deleted=1)

    def remember(
        self, key: Key, *, metadata: api.Metadata = None, source: FactSource = "user_edit", **fact: Any
    ) -> api.FactValue:
        """Remember a fact. Needs --write and a key that may write.

        ``fact`` are the ``FACT_ARGUMENTS`` of :mod:`graphrag_core.query.memory_tool`.
        """
        self.may_write(key)
        stored = self.index.memory.remember(**fact, source=source, metadata=key.stamp(metadata or {}))
        return api.FactValue.model_validate(stored)

    # -- the graph

    def entities(
        self,
        key: Key,
        *,
        prefix: Annotated[str, Field(max_length=1_000, description="What a name begins with, in any case.")] = "",
        type: Annotated[str | None, Field(description="Only entities of this type.")] = None,  # noqa: A002
        limit: api.Limit = 100,
        where: api.Where = None,
    ) -> api.EntityList:
        """List entities, the most mentioned first."""
        limit, scope = self._checked_limit(limit), self.scope(key, where)
        return api.EntityList(entities=self.index.graph.entities(prefix, type=type, limit=limit, where=scope))

    def entity(self, key: Key, name: api.EntityName, *, where: api.Where = None) -> api.EntityResponse:
        """Return an entity with its strongest facts and some passages about it."""
        with self._snapshot(self.scope(key, where)) as snapshot:
            entry = find_entity(snapshot, name)
            if entry is None:
                raise _no_entity(name)
            keys, entity = entry
            facts = strongest(snapshot, snapshot.facts_of(keys))
            chunks = snapshot.chunks(snapshot.neighbours(keys, to="chunks", limit=_MAX_PASSAGES).targets)
            return api.EntityResponse(
                entity=entity,
                facts=[api.FactValue.model_validate(fact) for fact in snapshot.facts(facts[:_MAX_FACTS])],
                more_facts=max(0, len(facts) - _MAX_FACTS),
                passages=[Citation.of(number, chunk) for number, chunk in enumerate(chunks[:_MAX_PASSAGES], 1)],
            )

    def _snapshot(self, scope: Filter | None) -> AbstractContextManager[Snapshot]:
        return self.index.engine.snapshot(visible(self.index.engine, scope, time.time()))

    def neighbours(
        self, key: Key, name: api.EntityName, *, offset: api.Offset = 0, limit: api.Limit = 50, where: api.Where = None
    ) -> api.NeighboursResponse:
        """Return the entities that share facts with an entity, strongest first."""
        limit, scope = self._checked_limit(limit), self.scope(key, where)
        entity = self._known(name, scope)
        related = self.index.graph.neighbours(name, where=scope)
        page = [api.Neighbour(entity=other, weight=weight) for other, weight in related[offset : offset + limit]]
        return api.NeighboursResponse(entity=entity, neighbours=page, total=len(related))

    def path(
        self,
        key: Key,
        start: api.EntityName,
        end: api.EntityName,
        *,
        max_hops: api.MaxHops = 4,
        where: api.Where = None,
    ) -> api.PathResponse:
        """Return the shortest path between two entities, by the facts that join them."""
        scope = self.scope(key, where)
        for name in (start, end):
            self._known(name, scope)
        path = self.index.graph.find_path(start, end, max_hops=max_hops, where=scope)
        return api.PathResponse(found=False) if path is None else api.PathResponse.model_validate(path)

    def _known(self, name: str, scope: Filter | None) -> Entity:
        entity = self.index.graph.entity(name, where=scope)
        if entity is None:
            raise _no_entity(name)
        return entity

    def communities(
        self,
        key: Key,
        *,
        limit: api.Limit = 50,
        where: api.Where = None,
    ) -> api.CommunityList:
        """Return the themes of the collection, the largest first. The limit holds for members of a theme, too."""
        limit, scope = self._checked_limit(limit), self.scope(key, where)
        found = self.index.graph.communities(where=scope)[:limit]
        return api.CommunityList(communities=[replace(one, members=one.members[:limit]) for one in found])

    def stats(self, key: Key, *, where: api.Where = None) -> api.StatsResponse:
        """Return the size of what the key sees."""
        scope = self.scope(key, where)
        if scope is None:
            return api.StatsResponse.model_validate(self.index.stats())
        with self._snapshot(scope) as snapshot:
            keys = snapshot.top_entities(_ALL)
            return api.StatsResponse(
                documents=sum(1 for _ in self.index.engine.document_ids(scope)),
                chunks=snapshot.chunk_count,
                entities=len(keys),
                facts=len(snapshot.facts_of(keys)),
                top_entities=[(entity.name, entity.mentions) for entity in snapshot.entities(keys[:10])],
            )

    # -- start and end

    @property
    def load(self) -> dict[str, int]:
        """How many searches, writes and answers run or wait."""
        return {"searches": self._pool.jobs, "writes": self._writer.jobs, "answers": len(self._answers)}

    def begin_shutdown(self) -> None:
        """Refuse new requests and end the answers that are being written. Running searches and writes go on."""
        with self._lock:
            self.closing = True
            answers = list(self._answers)
        for answer in answers:
            answer.put(closing())

    def close(self) -> None:
        """Wait for running work, and close the index. Closing twice does nothing."""
        self.begin_shutdown()
        self._pool.close()
        self._writer.close()
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _response(result: Result, context_tokens: int | None) -> dict[str, Any]:
    """Return the fields of a response to a question."""
    same = api.QueryResponse.model_fields.keys() - {"hits", "context"}
    return {
        **{name: getattr(result, name) for name in same},
        "hits": [hit.to_dict() for hit in result.hits],
        "context": None if context_tokens is None else str(result.context(context_tokens)),
    }


def _unusable_id(document_id: str) -> Conflict:
    return Conflict(f"the id {document_id!r:.200} cannot be used: choose another one")


def _no_document(document_id: str) -> NotFound:
    return NotFound(f"there is no document {document_id!r:.200}: list the documents for their ids")


def _no_entity(name: str) -> NotFound:
    return NotFound(f"there is no entity {name!r:.200}: list the entities, or search for passages instead")
