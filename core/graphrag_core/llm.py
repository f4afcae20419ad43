"""Language models that write text: any OpenAI-compatible endpoint, functions, and what implements ``ChatModel``.

:func:`as_chat_model` turns each of them into a :class:`ChatModel`. ``openai`` is imported only where
:class:`OpenAIChat` is used.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, runtime_checkable

from graphrag_core.embedders.openai import needs_key, refused_key
from graphrag_core.errors import GraphRAGError, InputError, LLMError, LLMUnreachable, optional_import

if TYPE_CHECKING:
    import openai

DEFAULT_URL = "https://api.openai.com/v1"
"""The endpoint of a model that is named without one."""

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable with the API key."""

_RETRIES = 3
_FIRST_WAIT = 0.5  # seconds before the first retry, unless the server says another time; doubled for each next one
_SHORTEST_TIMEOUT = 0.01  # seconds
_CHECK_TIMEOUT = 10.0  # seconds
_LONGEST = 4_000_000  # characters of an answer
_MAX_FAILURES = 3  # consecutive calls that failed after all retries
_RETRIED = (408, 409, 429)  # and all from 500 on
_Piece = TypeVar("_Piece")


class Message(TypedDict):
    """One message of a conversation, as OpenAI's API has it."""

    role: Literal["system", "user", "assistant"]
    content: str


