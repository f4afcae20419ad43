"""``Gateway``: the one place that authorises a request, narrows its filter, limits it, and calls the core.

The methods without ``async`` do the work and may take long; ``await gateway.run(key, method, ...)`` runs one of them
in a bounded pool of threads. Both servers, and the pages that they serve, reach the index through this class only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np
from typing_extensions import ParamSpec, Self

from graphrag_core.errors import GraphRAGError, InputError
from graphrag_core.filters import (
    DOCUMENT_ID,
    Condition,
    Filter,
    Group,
    Where,
    matches,
    optional,
    parse,
    required_keys,
    unknown_key,
)
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.told_facts import visible
from graphrag_core.model import Document, Entity, Fact, FactSource
from graphrag_core.result import Result
from graphrag_core.retriever import GraphRetriever
from graphrag_core.serve import models as api
from graphrag_core.serve.errors import Conflict, NotAllowed, NotFound, TimeLimit, TooLarge, TooManyRequests, Unavailable
from graphrag_core.serve.keys import ApiKeys, Key, make_key
from graphrag_core.text import normalise

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_ALL = 1 << 40  # more entities than there are
_MAX_FACTS = 50  # of one entity
_MAX_PASSAGES = 5  # of one entity
_ABANDONED = 4  # threads per answer allowed, as a language model that writes nothing cannot be interrupted
_PIECES = 1_000_000  # characters of an answer that wait for a slow client


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, one key and all requests together may use.

    Parameters
    ----------
    body_bytes
        The size of a request's body.
    question
        The length of a question, in characters.
    k
        The number of passages; also of entities and documents, times ten.
    workers
        How many threads search. By default the number of CPUs and two more, at most 8.
    waiting
        How many requests wait for a thread before others are refused with status 503.
    answers
        How many answers of a language model are written at once.
    seconds
        How long a request may wait and run.
    answer_seconds, write_seconds
        The same for an answer of a language model and for a change of documents.
    requests_per_minute
        The rate limit of a key that has none; None for no limit.
    """

    body_bytes: int = 10_000_000
    question: int = 10_000
    k: int = 100
    workers: int = min(8, (os.cpu_count() or 2) + 2)
    waiting: int = 500
    answers: int = 64
    seconds: float = 30.0
    answer_seconds: float = 300.0
    write_seconds: float = 300.0
    requests_per_minute: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "requests_per_minute" and value is None:
                continue
            least = 0 if one.name == "waiting" else 1
            if isinstance(value, bool) or not isinstance(value, (int, float)) or (value < least and value <= 0):
                raise InputError(f"the limit {one.name} is {value!r}: use a number of at least {least}")


class _Pool:
    """Threads, and a queue of limited length. A job that is cancelled while it waits does not run."""

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self.most = workers + waiting
        self.jobs = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=f"graphrag-{name}")

    def submit(self, function: Callable[[], _T]) -> Future[_T]:
        with self._lock:
            if self.jobs >= self.most:
                raise Unavailable("the server is busy: try again in a moment", retry_after=1)
            self.jobs += 1
        try:
            job = self._threads.submit(function)
        except RuntimeError as error:
            self._ended(None)
            raise Unavailable("the server is closing: try again later", retry_after=5) from error
        job.add_done_callback(self._ended)
        return job

    def _ended(self, _: object) -> None:
        with self._lock:
            self.jobs -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


