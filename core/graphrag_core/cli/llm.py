"""A client for OpenAI-compatible LLM servers. Used by ``index --llm`` only: nothing else connects to a network."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphrag_core.errors import ExtractionError, InputError, MissingDependency

if TYPE_CHECKING:
    import openai

DEFAULT_URL = "https://api.openai.com/v1"
_RETRIES = 3
_CHECK_TIMEOUT = 10.0  # seconds
_MAX_FAILURES = 3  # consecutive calls that failed after all retries


class Unreachable(ExtractionError):
    """The server does not answer, or rejects the API key."""


def parse_llm(value: str, url: str | None) -> tuple[str, str]:
    """Return base URL and model of ``--llm``, which is a model name or both in one.

    >>> parse_llm("gpt-4o-mini", None)
    ('https://api.openai.com/v1', 'gpt-4o-mini')
    >>> parse_llm("http://localhost:11434/v1/llama3.1", None)
    ('http://localhost:11434/v1', 'llama3.1')
    """
    if not value.startswith(("http://", "https://")):
        base_url, model = url or DEFAULT_URL, value
    elif "/v1/" in value:
        base_url, _, model = value.partition("/v1/")
        base_url += "/v1"
    else:
        base_url, _, model = value.rpartition("/")
    parts = urllib.parse.urlsplit(base_url)
    if not model or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"--llm {value!r}: give a model name, or http://host:port/v1/model")
    return base_url.rstrip("/"), model


@dataclass
class ChatModel:
    """Calls one model, from several threads. Stops calling a server that no longer answers.

    ``base_url`` ends in ``/v1``. ``api_key`` is never printed or stored; no key is sent if it is
    empty. ``timeout`` is in seconds. Busy and failing servers are retried.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout: float = 120.0
    _failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingDependency("openai", "cli", "--llm") from error
        key = self.api_key or "none"  # the client insists on a key; local servers need none
        self._client = openai.OpenAI(api_key=key, base_url=self.base_url, timeout=self.timeout, max_retries=_RETRIES)
        self._headers = {} if self.api_key else {"Authorization": openai.Omit()}

    def __call__(self, prompt: str) -> str:
        """Return the model's answer to a prompt."""
        if self._failures >= _MAX_FAILURES:
            raise Unreachable(f"{self.base_url} has stopped answering")
        try:
            answer = self._complete(prompt)
        except Unreachable:
            self._failures += 1  # without a lock: an increment lost between threads does no harm
            raise
        self._failures = 0
        return answer

    def _complete(self, prompt: str) -> str:
        import openai

        try:
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0,
                extra_headers=self._headers,
            )
            return completion.choices[0].message.content or ""
        except openai.APIConnectionError as error:
            raise Unreachable(f"no answer from {self.base_url} ({_reason(error)})") from error
        except openai.APIStatusError as error:
            body = " ".join(error.response.text[:500].split())[:200]
            retried = error.status_code in (408, 409, 429) or error.status_code >= 500
            kind = Unreachable if retried else ExtractionError
            raise kind(f"{self.base_url} returned HTTP {error.status_code}: {body}") from error
        except (openai.OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            raise ExtractionError(f"{self.base_url} did not return a chat completion ({error})") from error

    def check(self) -> None:
        """Raise :class:`Unreachable` if the server does not answer or rejects the API key."""
        import openai

        client = self._client.with_options(timeout=min(self.timeout, _CHECK_TIMEOUT), max_retries=0)
        try:
            client.models.with_raw_response.list(extra_headers=self._headers)
        except openai.APIConnectionError as error:
            raise Unreachable(f"no LLM server answers at {self.base_url} ({_reason(error)})") from error
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise Unreachable(
                f"{self.base_url} rejects the API key (HTTP {error.status_code}): set OPENAI_API_KEY"
            ) from error
        except openai.APIStatusError:
            pass  # it answers; some servers cannot list models


def _reason(error: openai.APIConnectionError) -> str:
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error.__cause__ or "")) or str(error)
