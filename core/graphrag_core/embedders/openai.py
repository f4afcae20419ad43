"""``OpenAIEmbedder`` and ``OllamaEmbedder``: embed with an OpenAI-compatible HTTP server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import EmbedderError, InputError, optional_import
from graphrag_core.ports import Matrix

if TYPE_CHECKING:
    import openai

_OPENAI_HOST = "api.openai.com"
_BATCH_CHARACTERS = 400_000  # about 100,000 tokens; OpenAI accepts 300,000 in a request
_LOCAL = {"localhost", "127.0.0.1", "::1"}


class OpenAIEmbedder:
    """Embed texts with OpenAI, or with any server that has an OpenAI-compatible ``/embeddings`` endpoint.

    Long lists are sent in batches, several at a time. A failed request is repeated with exponential backoff, or after
    the time of the ``Retry-After`` header.

    Parameters
    ----------
    model
        The name of the model, such as ``"text-embedding-3-small"``.
    base_url
        The address of the server, which usually ends in ``/v1``. By default ``OPENAI_BASE_URL``, or OpenAI.
    api_key
        By default ``OPENAI_API_KEY``. It is never stored with an index or in a pickle. A server other than OpenAI may
        need none.
    dimensions
        The length of the vectors, for models that can shorten them.
    query_prefix, document_prefix
        What some models expect before a question and before a passage, such as ``"search_query: "``.
    batch_size, concurrency
        The most texts in one request, and the most requests at a time.
    timeout, retries
        Seconds to wait for an answer, and how often a failed request is repeated.

    Raises
    ------
    InputError
        A setting cannot be used.
    MissingDependency
        openai is not installed.
    """

    local = False
    _kind = "openai"
    _key_variable = "OPENAI_API_KEY"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        batch_size: int = 128,
        concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 5,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise InputError(f"the model is {model!r}: name one, such as 'text-embedding-3-small'")
        if batch_size < 1 or concurrency < 1 or retries < 0 or timeout <= 0:
            raise InputError("batch_size and concurrency must be at least 1, retries at least 0, timeout positive")
        self.model = model
        self.base_url = _checked_url((base_url or self._default_url()).rstrip("/"))
        self.dimensions = dimensions
        self.query_prefix, self.document_prefix = query_prefix, document_prefix
        self.batch_size, self.concurrency = batch_size, concurrency
        self.timeout, self.retries = timeout, retries
        self._api_key = api_key
        self._client: openai.OpenAI | None = None
        _import_openai()
        details = [f"{dimensions} dimensions" if dimensions else "", query_prefix, document_prefix]
        self.identity = " ".join(filter(None, (f"{self._kind}:{model}", *map(str.strip, details))))
        forks.watch(self)

    def _default_url(self) -> str:
        return os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    def _key(self) -> str:
        return (self._api_key or os.environ.get(self._key_variable, "")).strip()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_api_key": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        forks.watch(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    def after_fork_in_child(self) -> None:
        """Connect again when it is next used: the connections are the parent's."""
        forks.leak(self._client)
        self._client = None

    def close(self) -> None:
        """Close the connections. They are opened again when they are needed."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one vector per text, as rows."""
        return self._embed_all([self.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a question."""
        vector: Matrix = self._embed([self.query_prefix + text])[0]
        return vector

    def embed_queries(self, texts: list[str]) -> Matrix:
        """Return one vector per question, as rows."""
        return self._embed_all([self.query_prefix + text for text in texts])

    def _embed_all(self, texts: list[str]) -> Matrix:
        batches = list(self._batches(texts))
        if len(batches) < 2:
            return self._embed(batches[0]) if batches else np.empty((0, 0), np.float32)
        pool = ThreadPoolExecutor(min(self.concurrency, len(batches)), "graphrag-embed")
        try:
            parts = list(pool.map(self._embed, batches))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        try:
            return np.concatenate(parts)
        except ValueError as error:
            raise EmbedderError(f"{self.base_url} returned vectors of different lengths for {self.model}") from error

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) == self.batch_size or size + len(text) > _BATCH_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(text if text.strip() else " .")  # servers refuse blank texts
            size += len(text)
        if batch:
            yield batch

    def _embed(self, texts: list[str]) -> Matrix:
        """Return the vectors of one request."""
        package, key = _import_openai(), self._key()
        if not key and needs_key(self.base_url):
            raise EmbedderError(f"{self.base_url} needs an API key: set {self._key_variable}, or pass api_key")
        more: dict[str, Any] = {"dimensions": self.dimensions} if self.dimensions else {}
        try:
            if self._client is None:  # it insists on a key; local servers need none
                settings: dict[str, Any] = {"timeout": self.timeout, "max_retries": self.retries}
                self._client = package.OpenAI(api_key=key or "none", base_url=self.base_url, **settings)
            answer = self._client.embeddings.create(
                model=self.model,
                input=texts,
                encoding_format="float",  # not every server knows base64
                extra_headers=None if key else {"Authorization": package.Omit()},
                **more,
            )
            rows = sorted(answer.data, key=lambda row: row.index)
            if [row.index for row in rows] == list(range(len(texts))):
                return np.array([list(row.embedding) for row in rows], np.float32)
            problem = f"{len(rows)} vectors for {len(texts)} texts"
        except package.OpenAIError as error:
            raise EmbedderError(self._describe(error, bool(key))) from error
        except (ValueError, AttributeError, TypeError) as error:
            problem = f"no embeddings ({' '.join(str(error).split())[:200]})"
        raise EmbedderError(f"{self.base_url} returned {problem}: is {self.model} an embedding model of this server?")

    def _describe(self, error: openai.OpenAIError, has_key: bool) -> str:
        return describe(error, self.base_url, self.model, self._key_variable, has_key=has_key)


class OllamaEmbedder(OpenAIEmbedder):
    """Embed texts with a model of an Ollama server, such as ``"nomic-embed-text"``.

    Parameters are those of :class:`OpenAIEmbedder`. The address is by default ``OLLAMA_HOST``, or
    ``http://localhost:11434/v1``; no key is sent unless one is passed.
    """

    _kind = "ollama"
    _key_variable = "OLLAMA_API_KEY"

    def _default_url(self) -> str:
        host = os.environ.get("OLLAMA_HOST", "").strip().rstrip("/") or "localhost"
        host = host if "://" in host else f"http://{host}"
        host = host.replace("://0.0.0.0", "://localhost")  # a server listens on it, a client cannot connect to it
        if urlsplit(host).port is None and host.startswith("http://"):
            host += ":11434"
        return host if host.endswith("/v1") else f"{host}/v1"

    def _describe(self, error: openai.OpenAIError, has_key: bool) -> str:
        message = super()._describe(error, has_key)
        if getattr(error, "status_code", None) == 404:
            return f"{message}; ollama pull {self.model} downloads it"
        return message.replace("start the server", "start it with ollama serve")


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"the base URL is {base_url!r}: use http://host:port/v1")
    if parts.username or parts.password:
        raise InputError("the base URL has a password in it: pass api_key, or set OPENAI_API_KEY")
    return base_url


def needs_key(base_url: str) -> bool:
    """Return whether a server is one of OpenAI's, which answer nobody without an API key."""
    host = urlsplit(base_url).hostname or ""
    return host == _OPENAI_HOST or host.endswith(f".{_OPENAI_HOST}")  # such as eu.api.openai.com


def describe(error: openai.OpenAIError, base_url: str, model: str, variable: str, *, has_key: bool) -> str:
    """Return an error of the client as a message that says what to do. It has no body that may quote the key."""
    import openai as package

    if isinstance(error, (package.AuthenticationError, package.PermissionDeniedError)):
        told = (
            f"refused the API key (HTTP {error.status_code}): check"
            if has_key
            else (f"needs an API key (HTTP {error.status_code}): set")
        )
        return f"{base_url} {told} {variable}"
    if isinstance(error, package.APITimeoutError):
        return f"{base_url} did not answer in time: raise timeout, or use another model"
    if isinstance(error, package.APIConnectionError):
        reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error.__cause__ or "")) or str(error)
        where = "start the server" if urlsplit(base_url).hostname in _LOCAL else "check the address and the network"
        return f"no answer from {base_url} ({reason}): {where}, and try again"
    if isinstance(error, package.APIStatusError):
        body = " ".join(error.response.text[:500].split())[:200]
        advice = {
            404: f"check the name of the model, {model!r}, and that the URL ends in /v1",
            429: "the rate limit or the quota is used up: try again later",
        }.get(error.status_code, "try again later" if error.status_code >= 500 else "check the model and the texts")
        return f"{base_url} returned HTTP {error.status_code}: {body}: {advice}"
    return f"{base_url} failed: {' '.join(str(error).split())[:200]}"


def _import_openai() -> Any:
    with optional_import("openai", "openai", "An embedder of an OpenAI-compatible server"):
        import openai
    return openai