class _Rates:
    """A token bucket for each key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, name: str, per_minute: float) -> None:
        """Count a request, or raise."""
        most = max(1.0, per_minute)
        with self._lock:
            now = self._clock()
            left, at = self._left.get(name, (most, now))
            left = min(most, left + (now - at) * per_minute / 60)
            allowed = left >= 1
            self._left[name] = (left - 1 if allowed else left, now)
        if not allowed:
            wait = (1 - left) * 60 / per_minute
            raise TooManyRequests(f"this key may send {per_minute:g} requests per minute: wait", retry_after=wait)


class Gateway:
    """Answers requests of clients that hold an API key.

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
        self._where = self.anonymous.where
        self._clock = clock
        self._rates = _Rates(clock)
        self._refreshed = clock()
        self._refreshing = threading.Lock()
        self._pool = _Pool("search", self.limits.workers, self.limits.waiting)
        self._writer = _Pool("write", 1, self.limits.waiting)
        self._lock = threading.Lock()
        self._answers: set[_Answer] = set()
        self._readers = 0  # threads that read a language model

    # -- who may do what

    def authenticate(self, secret: str | None) -> Key:
        """Return the key of a secret, and count the request against its rate limit.

        Raises
        ------
        NotAuthenticated, TooManyRequests
            The key is unknown, or sends too many requests.
        """
        key = self.anonymous if self.keys is None else self.keys.authenticate(secret)
        if key is not self.anonymous and self._where is not None:
            own = self._where if key.where is None else Group(all=True, parts=(self._where, key.where))
            key = Key(key.name, own, key.write, key.requests_per_minute)
        rate = key.requests_per_minute or self.limits.requests_per_minute
        if rate is not None:
            self._rates.count(key.name, rate)
        return key

    def scope(self, key: Key, where: Where | None = None) -> Filter | None:
        """Return the filter of a request: that of the key and, within it, that of the caller.

        Raises
        ------
        FilterError
            The caller's filter is malformed, or has a field that no document within the scope of the key has.
        """
        if where is None:
            return key.where
        parsed = parse(where)
        if key.where is None:
            return parsed
        if self._has_documents(key.where):
            for name in required_keys(parsed):
                if not self._has_documents(Group(all=True, parts=(key.where, Condition(name, "exists", ())))):
                    raise unknown_key(name, '{"exists": true}')
        return Group(all=True, parts=(key.where, optional(parsed)))

    def _has_documents(self, scope: Filter) -> bool:
        return next(iter(self.index.engine.document_ids(scope)), None) is not None

    def may_write(self, key: Key) -> None:
        """Raise :class:`NotAllowed` unless the key may write to the index of this server."""
        if not self.write:
            raise NotAllowed("this server does not change documents: start it with --write")
        if not key.write:
            raise NotAllowed("this API key may read only: use one that was created with --write")

    # -- limits

    async def run(self, key: Key, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in a thread, when one is free, and return what it returns.

        A function that is cancelled while it waits, since its client went away, does not run.

        Raises
        ------
        Unavailable, TimeLimit
            Too many requests wait, the server is closing, or the function took too long.
        """
        del key  # for callers: whoever runs something has authenticated
        return await self._run(self._pool, self.limits.seconds, lambda: self._fresh(function, *args, **kwargs))

    async def run_write(self, key: Key, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function that changes the index, one after the other.

        Raises
        ------
        NotAllowed, Unavailable, TimeLimit
            The key may not write, too many changes wait, or the change took too long.
        """
        self.may_write(key)
        return await self._run(self._writer, self.limits.write_seconds, lambda: function(*args, **kwargs))

    async def _run(self, pool: _Pool, seconds: float, function: Callable[[], _T]) -> _T:
        if self.closing:
            raise Unavailable("the server is closing: try again later", retry_after=5)
        job = pool.submit(function)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), seconds)
        except (TimeoutError, asyncio.TimeoutError) as error:
            if job.done() and not job.cancelled() and (own := job.exception()) is not None:
                raise own from None  # a time limit of what was called, such as an embedder
            state = "" if job.cancelled() or pool is not self._writer else "; the change goes on"
            raise TimeLimit(f"the request took longer than {seconds:g} seconds{state}", retry_after=1) from error

    def _fresh(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Let the index see what other processes wrote, if that is due; call a function."""
        due = self.refresh_every is not None and self._clock() - self._refreshed >= self.refresh_every
        if due and self.index.read_only and self._refreshing.acquire(blocking=False):
            try:
                self._refreshed = self._clock()
                self.retriever.refresh()
            except GraphRAGError as error:  # what was read before is still there
                _log.warning("the index is not refreshed: %s", error)
            finally:
                self._refreshing.release()
        return function(*args, **kwargs)

    def _check(self, question: str, k: int | None) -> None:
        if len(question) > self.limits.question:
            raise TooLarge(f"the question has {len(question):,} characters: at most {self.limits.question:,}")
        if k is not None and k > self.limits.k:
            raise InputError(f"k is {k}: this server allows at most {self.limits.k}")

    def _checked_limit(self, limit: int) -> int:
        most = 10 * self.limits.k
        if not 1 <= limit <= most:
            raise InputError(f"the limit is {limit}: use a number from 1 to {most}")
        return limit

    # -- questions

    def retrieve(self, key: Key, request: api.QueryRequest | api.AskRequest) -> Result:
        """Return the result of a question within the scope of a key."""
        self._check(request.question, request.k)
        given = request.model_dump(
            include={"k", "method", "use_graph", "seed_entities", "exclude", "score_threshold", "as_of"}
        )
        settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return self.retriever.retrieve(request.question, where=self.scope(key, request.where), **settings)

    def query(self, key: Key, request: api.QueryRequest) -> api.QueryResponse:
        """Return the passages for a question."""
        return api.QueryResponse(**self._response(request, self.retrieve(key, request)))

    def explain(self, key: Key, request: api.QueryRequest) -> api.ExplainResponse:
        """Return the passages for a question, and a report for a person."""
        result = self.retrieve(key, request)
        return api.ExplainResponse(**self._response(request, result), explanation=result.explain())

    def explain_page(self, key: Key, request: api.QueryRequest) -> str:
        """Return a page that explains a result, as HTML."""
        return self.retrieve(key, request).html()

    @staticmethod
    def _response(request: api.QueryRequest, result: Result) -> dict[str, Any]:
        tokens = request.context_tokens
        return {
            "question": result.question,
            "method": result.method,
            "hits": hits_of(result),
            "entities": [entity_value(entity) for entity in result.entities],
            "facts": [fact_value(fact) for fact in result.facts],
            "communities": [community_value(one) for one in getattr(result, "communities", ())],
            "confidence": result.graph_confidence,
            "graph_ran": result.graph_ran,
            "route": result.route,
            "expansion_skipped": result.expansion_skipped,
            "fallback": result.fallback,
            "advice": result.advice,
            "context": None if tokens is None else str(result.context(tokens)),
        }

    async def answer(self, key: Key, request: api.AskRequest) -> AsyncGenerator[str | api.AskResponse, None]:
        """Yield the pieces of an answer as they are written, then the whole answer with its citations.

        The pieces are read from the language model in a thread, and wait here for the client. Close the iterator to
        stop the language model.

        Raises
        ------
        LLMError
            The language model failed.
        Unavailable, TimeLimit
            Too many answers are being written, the server is closing, or the answer took too long.
        """
        self._check(request.question, request.k)
        answer = _Answer(asyncio.get_running_loop())
        with self._lock:
            if self.closing:
                raise Unavailable("the server is closing: try again later", retry_after=5)
            if len(self._answers) >= self.limits.answers or self._readers >= _ABANDONED * self.limits.answers:
                raise Unavailable("too many answers are being written: try again in a moment", retry_after=2)
            self._answers.add(answer)
        until = answer.loop.time() + self.limits.answer_seconds
        try:
            answer.stream = await self.run(key, self._open_answer, key, request)
            with self._lock:
                self._readers += 1
            answer.start(self._read)
            while True:
                left = until - answer.loop.time()
                try:
                    piece = await asyncio.wait_for(answer.pieces.get(), max(left, 0.0))
                except (TimeoutError, asyncio.TimeoutError) as error:
                    most = self.limits.answer_seconds
                    raise TimeLimit(f"the answer took longer than {most:g} seconds", retry_after=1) from error
                if isinstance(piece, BaseException):
                    raise piece
                if not isinstance(piece, str):
                    yield answer_value(piece)
                    return
                yield piece
        finally:
            answer.stop()
            with self._lock:
                self._answers.discard(answer)

    def _open_answer(self, key: Key, request: api.AskRequest) -> Any:
        """Search the passages of an answer. The stream that is returned calls the language model."""
        given = request.model_dump(include={"k", "method", "seed_entities", "exclude"})
        settings = {name: value for name, value in given.items() if value is not None}
        return self.retriever.ask_stream(request.question, self.llm, where=self.scope(key, request.where), **settings)

    def _read(self) -> None:
        """Count a thread that ended. One whose client went away ends when the language model writes or times out."""
        with self._lock:
            self._readers -= 1

    # -- documents

    def documents(
        self, key: Key, *, where: Where | None = None, after: str | None = None, limit: int = 100
    ) -> api.DocumentPage:
        """Return documents in order of id, without their texts."""
        limit = self._checked_limit(limit)
        parts = [part for part in (self.scope(key, where),) if part is not None]
        if after is not None:
            parts.append(parse({DOCUMENT_ID: {"gt": after}}))
        scope = Group(all=True, parts=tuple(parts)) if parts else None
        found: list[api.DocumentSummary] = []
        for document_id in self.index.engine.document_ids(scope):
            document = self._inside(key, document_id)
            if document is None:
                continue
            if len(found) == limit:
                return api.DocumentPage(documents=found, next=found[-1].id)
            found.append(
                api.DocumentSummary(
                    id=document.id,
                    title=document.title,
                    metadata=dict(document.metadata),
                    characters=len(document.text),
                )
            )
        return api.DocumentPage(documents=found)

    def document(self, key: Key, document_id: str) -> api.DocumentValue:
        """Return a document.

        Raises
        ------
        NotFound
            There is none with this id within the scope of the key.
        """
        document = self._inside(key, document_id)
        if document is None:
            raise _no_document(document_id)
        return api.DocumentValue(
            id=document.id, text=document.text, title=document.title, metadata=dict(document.metadata)
        )

    def _inside(self, key: Key, document_id: str) -> Document | None:
        """Return a document if it is within the scope of a key: the very state of it that is returned."""
        document = self.index.get(document_id)
        return document if document is not None and matches(key.where, document.metadata, document.id) else None

    def add(self, key: Key, documents: Iterable[api.NewDocument]) -> api.AddResponse:
        """Add documents within the scope of a key, all or none.

        Raises
        ------
        NotAllowed
            The key may not write, or the metadata of a document contradicts its filter.
        Conflict
            The id of a document is taken outside of the scope of the key.
        """
        self.may_write(key)
        stamped = [Document(one.id, one.text, one.title, key.stamp(one.metadata, one.id)) for one in documents]
        for document in stamped:
            existing = self.index.get(document.id)
            if existing is not None and not matches(key.where, existing.metadata, existing.id):
                raise Conflict(f"the id {document.id!r} cannot be used: choose another one")
        added = self.index.add(stamped, progress=False)
        return api.AddResponse(
            added=added.added, replaced=added.replaced, unchanged=added.unchanged, problems=dict(added.problems)
        )

    def delete(self, key: Key, document_id: str) -> api.DeleteResponse:
        """Delete a document.

        Raises
        ------
        NotAllowed, NotFound
            The key may not write, or there is no such document within its scope.
        """
        self.may_write(key)
        if self._inside(key, document_id) is None or not self.index.delete(document_id):
            raise _no_document(document_id)
        return api.DeleteResponse(deleted=1)

    def remember(self, key: Key, fact: api.FactRequest, source: FactSource = "user_edit") -> api.FactValue:
        """Store a fact within the scope of a key."""
        self.may_write(key)
        told = self.index.memory.remember(
            fact.subject, fact.relation, fact.object, literal=fact.literal, supersedes=fact.supersedes, source=source,
            valid_from=fact.valid_from, valid_to=fact.valid_to, confidence=fact.confidence,
            metadata=key.stamp(fact.metadata),
        )  # fmt: skip
        return fact_value(told)

    # -- the graph

    def entities(
        self,
        key: Key,
        prefix: str = "",
        *,
        type: str | None = None,  # noqa: A002 - the usual word
        limit: int = 100,
        where: Where | None = None,
    ) -> api.EntityList:
        """Return entities, the most mentioned first."""
        limit = self._checked_limit(limit)
        found = self.index.graph.entities(prefix, type=type, limit=limit, where=self.scope(key, where))
        return api.EntityList(entities=[entity_value(entity) for entity in found])

    def entity(self, key: Key, name: str, *, where: Where | None = None) -> api.EntityResponse:
        """Return an entity with its strongest facts and some passages about it.

        Raises
        ------
        NotFound
            There is no such entity within the scope of the key.
        """
        with self.index.engine.snapshot(visible(self.index.engine, self.scope(key, where), time.time())) as snapshot:
            keys = np.array(list(snapshot.find_entities([normalise(name)]).values()), np.int64)
            if len(keys) == 0:
                raise _no_entity(name)
            facts = snapshot.facts_of(keys)
            order = np.lexsort((snapshot.id_order("facts", facts), -snapshot.fact_rows(facts).weights))
            passages = snapshot.neighbours(keys, to="chunks", limit=_MAX_PASSAGES).targets
            return api.EntityResponse(
                entity=entity_value(snapshot.entities(keys)[0]),
                facts=[fact_value(fact) for fact in snapshot.facts(facts[order[:_MAX_FACTS]])],
                more_facts=max(0, len(facts) - _MAX_FACTS),
                passages=[
                    api.PassageValue(
                        chunk_id=chunk.id, document_id=chunk.document_id, title=chunk.title,
                        headings=list(chunk.headings), page=chunk.page, text=chunk.text,
                    )
                    for chunk in snapshot.chunks(passages[:_MAX_PASSAGES])
                ],
            )  # fmt: skip

    def neighbours(
        self, key: Key, name: str, *, offset: int = 0, limit: int = 50, where: Where | None = None
    ) -> api.NeighboursResponse:
        """Return the entities that share facts with an entity, strongest first."""
        limit, scope = self._checked_limit(limit), self.scope(key, where)
        if offset < 0:
            raise InputError(f"the offset is {offset}: use a number of at least 0")
        entity = self._known(name, scope)
        related = self.index.graph.neighbours(name, where=scope)
        return api.NeighboursResponse(
            entity=entity_value(entity),
            neighbours=[
                api.NeighbourValue(entity=entity_value(other), weight=weight)
                for other, weight in related[offset : offset + limit]
            ],
            total=len(related),
        )

    def path(
        self, key: Key, start: str, end: str, *, max_hops: int = 4, where: Where | None = None
    ) -> api.PathResponse:
        """Return the shortest path between two entities."""
        if not 1 <= max_hops <= 10:
            raise InputError(f"max_hops is {max_hops}: use a number from 1 to 10")
        scope = self.scope(key, where)
        for name in (start, end):
            self._known(name, scope)
        path = self.index.graph.find_path(start, end, max_hops=max_hops, where=scope)
        if path is None:
            return api.PathResponse(found=False)
        return api.PathResponse(
            found=True,
            entities=[entity_value(entity) for entity in path.entities],
            facts=[fact_value(fact) for fact in path.facts],
        )

    def _known(self, name: str, scope: Filter | None) -> Entity:
        entity = self.index.graph.entity(name, where=scope)
        if entity is None:
            raise _no_entity(name)
        return entity

    def communities(
        self, key: Key, *, level: int | None = None, limit: int = 50, where: Where | None = None
    ) -> api.CommunityList:
        """Return the themes of the collection, the largest first."""
        limit = self._checked_limit(limit)
        found = self.index.graph.communities(level, where=self.scope(key, where))
        return api.CommunityList(communities=[community_value(one) for one in found[:limit]])

    def stats(self, key: Key, *, where: Where | None = None) -> api.StatsResponse:
        """Return the size of what a key sees, within the filter of the caller."""
        scope = self.scope(key, where)
        if scope is None:
            stats = self.index.stats()
            own = ("documents", "chunks", "entities", "facts", "embedder", "generation", "bytes_on_disk")
            return api.StatsResponse(
                **{name: getattr(stats, name) for name in own}, top_entities=list(stats.top_entities)
            )
        engine = self.index.engine
        with engine.snapshot(visible(engine, scope, time.time())) as snapshot:
            keys = snapshot.top_entities(_ALL)
            top = snapshot.entities(keys[:10])
            return api.StatsResponse(
                documents=sum(1 for _ in engine.document_ids(scope)),
                chunks=snapshot.chunk_count,
                entities=len(keys),
                facts=len(snapshot.facts_of(keys)),
                top_entities=[(entity.name, entity.mentions) for entity in top],
            )

    # -- start and end

    def warm(self) -> None:
        """Begin to compute what the first requests would wait for: the graph in memory, and the communities."""

        def prepare() -> None:
            try:
                if self._where is None and not self.closing:
                    self.index.graph.communities()
            except GraphRAGError as error:
                _log.warning("the communities could not be computed: %s", error)

        self._pool.submit(prepare)

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
            answer.put(Unavailable("the server is closing: try again later", retry_after=5))

    def close(self) -> None:
        """Wait for what runs, and close the index. Closing twice does nothing."""
        self.begin_shutdown()
        self._pool.close()
        self._writer.close()
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Answer:
    """An answer that a thread reads from a language model, and that waits in a queue for its client."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pieces: asyncio.Queue[Any] = asyncio.Queue()
        self.stream: Any = None
        self._stopped = threading.Event()
        self._waiting = 0  # characters in the queue, by the thread's count
        self._thread: threading.Thread | None = None

    def start(self, ended: Callable[[], None]) -> None:
        """Read the language model in a thread; call a function when the thread ends."""
        # A daemon: a language model that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._read, args=(ended,), name="graphrag-answer", daemon=True)
        self._thread.start()

    def _read(self, ended: Callable[[], None]) -> None:
        try:
            for piece in self.stream:
                self._waiting += len(piece)
                if self._stopped.is_set() or self._waiting > _PIECES:
                    break
                self.put(piece)
            else:
                self.put(self.stream.answer)
                return
            self.put(TooLarge(f"the answer has more than {_PIECES:,} characters"))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
            self.put(error)
        finally:
            with suppress(Exception):
                self.stream.close()
            ended()

    def put(self, piece: Any) -> None:
        """Hand something to the client, from any thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)

    def stop(self) -> None:
        """Stop the language model: at once if it is not being read, else with its next piece."""
        self._stopped.set()
        if self.stream is not None:
            with suppress(Exception):  # ValueError while the thread reads it
                self.stream.close()


# -- values of the core as values of the API


def entity_value(entity: Entity) -> api.EntityValue:
    """Return an entity for a response."""
    return api.EntityValue(**{**asdict(entity), "aliases": list(entity.aliases)})


def fact_value(fact: Fact) -> api.FactValue:
    """Return a fact for a response."""
    return api.FactValue(
        id=fact.id, text=fact.text, entities=list(fact.entities), relation=fact.relation, value=fact.value,
        weight=fact.weight, confidence=fact.confidence, source=fact.source, status=fact.status, chunk_id=fact.chunk_id,
        valid_from=fact.valid_from, valid_to=fact.valid_to,
    )  # fmt: skip


def hits_of(result: Result) -> list[api.HitValue]:
    """Return the hits of a result for a response."""
    return [
        api.HitValue(
            number=number,
            chunk_id=hit.chunk.id,
            document_id=hit.chunk.document_id,
            title=hit.chunk.title,
            headings=list(hit.chunk.headings),
            page=hit.chunk.page,
            text=hit.chunk.text,
            score=hit.score,
            metadata=dict(hit.chunk.metadata),
            origin=hit.origin,
            channels={
                name: api.ChannelValue(rank=channel.rank, score=channel.score, share=channel.share)
                for name, channel in hit.channels.items()
            },
            path=[api.StepValue(kind=step.kind, id=step.id, text=step.text) for step in hit.path],
            copies=list(hit.copies),
        )
        for number, hit in enumerate(result.hits, 1)
    ]


def community_value(community: Any) -> api.CommunityValue:
    """Return a community for a response."""
    parent = community.parent
    return api.CommunityValue(
        id=str(community.id), level=community.level, parent=None if parent is None else str(parent),
        name=community.name, names=list(community.names), entities=community.entities, documents=community.documents,
        description=community.description, sentences=list(community.sentences),
    )  # fmt: skip


def answer_value(answer: Any) -> api.AskResponse:
    """Return an answer for a response."""
    return api.AskResponse(
        question=answer.question,
        text=answer.text,
        kind=answer.kind,
        cited=answer.cited,
        citations=[
            api.CitationValue(
                number=one.number, document_id=one.document_id, chunk_id=one.chunk_id, title=one.title,
                section=one.section or "", page=one.page, text=one.text,
            )
            for one in answer.citations
        ],
        unknown_citations=list(answer.unknown_citations),
    )  # fmt: skip


def _no_document(document_id: str) -> NotFound:
    return NotFound(f"there is no document {document_id!r:.200}: list the documents for their ids")


def _no_entity(name: str) -> NotFound:
    return NotFound(f"there is no entity {name!r:.200}: list the entities, or search for passages instead")
