"""``GraphRetriever``, the public read side: validates a call, looks it up in the cache, runs the query pipeline."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from graphrag_core import forks
from graphrag_core.errors import DatabaseError, InputError, check_integer
from graphrag_core.filters import Filter, Where, parse
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import unit_vector
from graphrag_core.ingest.remembered import Time, changes_between, seconds, visible
from graphrag_core.ports import Matrix
from graphrag_core.query.conversation import History, parse_history
from graphrag_core.query.evidence import Evidence
from graphrag_core.query.passages_around import expanded_passages
from graphrag_core.query.plan import Plan
from graphrag_core.query.rerank import awaited_scores, by_scores, coroutine_of, scores_of
from graphrag_core.query.search import aembed, embed, search, to_result
from graphrag_core.query.settings import ResolvedSettings, SearchSettings
from graphrag_core.result import Lazy, Remarks, Result, Trace
from graphrag_core.telemetry import Stages

_DEFAULTS = SearchSettings()
_log = logging.getLogger(__name__)
_MAX_QUESTION = 100_000  # characters
_WARNING_EVERY = 60.0  # seconds, for a warning that each question would repeat
_ATTEMPTS = 3  # at a question whose connection to a database is lost


class Cache:
    """A least-recently-written cache with expiry.

    The retriever's key has everything a result depends on: the question, the settings, the parsed
    filter and the generation of the index. Results are never stale after an add or a delete and never
    cross scopes. Thread-safe.

    Parameters
    ----------
    seconds
        How long a result is kept.
    entries
        The maximum number of results.
    clock
        Returns the time in seconds.
    """

    def __init__(
        self, *, seconds: float = 60.0, entries: int = 1_024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if seconds <= 0 or entries < 1:
            raise InputError("seconds must be positive and entries at least 1: pass cache=None to disable the cache")
        self.seconds = seconds
        self.entries = entries
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        forks.watch(self)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is empty
        return partial(type(self), seconds=self.seconds, entries=self.entries, clock=self._clock), ()

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held. For :mod:`graphrag_core.forks`."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any:
        """Return what was stored under a key; None if there is nothing or it has expired."""
        with self._lock:
            until, value = self._entries.get(key, (0.0, None))
            if value is not None and self._clock() >= until:
                del self._entries[key]
                return None
            return value

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value, which must not be changed."""
        with self._lock:
            self._entries[key] = (self._clock() + self.seconds, value)
            self._entries.move_to_end(key)
            while len(self._entries) > self.entries:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._entries.clear()