@runtime_checkable
class ChatModel(Protocol):
    """A language model that writes its answer in pieces. Messages name it by its ``model``, if it has one."""

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield the answer to a conversation, in pieces.

        If it is a generator, closing it ends the answer: a model behind a connection closes it. An exception that is
        no :class:`~graphrag_core.errors.LLMError` becomes one.
        """


def parse_llm(value: str, url: str | None = None) -> tuple[str, str]:
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


def open_llm(value: str, url: str | None = None, *, timeout: float = 120.0) -> OpenAIChat:
    """Return the model of ``--llm``, with the API key of the environment (``OPENAI_API_KEY``)."""
    base_url, model = parse_llm(value, url)
    return OpenAIChat(model, base_url, api_key=os.environ.get(KEY_VARIABLE, ""), timeout=timeout)


class OpenAIChat:
    """A model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LM Studio and others.

    Safe to use from several threads. :meth:`stream` writes an answer in pieces; calling the object with a prompt
    returns a whole one, for :class:`~graphrag_core.LLMExtractor`. A busy or failing server is asked again, but not
    after it has begun to write. Needs the package ``openai``.

    Parameters
    ----------
    model
        The model's name, as the server knows it.
    base_url
        The endpoint, which for most servers ends in ``/v1``.
    api_key
        Sent to the server; never printed or stored. None sends ``OPENAI_API_KEY`` of the environment to OpenAI's own
        endpoint, and no key to any other. An empty text sends none; OpenAI is not asked without one.
    timeout
        Seconds until the answer begins, with all retries, and for each next piece of it.
    temperature
        0 for the most likely answer; None for the model's own default, which some models insist on.

    Examples
    --------
    >>> OpenAIChat("llama3.1", "http://localhost:11434/v1")
    OpenAIChat('llama3.1', 'http://localhost:11434/v1')
    """

    def __init__(
        self,
        model: str,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        timeout: float = 120.0,
        *,
        temperature: float | None = 0.0,
    ) -> None:
        with optional_import("openai", "openai", "--llm"):
            import openai  # noqa: PLC0415 - slow to import
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self.temperature = temperature
        if api_key is None:
            api_key = os.environ.get(KEY_VARIABLE, "") if self.base_url == DEFAULT_URL else ""
        api_key = api_key.strip()
        self._failures, self._failure = 0, ""
        self._lacks_key = not api_key and needs_key(self.base_url)
        # The client insists on a key; local servers need none.
        self._client = openai.OpenAI(api_key=api_key or "none", base_url=self.base_url, timeout=timeout, max_retries=0)
        self._headers: dict[str, Any] = {} if api_key else {"Authorization": openai.Omit()}

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r}, {self.base_url!r})"

    def close(self) -> None:
        """Close idle connections. The model can be used again."""
        self._client.close()
        self._client = self._client.copy()

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, None]:
        """Yield the answer to a conversation, in pieces. Closing the generator closes the connection.

        Raises
        ------
        LLMError
            The server does not answer, answers with an error, or stops in the middle of an answer. ``partial`` is what
            it had written.
        """
        self._check_key()
        written: list[str] = []
        until = time.monotonic() + self.timeout
        for attempt in range(_RETRIES + 1):
            try:
                for piece in self._pieces(messages, until):
                    written += [piece] if piece else []
                    yield piece
            except LLMError as error:
                is_over = attempt == _RETRIES or time.monotonic() >= until
                if isinstance(error, _BrokenOff) and not written and not is_over:
                    continue
                error.partial = "".join(written)
                raise
            return

    def __call__(self, prompt: str) -> str:
        """Return the model's answer to a prompt. Stops calling a server that no longer answers."""
        self._check_key()
        if self._failures >= _MAX_FAILURES:
            raise self._unreachable(f"{self.base_url} has stopped answering: {self._failure}")
        try:
            until = time.monotonic() + self.timeout
            completion = self._request([Message(role="user", content=prompt)], until).parse()
            answer = completion.choices[0].message.content or ""
        except Exception as error:
            problem = self._problem(error)
            if isinstance(problem, LLMUnreachable):
                self._failures += 1  # without a lock: an increment lost between threads does no harm
                self._failure = str(problem)
            raise problem from error
        self._failures = 0
        return str(answer)

    def check(self) -> None:
        """Raise :class:`~graphrag_core.errors.LLMUnreachable` if the server does not answer or rejects the key."""
        import openai  # noqa: PLC0415 - as above

        self._check_key()
        timeout = min(self.timeout, _CHECK_TIMEOUT)
        try:
            self._client.models.with_raw_response.list(extra_headers=self._headers, timeout=timeout)
        except openai.APIConnectionError as error:
            raise self._unreachable(f"no LLM server answers at {self.base_url} ({_reason(error)})") from error
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise self._problem(error) from error
        except openai.APIStatusError:
            pass  # it answers; some servers cannot list models

    # -- the protocol

    def _check_key(self) -> None:
        if self._lacks_key:
            raise self._unreachable(f"{self.base_url} needs an API key: set {KEY_VARIABLE}, or pass api_key")

    def _request(self, messages: Sequence[Message], until: float, **more: Any) -> Any:
        """Return the response of the server. A busy one is asked again until a time of ``time.monotonic``."""
        import openai  # noqa: PLC0415 - as above

        create: Any = self._client.chat.completions.with_raw_response.create
        if self.temperature is not None:
            more["temperature"] = self.temperature
        attempt = 0
        while True:
            left = max(until - time.monotonic(), _SHORTEST_TIMEOUT)
            wait = _FIRST_WAIT * 2**attempt
            try:
                return create(
                    model=self.model, messages=list(messages), extra_headers=self._headers, timeout=left, **more
                )
            except (openai.APIConnectionError, openai.APIStatusError) as error:  # also a timeout
                if isinstance(error, openai.APIStatusError):
                    wait = _wait_asked(error.response.headers, wait) if _is_busy(error.status_code) else math.inf
                if attempt == _RETRIES or time.monotonic() + wait >= until:
                    raise
            time.sleep(wait)
            attempt += 1

    def _pieces(self, messages: Sequence[Message], until: float) -> Generator[str, None, None]:
        """Yield the pieces of one attempt."""
        try:
            response = self._request(messages, until, stream=True)
        except Exception as error:
            raise self._problem(error) from error
        http = response.http_response
        with closing(http):
            try:
                if "json" in http.headers.get("content-type", ""):  # a server that does not stream
                    yield str(json.loads(http.read())["choices"][0]["message"]["content"] or "")
                    return
                finished = False
                for chunk in response.parse():
                    for choice in getattr(chunk, "choices", None) or ():
                        if choice.delta is not None:  # empty while a model thinks
                            yield choice.delta.content or ""
                        finished = finished or choice.finish_reason is not None
            except Exception as error:
                raise self._problem(error, streaming=True) from error
        if not finished:
            raise self._broken("the connection ended before the answer did")

    def _problem(self, error: Exception, *, streaming: bool = False) -> LLMError:  # noqa: PLR0911 - one for each kind
        """Return an exception of the client as one that says what to do."""
        import openai  # noqa: PLC0415 - as above

        # The HTTP library that openai uses, which depends on its version.
        httpx: Any = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            has_key = not self._headers
            return self._unreachable(refused_key(self.base_url, KEY_VARIABLE, error.status_code, has_key=has_key))
        if isinstance(error, openai.NotFoundError):
            advice = "check the name of the model, and that the URL ends in /v1"
            return self._error(
                f"{self.base_url} returned HTTP 404 for the model {self.model!r}: {_body(error)}: {advice}"
            )
        if isinstance(error, openai.APIStatusError):
            message = f"{self.base_url} returned HTTP {error.status_code}: {_body(error)}"
            is_busy = _is_busy(error.status_code)
            return self._unreachable(f"{message}: try again later") if is_busy else self._error(message)
        if isinstance(error, (openai.APITimeoutError, httpx.TimeoutException)):
            wait = f"{self.base_url} wrote nothing for {self.timeout:g} seconds: raise timeout, or use another model"
            return self._broken(wait) if streaming else self._unreachable(wait)
        if streaming and isinstance(error, (openai.APIConnectionError, httpx.HTTPError)):
            return self._broken(str(error) or type(error).__name__)
        if isinstance(error, (openai.APIConnectionError, httpx.HTTPError)):
            advice = "is the server running, and the URL right?"
            return self._unreachable(f"no answer from {self.base_url} ({_reason(error)}): {advice}")
        if streaming and isinstance(error, openai.APIError):  # an error in the stream itself
            return self._error(f"{self.base_url} stopped writing: {' '.join(str(error).split())[:200]}")
        return self._error(f"{self.base_url} did not return a chat completion ({error})")

    def _broken(self, why: str) -> LLMError:
        return self._error(f"the answer of {self.model} at {self.base_url} broke off ({why}): ask again", _BrokenOff)

    def _unreachable(self, message: str) -> LLMError:
        return self._error(message, LLMUnreachable)

    def _error(self, message: str, kind: type[LLMError] = LLMError) -> LLMError:
        return kind(message, endpoint=self.base_url, model=self.model)


