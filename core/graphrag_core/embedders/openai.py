"""Models of OpenAI-compatible HTTP servers: the client, which retries by itself, and two embedders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import EmbedderError, GraphRAGError, InputError, optional_import
from graphrag_core.ports import Matrix

DEFAULT_URL = "https://api.openai.com/v1"
"""The endpoint of a model that is named without one."""

_LOCAL = {"localhost", "127.0.0.1", "::1"}


class Endpoint:
    """A model behind an OpenAI-compatible endpoint. The client is created when it is used, and again after a fork.

    ``api_key`` is None for that of the environment, and empty for none. It is neither printed nor pickled.
    """

    key_variable = "OPENAI_API_KEY"

    def __init__(self, model: str, base_url: str, api_key: str | None, timeout: float, retries: int) -> None:
        with optional_import("openai", "openai", "A model of an OpenAI-compatible server"):
            import openai  # noqa: F401 - when it is used
        self.model, self.base_url = model, base_url.rstrip("/")
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.password:
            raise InputError("the base URL must be http://host:port/v1, without a password: pass api_key")
        self.timeout, self.retries, self._api_key = timeout, retries, api_key
        self._client: Any = None
        self._process = 0  # whose client it is

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_api_key": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {self.base_url!r})"

    def close(self) -> None:
        """Close the connections. They are opened again when they are needed."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def request(self, send: Callable[[Any, dict[str, Any]], Any]) -> Any:
        """Return what a function receives from the client, given this and options of the request."""
        import openai

        key = (os.environ.get(self.key_variable, "") if self._api_key is None else self._api_key).strip()
        if self._client is None or self._process != os.getpid():  # the connections are those of the parent
            forks.leak(self._client)
            # It insists on a key; local servers need none.
            self._client = openai.OpenAI(
                api_key=key or "none", base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
            )
            self._process = os.getpid()
        try:
            return send(self._client, {} if key else {"extra_headers": {"Authorization": openai.Omit()}})
        except openai.OpenAIError as error:
            raise self._failed(self._describe(error, has_key=bool(key)), error) from error

    def _failed(self, message: str, error: Any) -> GraphRAGError:  # noqa: ARG002 - language models need it
        """Return the error of a request."""
        return EmbedderError(message)

    def _describe(self, error: Any, *, has_key: bool) -> str:
        """Return an error of the client as a message that says what to do. It has no body that may quote the key."""
        import openai

        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            does, advice = ("refused the", "check") if has_key else ("needs an", "set")
            return f"{self.base_url} {does} API key (HTTP {error.status_code}): {advice} {self.key_variable}"
        if isinstance(error, openai.APITimeoutError):
            return f"{self.base_url} did not answer in time: raise timeout, or use another model"
        if isinstance(error, openai.APIConnectionError):
            reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error.__cause__ or "")) or str(error)
            start = f"start the server{' with ollama serve' if self.key_variable.startswith('OLLAMA') else ''}"
            where = start if urlsplit(self.base_url).hostname in _LOCAL else "check the address and the network"
            return f"no answer from {self.base_url} ({reason}): {where}, and try again"
        if isinstance(error, openai.APIStatusError):
            body = " ".join(error.response.text[:500].split())[:200]
            advice = {
                404: f"check the name of the model, {self.model!r}, and that the URL ends in /v1",
                429: "the rate limit or the quota is used up: try again later",
            }.get(error.status_code, "try again later" if error.status_code >= 500 else "check the model and the texts")
            return f"{self.base_url} returned HTTP {error.status_code}: {body}: {advice}"
        return f"{self.base_url} failed: {' '.join(str(error).split())[:200]}"


class OpenAIEmbedder(Endpoint):
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
        By default ``OPENAI_API_KEY``; an empty text sends none. It is never stored with an index or in a pickle.
    dimensions
        The length of the vectors, for models that can shorten them.
    query_prefix, document_prefix
        What some models expect before a question and before a passage, such as ``"search_query: "``.
    batch_size, concurrency
        The most texts in one request, which OpenAI limits to 300,000 tokens, and the most requests at a time.
    timeout, retries
        Seconds to wait for an answer, and how often a failed request is repeated.

    Raises
    ------
    InputError
        A setting cannot be used.
    MissingDependency
        openai is not installed.
    """

    _kind = "openai"

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
        if batch_size < 1 or concurrency < 1 or retries < 0 or timeout <= 0:
            raise InputError("batch_size and concurrency must be at least 1, retries at least 0, timeout positive")
        super().__init__(model, base_url or self._default_url(), api_key, timeout, retries)
        self.dimensions, self.query_prefix, self.document_prefix = dimensions, query_prefix, document_prefix
        self.batch_size, self.concurrency = batch_size, concurrency
        details = [f"{dimensions} dimensions" if dimensions else "", query_prefix, document_prefix]
        self.identity = " ".join(filter(None, (f"{self._kind}:{model}", *map(str.strip, details))))

    def _default_url(self) -> str:
        return os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL

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
        if not texts:
            return np.empty((0, 0), np.float32)
        batches = [texts[start : start + self.batch_size] for start in range(0, len(texts), self.batch_size)]
        with ThreadPoolExecutor(self.concurrency, "graphrag-embed") as pool:
            return np.concatenate(list(pool.map(self._embed, batches)))

    def _embed(self, texts: list[str]) -> Matrix:
        """Return the vectors of one request. Not every server knows base64, and servers refuse blank texts."""
        filled = [text if text.strip() else " ." for text in texts]
        given: dict[str, Any] = {"model": self.model, "input": filled, "encoding_format": "float"}
        if self.dimensions:
            given["dimensions"] = self.dimensions
        answer = self.request(lambda client, options: client.embeddings.create(**given, **options))
        try:
            rows = sorted(answer.data, key=lambda row: row.index)
            vectors: Matrix = np.array([list(row.embedding) for row in rows], np.float32)
        except (ValueError, AttributeError, TypeError) as error:
            raise EmbedderError(
                f"{self.base_url} returned no embeddings ({' '.join(str(error).split())[:200]}): "
                f"is {self.model} an embedding model of this server?"
            ) from error
        return vectors


class OllamaEmbedder(OpenAIEmbedder):
    """Embed texts with a model of an Ollama server, such as ``"nomic-embed-text"``.

    Parameters are those of :class:`OpenAIEmbedder`. The address is by default ``http://OLLAMA_HOST/v1``, or
    ``http://localhost:11434/v1``; no key is sent unless one is passed.
    """

    key_variable = "OLLAMA_API_KEY"
    _kind = "ollama"

    def _default_url(self) -> str:
        host = os.environ.get("OLLAMA_HOST", "").strip().rstrip("/") or "localhost"
        host = (host if "://" in host else f"http://{host}").replace("://0.0.0.0", "://localhost")
        return f"{host}/v1" if urlsplit(host).port or host.startswith("https") else f"{host}:11434/v1"
