"""Language models that write text: any OpenAI-compatible endpoint, functions, and what implements ``ChatModel``.

:func:`as_chat_model` turns each of them into a :class:`ChatModel`. ``openai`` is imported only where
:class:`OpenAIChat` is used; it asks a busy or failing server again.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from graphrag_core.embedders.openai import DEFAULT_URL, Endpoint
from graphrag_core.errors import GraphRAGError, InputError, LLMError, LLMUnreachable

KEY_VARIABLE = Endpoint.key_variable
"""The environment variable with the API key."""

_LONGEST = 4_000_000  # characters of an answer
_MAX_FAILURES = 3  # consecutive calls that failed after all retries


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


class OpenAIChat(Endpoint):
    """A model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LM Studio and others.

    Safe to use from several threads. :meth:`stream` writes an answer in pieces; calling the object with a prompt
    returns a whole one, for :class:`~graphrag_core.LLMExtractor`. Needs the package ``openai``.

    Parameters
    ----------
    model
        The model's name, as the server knows it.
    base_url
        The endpoint, which for most servers ends in ``/v1``.
    api_key
        Sent to the server; never printed or stored. None sends ``OPENAI_API_KEY`` of the environment to OpenAI's own
        endpoint, and no key to any other. An empty text sends none.
    timeout
        Seconds until the answer begins, in each attempt, and for each next piece of it.
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
        is_foreign = base_url.rstrip("/") != DEFAULT_URL
        super().__init__(model, base_url, "" if api_key is None and is_foreign else api_key, timeout, retries=2)
        self._failures: list[str] = []  # of the last calls, each after all retries
        self._options: dict[str, Any] = {} if temperature is None else {"temperature": temperature}

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, None]:
        """Yield the answer to a conversation, in pieces. Closing the generator closes the connection.

        Raises
        ------
        LLMError
            The server does not answer, answers with an error, or stops in the middle of an answer.
        """
        finished, problem = False, f"the answer of {self.model} at {self.base_url} broke off"
        try:
            with closing(self._create(messages, stream=True)) as chunks:
                for choice in (choice for chunk in chunks for choice in chunk.choices):
                    finished = finished or choice.finish_reason is not None
                    if choice.delta.content:  # empty while a model thinks
                        yield choice.delta.content
        except LLMError:
            raise
        except Exception as error:
            raise self._failed(f"{problem} ({error or type(error).__name__}): ask again") from error
        if not finished:
            raise self._failed(f"{problem} before its end: ask again")

    def __call__(self, prompt: str) -> str:
        """Return the model's answer to a prompt. Stops calling a server that no longer answers."""
        if len(self._failures) >= _MAX_FAILURES:
            message = f"{self.base_url} has stopped answering: {self._failures[-1]}"
            raise LLMUnreachable(message, endpoint=self.base_url, model=self.model)
        try:
            answer = self._create([Message(role="user", content=prompt)]).choices[0].message.content or ""
        except LLMUnreachable as error:
            self._failures.append(str(error))
            raise
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise self._failed(f"{self.base_url} did not return a chat completion ({error})") from error
        self._failures.clear()
        return str(answer)

    def check(self) -> None:
        """Raise :class:`~graphrag_core.errors.LLMUnreachable` if the server does not answer or rejects the key."""
        try:
            self.request(
                lambda client, options: client.with_options(max_retries=0).models.list(timeout=10.0, **options)
            )
        except LLMError as error:
            if getattr(error.__cause__, "status_code", 401) in (401, 403):  # else it answers; some cannot list models
                raise

    def _create(self, messages: Sequence[Message], **more: Any) -> Any:
        """Return the response of the server, or its pieces."""
        given = {"model": self.model, "messages": list(messages), **self._options, **more}
        return self.request(lambda client, options: client.chat.completions.create(**given, **options))

    def _failed(self, message: str, error: Any = None) -> LLMError:
        """Return an error; that of a request says whether another one can succeed."""
        status = 0 if error is None else getattr(error, "status_code", None) or 500  # without an answer
        kind = LLMUnreachable if status in (401, 403, 429) or status >= 500 else LLMError
        return kind(message, endpoint=self.base_url, model=self.model)


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


def checked_stream(model: ChatModel, messages: Sequence[Message]) -> Generator[str, None, None]:
    """Yield the pieces of an answer. Whatever the model raises is an ``LLMError`` with the text written before."""
    written, name = "", str(getattr(model, "model", "") or type(model).__qualname__)
    pieces = model.stream(messages)
    try:
        for piece in pieces:
            if not isinstance(piece, str):
                raise TypeError(f"a piece of the answer is {type(piece).__name__}, not str")  # noqa: TRY301
            text = piece.encode("utf-8", "replace").decode("utf-8")
            written += text
            if len(written) > _LONGEST:
                problem = f"wrote more than {_LONGEST:,} characters and does not stop: use another one"
                raise LLMError(f"the language model {name} {problem}", model=name)  # noqa: TRY301
            yield text
    except LLMError as error:
        error.partial = error.partial or written
        raise
    except GraphRAGError:
        raise
    except Exception as error:
        reason = f"{'broke off' if written else 'failed'} ({type(error).__name__}: {error})"
        message = f"the language model {name} {reason}: check its settings, or ask again"
        raise LLMError(message, model=name, partial=written) from error
    finally:
        if callable(close := getattr(pieces, "close", None)):
            close()


class _Function:
    """A function from a prompt to a text, as a model that writes one piece."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function
        self.model = getattr(function, "__qualname__", type(function).__qualname__)

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        yield self._function("\n\n".join(message["content"] for message in messages))
