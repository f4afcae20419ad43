"""A language model behind an OpenAI-compatible address: the one place that connects, and only when asked to."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from graphrag_core.errors import ExtractionError, InputError

DEFAULT_URL = "https://api.openai.com/v1"
_BUSY = (408, 409, 429, 500, 502, 503, 504)
_TRIES = 4
_GIVE_UP = 3  # calls in a row that failed in every try


class Unreachable(ExtractionError):
    """The address does not answer, or refuses the key."""


def parse_llm(value: str, url: str | None) -> tuple[str, str]:
    """Return address and model of ``--llm``: a model's name, or both in one.

    >>> parse_llm("gpt-4o-mini", None)
    ('https://api.openai.com/v1', 'gpt-4o-mini')
    >>> parse_llm("http://localhost:11434/v1/llama3.1", None)
    ('http://localhost:11434/v1', 'llama3.1')
    """
    if not value.startswith(("http://", "https://")):
        address, model = url or DEFAULT_URL, value
    elif "/v1/" in value:
        address, _, model = value.partition("/v1/")
        address += "/v1"
    else:
        address, _, model = value.rpartition("/")
    parts = urllib.parse.urlsplit(address)
    if not model or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"--llm {value!r}: give a model, or http://host:port/v1/model")
    return address.rstrip("/"), model


@dataclass
class ChatModel:
    """Asks one model, from several threads; stops asking when nothing answers any more.

    Parameters
    ----------
    address, model
        Of the endpoint, up to and with ``/v1``.
    key
        Sent as a bearer token if it is not empty; never shown.
    timeout
        Seconds to wait for an answer.
    pause
        Seconds to wait after a busy answer that names no time; doubled each time.
    """

    address: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 120.0
    pause: float = 1.0
    _failed: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __call__(self, prompt: str) -> str:
        """Return the model's answer."""
        if self._failed >= _GIVE_UP:
            raise Unreachable(f"{self.address} has stopped answering")
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        try:
            answer = self._patiently(body)
        except Unreachable:
            with self._lock:
                self._failed += 1
            raise
        with self._lock:
            self._failed = 0
        try:
            return str(answer["choices"][0]["message"]["content"] or "")
        except (KeyError, IndexError, TypeError) as error:
            raise ExtractionError(f"{self.address} answered in another form than chat completions") from error

    def check(self) -> None:
        """Raise :class:`Unreachable` if nothing answers at the address, or the key is refused."""
        try:
            reply = self._send("/models", None, timeout=min(self.timeout, 10.0))
        except (OSError, HTTPException) as error:
            raise Unreachable(f"no language model answers at {self.address} ({_reason(error)})") from error
        if reply.status in (401, 403):
            raise Unreachable(f"{self.address} refuses the key ({reply.status}): set OPENAI_API_KEY")

    def _patiently(self, body: dict[str, Any]) -> Any:
        problem = ""
        for attempt in range(_TRIES):
            wait = self.pause * 2**attempt
            try:
                reply = self._send("/chat/completions", body, self.timeout)
            except (OSError, HTTPException) as error:
                problem = f"no answer from {self.address} ({_reason(error)})"
            else:
                if reply.status == 200:
                    return reply.json(self.address)
                problem = f"{self.address} says {reply.status}: {reply.beginning}"
                if reply.status not in _BUSY:
                    raise ExtractionError(problem)
                if reply.retry_after.isdecimal():
                    wait = min(float(reply.retry_after), 60.0)
            if attempt < _TRIES - 1:
                time.sleep(wait)
        raise Unreachable(problem)

    def _send(self, path: str, body: dict[str, Any] | None, timeout: float) -> _Reply:
        headers = {"Content-Type": "application/json", "User-Agent": "hybrid-graphrag"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)  # noqa: S310 - http(s), see parse_llm
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
                return _Reply(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _Reply(error.code, error.read(), error.headers.get("Retry-After", ""))


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    retry_after: str = ""

    @property
    def beginning(self) -> str:
        return " ".join(self.body[:500].decode("utf-8", "replace").split())[:200]

    def json(self, address: str) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ExtractionError(f"{address} did not answer with JSON") from error


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)
