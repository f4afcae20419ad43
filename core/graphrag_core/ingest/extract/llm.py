"""An extractor that asks any language model, through one plain callable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from graphrag_core.ingest.extract.cache import AnswerCache
from graphrag_core.ingest.extract.parse import parse_answer
from graphrag_core.ingest.extract.prompt import build_prompt
from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import TokenCounter
from graphrag_core.progress import Progress
from graphrag_core.text import estimate_tokens, fingerprint

Complete = Callable[[str], str]


@dataclass
class LLMReport:
    """What extraction has cost and what it could not read, so far.

    ``failed`` goes from a chunk's id to the reason its facts are missing.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class LLMExtractor:
    """Asks a language model for each chunk's entities and relations.

    Parameters
    ----------
    complete
        From a prompt to the model's answer. Called from several threads.
    cache
        A file that keeps answers, so that nothing is paid for twice, not even after a
        crash. Without it answers are kept while the object lives.
    model
        The model's name; answers of one model are not taken for another's.
    entity_types
        Types to prefer.
    retries
        How often to ask again when the call fails or the answer cannot be read.
    concurrency
        How many questions are under way at once.
    backoff
        Seconds to wait after a first failed call; doubled each time.
    progress
        True or False to force the bar; None shows it on a terminal only.

    A chunk whose answer stays unreadable loses its facts, is listed in ``report.failed``
    and is tried again the next time; the run goes on.
    """

    def __init__(
        self,
        complete: Complete,
        *,
        cache: str | Path | None = None,
        model: str = "",
        entity_types: Sequence[str] = (),
        retries: int = 2,
        concurrency: int = 4,
        backoff: float = 1.0,
        progress: bool | None = None,
        count: TokenCounter = estimate_tokens,
    ) -> None:
        self.complete = complete
        self.model = model
        self.entity_types = tuple(entity_types)
        self.retries = retries
        self.concurrency = max(1, concurrency)
        self.backoff = backoff
        self.progress = progress
        self.report = LLMReport()
        self._cache = AnswerCache(cache)
        self._count = count
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """The model and the types asked for."""
        return f"llm 1 {self.model} {','.join(self.entity_types)}".strip()

    def estimate(self, chunks: Sequence[Chunk]) -> int:
        """Return about how many prompt tokens extraction would cost; answers kept cost none."""
        prompts = (build_prompt(chunk, self.entity_types) for chunk in chunks)
        return sum(self._count(prompt) for prompt in prompts if self._cache.get(self._key(prompt)) is None)

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        with Progress("asking the model", "chunks", len(chunks), self.progress) as bar:

            def read(chunk: Chunk) -> Extraction:
                extraction = self._read(chunk)
                bar.advance()
                return extraction

            # Chunks of the same words are asked about once.
            first: dict[str, Chunk] = {}
            for chunk in chunks:
                first.setdefault(build_prompt(chunk, self.entity_types), chunk)
            with ThreadPoolExecutor(self.concurrency) as pool:
                answers = dict(zip(first, pool.map(read, first.values()), strict=True))
            bar.advance(len(chunks) - len(first))
            return [answers[build_prompt(chunk, self.entity_types)] for chunk in chunks]

    def _read(self, chunk: Chunk) -> Extraction:
        prompt = build_prompt(chunk, self.entity_types)
        key = self._key(prompt)
        if (kept := self._cache.get(key)) is not None:
            with self._lock:
                self.report.cached += 1
            return parse_answer(kept)
        problem = ""
        for attempt in range(self.retries + 1):
            try:
                answer = self._ask(prompt)
            except Exception as error:  # noqa: BLE001 - a client may raise anything; one chunk must not end the run
                problem = f"the call failed: {type(error).__name__}: {error}"
                if attempt < self.retries:
                    time.sleep(self.backoff * 2**attempt)
                continue
            try:
                extraction = parse_answer(answer)
            except ValueError as error:
                problem = f"the answer could not be read: {error}"
                continue
            self._cache.put(key, answer)
            with self._lock:
                self.report.failed.pop(chunk.id, None)
            return extraction
        with self._lock:
            self.report.failed[chunk.id] = problem
        return Extraction(problem=problem)

    def _ask(self, prompt: str) -> str:
        answer = self.complete(prompt)
        if not isinstance(answer, str):
            raise TypeError(f"complete() returned {type(answer).__name__}, not str")
        answer = answer.encode("utf-8", "replace").decode("utf-8")
        with self._lock:
            self.report.calls += 1
            self.report.prompt_tokens += self._count(prompt)
            self.report.answer_tokens += self._count(answer)
        return answer

    def _key(self, prompt: str) -> str:
        return fingerprint([self.model, prompt])