class _BrokenOff(LLMError):
    """The answer ended in the middle. If nothing was written yet, the server is asked again."""


def _is_busy(status: int) -> bool:
    return status in _RETRIED or status >= 500


def _wait_asked(headers: Mapping[str, str], default: float) -> float:
    """Return how many seconds a server asks to wait before the next request."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):  # it may be a date
            return max(float(headers[name]) * unit, 0.0)
    return default


def _reason(error: Exception) -> str:
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error.__cause__ or "")) or str(error)


def _body(error: openai.APIStatusError) -> str:
    with suppress(Exception):
        return " ".join(error.response.text[:500].split())[:200]
    return str(error)[:200]


# -- any model


def as_chat_model(llm: Any) -> ChatModel:
    """Return any model as a :class:`ChatModel`.

    Parameters
    ----------
    llm
        A :class:`ChatModel` such as :class:`OpenAIChat`; a function that takes a prompt and returns a text; or a text
        as for ``--llm``: the name of a model of OpenAI, or ``http://host:port/v1/model``.

    Raises
    ------
    InputError
        It is none of these.
    """
    if isinstance(llm, str):
        return open_llm(llm)
    if isinstance(llm, type):
        raise InputError(f"llm is the class {llm.__name__}: pass an object of it")
    if isinstance(llm, ChatModel):
        return llm
    if callable(llm):
        return _Function(llm)
    raise InputError(
        f"{llm!r:.80} is not a language model: pass OpenAIChat(model, url), a function from a prompt to a text, or a "
        "text such as 'http://localhost:11434/v1/llama3.1'"
    )


def read_pieces(pieces: Iterable[_Piece], text_of: Callable[[_Piece], str]) -> Generator[str, None, None]:
    """Yield the text of each piece that a model yields. Closing it closes the model's generator."""
    try:
        yield from map(text_of, pieces)
    finally:
        if callable(close := getattr(pieces, "close", None)):
            close()


def complete(llm: Any, messages: Sequence[Message]) -> str:
    """Return a whole answer; raise :class:`~graphrag_core.errors.LLMError` whatever the model raises."""
    return "".join(checked_stream(as_chat_model(llm), messages))


def checked_stream(model: ChatModel, messages: Sequence[Message]) -> Generator[str, None, None]:
    """Yield the pieces of an answer. Whatever the model raises is an ``LLMError`` with the text written before."""
    written: list[str] = []
    length = 0
    try:
        with closing(read_pieces(model.stream(messages), _checked_text)) as pieces:
            for text in pieces:
                written.append(text)
                length += len(text)
                if length > _LONGEST:
                    problem = f"wrote more than {_LONGEST:,} characters and does not stop: use another one"
                    raise LLMError(f"the language model {_name(model)} {problem}", model=_name(model))  # noqa: TRY301 - gets its partial text below
                yield text
    except LLMError as error:
        error.partial = error.partial or "".join(written)
        raise
    except GraphRAGError:
        raise
    except Exception as error:
        name, partial = _name(model), "".join(written)
        reason = f"{'broke off' if partial else 'failed'} ({type(error).__name__}: {error})"
        message = f"the language model {name} {reason}: check its settings, or ask again"
        raise LLMError(message, model=name, partial=partial) from error


def _name(model: ChatModel) -> str:
    return str(getattr(model, "model", "") or type(model).__qualname__)


def _checked_text(piece: Any) -> str:
    if not isinstance(piece, str):
        kind = type(piece).__name__
        raise TypeError(f"stream() yielded {kind}, not str; a function from a prompt to a text can be passed instead")
    return piece.encode("utf-8", "replace").decode("utf-8")


class _Function:
    """A function from a prompt to a text, as a model that writes one piece."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function
        self.model = getattr(function, "__qualname__", type(function).__qualname__)

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        answer = self._function("\n\n".join(message["content"] for message in messages))
        if not isinstance(answer, str):
            raise TypeError(f"the function returned {type(answer).__name__}, not str")
        yield answer