class GraphRetriever:
    """Retrieves passages from an index by vector, keyword and graph search.

    Parameters
    ----------
    index
        The index to search.
    settings
        The settings of every question. To change them, make another retriever.
    cache
        True for a new :class:`~graphrag_core.Cache`, or a cache to share; False or None for none.
    fields
        Fields of :class:`~graphrag_core.SearchSettings`, such as ``k`` and ``graph``, which replace the
        fields of ``settings``. None counts as not given.

    Notes
    -----
    A retriever can be pickled if its index is in a folder: the copy opens the folder for reading. So does a deep
    copy, which shares an index in memory. The copy's cache is empty.

    Examples
    --------
    >>> from graphrag_core import Document
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> _ = index.add([Document("a", "The Auth Service delegates to the OAuth Provider.", "Auth Service"),
    ...                Document("b", "The OAuth Provider speaks to Keyring.", "OAuth Provider")])
    >>> [step.text for step in GraphRetriever(index).retrieve("Auth Service vendor").hits[1].path[1:]]
    ['Auth Service', 'The Auth Service delegates to the OAuth Provider.', 'OAuth Provider', 'OAuth Provider']
    """

    def __init__(
        self,
        index: KnowledgeIndex,
        settings: SearchSettings = _DEFAULTS,
        *,
        cache: Cache | bool | None = True,
        **fields: Any,
    ) -> None:
        if not isinstance(settings, SearchSettings):
            raise InputError(f"settings is {settings!r:.80}: use SearchSettings(...)")
        self.index = index
        self.settings = settings.replace(**fields)
        self.cache = Cache() if cache is True else None if cache is False else cache
        if self.cache is not None and not callable(getattr(self.cache, "put", None)):
            raise InputError(f"{cache!r} is not a cache: it needs get(key) and put(key, value)")
        self._warned: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index!r}, {self.settings!r})"

    def refresh(self) -> bool:
        """Return whether anything was written since the last call. Every query sees it anyway."""
        return self.index.refresh()

    def retrieve(
        self,
        question: str,
        *,
        where: Where | None = None,
        embedding: Iterable[float] | None = None,
        as_of: Time | None = None,
        history: History | None = None,
        count_access: bool = True,
        explain: bool = False,
        settings: SearchSettings | None = None,
        **overrides: Any,
    ) -> Result:
        """Return the passages that answer a question, best first, with the reason for each.

        Parameters
        ----------
        question
            The question. Nothing is found for a blank one without an ``embedding``, which is logged as a warning.
        where
            A filter on document metadata; it applies at every hop (:mod:`graphrag_core.filters`).
        embedding
            The question's vector, if it was computed before.
        as_of
            Answer with the facts that were valid at this time (:meth:`index.memory.remember
            <graphrag_core.memory.Memory.remember>`): a date, "2024-05-01", a datetime, or seconds since the
            epoch. By default now.
        history
            The turns of the conversation before the question, oldest first: texts of the user and the assistant, or
            results of this retriever. A question that refers back, such as "who owns it?" or "and in Berlin?",
            also starts from the entities that the last turns name, with less weight. Any other question is not
            changed by it. Rules for English decide. It has no effect where the graph is not searched.
        count_access
            False if reading facts is not to count as an access, by which
            :class:`~graphrag_core.strategies.SpreadingActivation` weighs them.
            An answer from the cache does not count.
        explain
            True explains the result at once, and not when it is first asked for: after the index is closed, nothing can
            be explained (:class:`~graphrag_core.Result`).
        settings
            Used instead of the retriever's.
        overrides
            Fields of :class:`~graphrag_core.SearchSettings` for this question, such as ``k`` and ``method``. None
            counts as not given.
        """
        plan = self.plan(
            question,
            where=where,
            embedding=embedding,
            as_of=as_of,
            history=history,
            count_access=count_access,
            explain=explain,
            settings=settings,
            **overrides,
        )
        return self.run(plan)

    async def aretrieve(self, question: str, **given: Any) -> Result:
        """Async version of :meth:`retrieve`: a reranker is awaited if it can be, and the rest runs in a thread."""
        return await self.arun(self.plan(question, **given))

    def plan(
        self,
        question: str,
        *,
        where: Where | None = None,
        embedding: Iterable[float] | None = None,
        as_of: Time | None = None,
        history: History | None = None,
        count_access: bool = True,
        explain: bool = False,
        settings: SearchSettings | None = None,
        **overrides: Any,
    ) -> Plan:
        """Return a question with its settings, checked. Parameters as in :meth:`retrieve`."""
        scope = None if where is None else parse(where)  # read once: nothing else decides scope and cache key
        if not isinstance(question, str) or len(question) > _MAX_QUESTION or not question.isascii():
            _check_text(question, "the question")
        vector = None if embedding is None else self._as_vector(embedding)
        turns = () if history is None else parse_history(history, question)
        for turn in turns:
            _check_text(turn.text, "a turn of history")
        resolved, route = self._resolved(question, settings, overrides)
        moment = None if as_of is None else seconds(as_of, "as_of")
        turns = turns if turns and resolved.searches_graph else ()
        vector_key = None if vector is None else vector.tobytes()
        return Plan(
            text=question,
            settings=resolved,
            at=time.time() if moment is None else moment,
            scope=scope,
            as_of=moment,
            vector=vector,
            key=(question, resolved, scope, moment, vector_key, route, turns),
            route=route,
            turns=turns,
            counts_access=count_access,
            explain=explain,
        )

    def _resolved(
        self, question: str, settings: SearchSettings | None, overrides: Mapping[str, Any]
    ) -> tuple[ResolvedSettings, str]:
        """Return the settings of a question, and why the router chose the method."""
        settings = self.settings if settings is None else settings
        if not isinstance(settings, SearchSettings):
            raise InputError(f"settings is {settings!r:.80}: use SearchSettings(...)")
        if any(value is not None for value in overrides.values()):
            settings = settings.replace(**overrides)
        if settings.method != "agentic":
            return settings.resolved, ""
        chosen = settings.router.route(question)
        return settings.replace(method=chosen.method).resolved, str(chosen)

    def run(self, plan: Plan) -> Result:
        """Answer a question: from the cache, or by a search."""
        result = self._cached(plan)
        if result is None:
            stages = Stages()
            seen, scores = self._search(*embed(self.index, plan), stages), None
            if plan.settings.scorer is not None:
                scores = scores_of(plan.settings.scorer, plan.text, seen.to_score)
            result = self._finished(seen, scores, stages)
        return result

    async def arun(self, plan: Plan) -> Result:
        """Async version of :meth:`run`: what can be awaited is awaited, and the rest runs in a thread."""
        from asyncio import to_thread  # noqa: PLC0415 - slow to import

        scorer = plan.settings.scorer
        if plan.aembed is None and (scorer is None or coroutine_of(scorer) is None):
            return await to_thread(self.run, plan)
        result = await to_thread(self._cached, plan)
        if result is None:
            stages = Stages()
            seen, scores = await to_thread(self._search, *(await aembed(self.index, plan)), stages), None
            if scorer is not None:
                scores = await awaited_scores(scorer, plan.text, seen.to_score)
            result = await to_thread(self._finished, seen, scores, stages)
        return result

    def _search(self, vector: Matrix | None, seen: Evidence, stages: Stages) -> Evidence:
        """Search the index; again if the connection to a database was lost."""
        stages.end("embed")
        for _ in range(_ATTEMPTS - 1):
            try:
                return search(self.index, vector, seen, stages)
            except DatabaseError as error:
                if not error.lost:
                    raise
                _log.info("the question is asked again: %s", error)
        return search(self.index, vector, seen, stages)

    def _finished(self, seen: Evidence, scores: Sequence[float | None] | None, stages: Stages) -> Result:
        """Return the result with what can be read later, and store it. ``scores`` are those of a function."""
        plan, engine = seen.plan, self.index.engine
        if scores is not None:
            seen = replace(seen, ranked=by_scores(seen.ranked, scores))
            stages.end("score")
        result = to_result(engine, seen, stages)
        if seen.unknown_keys:
            keys = ", ".join(f"{key!r:.80}" for key in seen.unknown_keys)
            self._warn(f"no document has the metadata key {keys}: comparisons with it match nothing")
        if result.embedder_failed:
            self._warn(result.fallback)
        if plan.settings.expand is not None:
            chunks = [hit.chunk for hit in result.hits]
            around = expanded_passages(engine, chunks, plan.settings.expand, plan.scope, plan.at)
            hits = (replace(hit, expanded=passage) for hit, passage in zip(result.hits, around, strict=True))
            result = replace(result, hits=tuple(hits))
        is_whole = result.is_complete or self.index.embedding is None
        if self.cache is not None and is_whole:
            with suppress(TypeError):  # a custom strategy that cannot be hashed
                self.cache.put((self.index.engine, seen.state[:2], plan.key), (result, plan.at))
        return _copied(result)

    def _warn(self, message: str) -> None:
        """Log a warning that other questions would repeat, once a minute."""
        now = time.monotonic()
        if now - self._warned.get(message, -math.inf) >= _WARNING_EVERY:
            self._warned = {other: at for other, at in self._warned.items() if now - at < _WARNING_EVERY}
            self._warned[message] = now
            _log.warning("%s", message)

    # -- the cache

    def _cached(self, plan: Plan) -> Result | None:
        """Return the stored result of a question, or that of an empty one; None if it has to be searched."""
        if plan.vector is None and not plan.text.strip():
            _log.warning("the question is empty: nothing is searched")
            why, advice = "nothing was searched: the question is empty", "the question is empty: ask in words"
            remarks = Lazy.of(Remarks(decided=why, advice=advice))
            return Result(plan.text, plan.settings.method, graph_ran=False, remarks=remarks)
        start, engine, stored = time.perf_counter(), self.index.engine, None
        if self.cache is not None:
            with suppress(TypeError):  # a custom strategy that cannot be hashed
                stored = self.cache.get((engine, engine.state, plan.key))
        if stored is None or changes_between(engine, stored[1], plan.at):
            return None
        result = replace(_copied(stored[0]), trace=Trace({"cache": (time.perf_counter() - start) * 1000}))
        _ = result.explanation.value if plan.explain else None
        return result

    def warm(
        self, questions: Iterable[str] | int = 10, *, background: bool = False, **settings: Any
    ) -> int | Future[int]:
        """Run questions in advance to fill the cache; return how many.

        Warming reads no fact in the sense of :class:`~graphrag_core.strategies.Relevance`: access counts stay as
        they are.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        settings
            Those of :meth:`retrieve` with which they will be asked, such as ``where`` and ``k``.
        """
        where = None if settings.get("where") is None else parse(settings["where"])
        ask = partial(self.retrieve, count_access=False, **{**settings, "where": where})
        return self.warm_by(ask, questions, where, background=background)

    def warm_by(
        self, ask: Callable[[str], Result], questions: Iterable[str] | int, where: Filter | None, *, background: bool
    ) -> int | Future[int]:
        """Run questions in advance as :meth:`warm` does, each by a function."""
        if isinstance(questions, int):
            check_integer(questions, "the number of entities to warm")
        elif isinstance(questions, str):
            raise InputError("warm takes an iterable of questions: warm([question])")
        else:
            questions = list(questions)

        def work() -> int:
            asked = questions
            if isinstance(asked, int):
                engine = self.index.engine
                with engine.snapshot(visible(engine, where, time.time())) as snapshot:
                    asked = [entity.name for entity in snapshot.entities(snapshot.top_entities(asked))]
            return len([ask(question) for question in asked])

        if not background:
            return work()
        done = Future[int]()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - the caller gets it from the future
                done.set_exception(error)

        done.set_running_or_notify_cancel()
        threading.Thread(target=run, name="graphrag-warm", daemon=True).start()
        return done

    def _as_vector(self, embedding: Iterable[float]) -> Matrix:
        try:
            return unit_vector(embedding, int(self.index.engine.settings().get("dim", "0")) or None)
        except ValueError as error:
            raise InputError(f"the embedding {error}") from error


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or len(text) > _MAX_QUESTION:
        raise InputError(f"{what} must be a str of at most {_MAX_QUESTION:,} characters: {text!r:.80}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{what} has a lone surrogate at {error.start}: decode it correctly") from error


def _copied(result: Result) -> Result:
    """Return a copy for a caller: it shares no mutable value with the index and with other results.

    All copies share the explanation, which is computed once.
    """
    hits = []
    for hit in result.hits:
        chunk = hit.chunk
        if chunk.metadata:
            chunk = replace(chunk, metadata=_copied_json(chunk.metadata))
        hits.append(replace(hit, chunk=chunk, channels={**hit.channels}))
    return replace(result, hits=tuple(hits))


def _copied_json(value: Any) -> Any:
    """Return a copy of a JSON value; many times faster than ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: _copied_json(one) if isinstance(one, (dict, list)) else one for key, one in value.items()}
    return [_copied_json(one) for one in value] if isinstance(value, list) else value
