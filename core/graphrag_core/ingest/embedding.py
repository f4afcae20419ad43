"""An embedder whose output is checked, usable vectors or an error; and the texts of passages that are embedded."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import EmbedderError, GraphRAGError, InputError
from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Embedder, Matrix, ParsedDocument
from graphrag_core.text import chunk_text, fact_text, label
from graphrag_core.text.markup import plain

Vectors = Mapping[str, Sequence[float]]
"""Vectors by document id, or by text."""

DEFAULT_VECTOR_WEIGHT = 0.5  # of vector search, for an embedder that does not state it

_Error = TypeVar("_Error", bound=GraphRAGError)
_ROUNDING = 2e-6  # how far the norm of a unit vector in single precision may be from 1


def identity_of(embedder: Embedder) -> str:
    """Return the string by which an index recognises an embedder: its ``identity``, else its class and model."""
    kind = type(embedder)
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        if (cached := getattr(embedder, "underlying_embeddings", None)) is not None:  # of a cache: with and without it
            return identity_of(cached)
        known = getattr(embedder, "identity", None)
        models = [getattr(embedder, model, None) for model in ("model_name", "model", "model_id", "deployment")]
    except Exception as error:
        raise InputError(f"the identity of {name} cannot be read ({type(error).__name__}: {error})") from error
    model = next((model for model in models if isinstance(model, str) and model), "")
    name = known if isinstance(known, str) and known else f"{name}({model})" if model else name
    return str.__str__(name).encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")  # as it can be stored


def combined_error(base: type[_Error], message: str, error: BaseException) -> _Error:
    """Return an error of the library that also has the type and the attributes of another one.

    ``except EmbedderError`` and ``except openai.RateLimitError`` both catch it, and so do the exception types that
    a framework's retries and fallbacks are given. It has the library's type alone after pickling, and if the other
    type cannot be a base class.

    >>> error = combined_error(EmbedderError, "the model raised ConnectionError", ConnectionError("no route"))
    >>> isinstance(error, EmbedderError), isinstance(error, ConnectionError), str(error)
    (True, True, 'the model raised ConnectionError')
    """
    kind = type(error)
    if not issubclass(kind, Exception) or issubclass(kind, (base, StopIteration, StopAsyncIteration)):
        return base(message)  # a coroutine cannot raise StopIteration
    methods = {
        "__module__": base.__module__,
        "__init__": lambda self, message: setattr(self, "args", (message,)),  # that of ``kind`` may need others
        "__str__": lambda self: str(self.args[0]),
        "__reduce__": lambda self: (base, self.args),
    }
    with suppress(Exception):  # a type that cannot be a base class, or that cannot be created so
        combined: _Error = type(base.__name__, (base, kind), methods)(message)
        combined.__dict__.update(vars(error))
        return combined
    return base(message)


def question_error(problem: str, error: BaseException) -> EmbedderError:
    """Return the error of a query whose question cannot be embedded; ``error`` is what embedding it raised."""
    cause = error.__cause__ if isinstance(error, EmbedderError) and error.__cause__ else error
    hint = 'Retry, or set on_embedder_error="keyword" to search by keyword and graph without the embedder'
    combined = combined_error(EmbedderError, f"{problem}. {hint}", cause)
    combined.__cause__ = cause
    return combined


def unit_vector(values: Iterable[float], dim: int | None) -> Matrix:
    """Return numbers as a unit vector; raise ``ValueError`` that says what is wrong with them."""
    try:
        vector = _unit_vectors(values if hasattr(values, "__len__") else list(values))
    except Exception as error:  # __array__ of a foreign type may raise anything
        raise ValueError(f"must be a 1-D array of numbers: {error}") from error
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ValueError(f"has shape {vector.shape}: it must be a 1-D array of finite numbers")
    if dim is not None and len(vector) != dim:
        raise ValueError(f"has dimension {len(vector)}, the index has dimension {dim}: use the index's embedder")
    return vector


def _unit_vectors(values: object) -> Matrix:
    """Return vectors with norm 1; raise if they are not real numbers.

    Unit vectors do not change, however often they pass through here. What is infinite becomes NaN.
    """
    array = np.asarray(values)
    if array.dtype.kind == "O":  # such as fractions, or the numbers of another library
        array = np.array(values, np.float64)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"they are of type {array.dtype}, not numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = np.array(array, np.float32)
        wide = vectors.astype(np.float64)
        norms = np.sqrt(np.vecdot(wide, wide))[..., None]
        norms[np.abs(norms - 1) < _ROUNDING] = 1
        unit: Matrix = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return unit


class CheckedEmbedder:
    """Wraps an embedder: returns unit vectors of one dimension, or raises :class:`EmbedderError`.

    ``dim`` is the dimension of the index; None until the first documents are embedded. ``vector_weight`` is the weight
    of vector search in plain search that suits the embedder. ``has_tokens`` is whether the embedder has ``token_ids``,
    ``embed_tokens`` and ``token_vectors``.
    """

    def __init__(self, embedder: Embedder) -> None:
        for method in ("embed_documents", "embed_query"):
            if not callable(getattr(embedder, method, None)):
                kind = type(embedder).__qualname__
                raise InputError(f"{kind} is not an embedder: it needs embed_documents(list[str]) and embed_query(str)")
        self.embedder = embedder
        self.identity = identity_of(embedder)
        weight = getattr(embedder, "vector_weight", None)
        self.vector_weight = float(weight) if isinstance(weight, (int, float)) else DEFAULT_VECTOR_WEIGHT
        self.embed_tokens: Any = getattr(embedder, "embed_tokens", None)
        self.token_vectors: Any = getattr(embedder, "token_vectors", None)
        self.has_tokens = all(map(callable, (getattr(embedder, "token_ids", 0), self.embed_tokens, self.token_vectors)))
        self.dim: int | None = None

    def documents(self, texts: Mapping[str, str], known: Vectors = MappingProxyType({})) -> dict[str, Matrix]:
        """Return the unit vector of each text, by text: that of ``known``, or a new one.

        The values of ``texts`` are the ids of the documents that have the text, for error messages.
        """
        found: dict[str, Matrix] = {}
        missing, given = [text for text in texts if text not in known], [text for text in texts if text in known]
        for own in filter(None, (missing, given)):
            owners = [texts[text] for text in own]
            raw = [known[text] for text in own] if own is given else self._call("embed_documents", own, owners[0])
            vectors = self._checked(raw, owners)
            self.dim = vectors.shape[1]
            found |= zip(own, vectors, strict=True)
        return found

    def query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        try:
            raw = self.embedder.embed_query(text)
        except Exception as error:
            raise self._error(error, "a question") from error
        return self.checked_query(raw)

    def checked_query(self, raw: object) -> Matrix:
        """Return what the embedder returned for a question as a unit vector."""
        vector: Matrix = self._checked([raw], ["the question"])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vector of each question: in one call if the embedder has ``embed_queries``."""
        if not callable(getattr(self.embedder, "embed_queries", None)):
            return np.stack([self.query(text) for text in texts]) if texts else np.empty((0, self.dim or 0), np.float32)
        return self._checked(self._call("embed_queries", list(texts), "the question"), ["the question"] * len(texts))

    async def awaited_documents(self, texts: Sequence[str], vectors: Awaitable[Any]) -> dict[str, Matrix]:
        """Return the vectors that an embedder computes on the event loop, by text."""
        try:
            raw = await vectors
        except Exception as error:
            raise self._error(error, f"{len(texts)} texts") from error
        return dict(zip(texts, self._checked(raw, [text[:40] for text in texts]), strict=True))

    def token_ids(self, texts: list[str]) -> list[npt.NDArray[np.uint16]]:
        """Return the ids of the tokens of each text, in order."""
        ids = [np.asarray(one) for one in self._call("token_ids", texts, "".join(texts[:1])[:40])]
        if len(ids) != len(texts) or any(one.dtype != np.uint16 or one.ndim != 1 for one in ids):
            raise EmbedderError(
                f"{self.identity} returned invalid token ids for {len(texts)} texts: token_ids must return one 1-D "
                "array of uint16 for each text, so leave the method out for a vocabulary of more than 65,536 tokens"
            )
        return ids

    def _call(self, method: str, texts: list[str], first: str) -> Any:
        try:
            return getattr(self.embedder, method)(texts)
        except Exception as error:
            raise self._error(error, f"{len(texts)} texts, the first of document {first!r}") from error

    def _error(self, error: Exception, texts: str) -> EmbedderError:
        message = f"{self.identity} raised {type(error).__name__} on {texts}: {error}"
        return combined_error(EmbedderError, message, error)

    def _checked(self, raw: object, owners: Sequence[str]) -> Matrix:
        """Return what the embedder returned for texts of these documents as unit vectors."""
        first = f"for {len(owners)} texts, the first of document {owners[0]!r}"
        try:
            vectors = _unit_vectors(raw)
        except Exception as error:  # __array__ of a foreign type may raise anything
            problem = f"returned vectors of different lengths, or not numbers, {first}"
            raise EmbedderError(f"{self.identity} {problem}: {error}") from error
        if vectors.ndim != 2 or len(vectors) != len(owners) or vectors.shape[1] == 0:
            problem = f"returned an array of shape {vectors.shape} {first}: it must return one vector for each text"
        elif self.dim is not None and vectors.shape[1] != self.dim:
            problem = f"returned vectors of dimension {vectors.shape[1]}, the index has {self.dim}, {first}"
            problem += ": use the embedder that built it"
        elif len(bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
            problem = f"returned NaN or infinity for document {owners[int(bad[0])]!r}"
        else:
            return vectors
        raise EmbedderError(f"{self.identity} {problem}")


# -- of documents


def embedded_texts(parsed: ParsedDocument) -> list[str]:
    """Return the texts that are embedded for a document's chunks."""
    return [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in parsed.chunks]


def with_tokens(embedder: CheckedEmbedder, parsed: Sequence[ParsedDocument]) -> list[ParsedDocument]:
    """Return documents with the tokens of each chunk, packed: of its label, its facts and the rest of its text."""
    parts = [[_parts(*pair) for pair in zip(one.chunks, one.extractions, strict=True)] for one in parsed]
    ids = iter(embedder.token_ids([text for own in parts for texts in own for text in texts]))
    found = []
    for one, own in zip(parsed, parts, strict=True):
        tokens = [[next(ids).astype("<u2") for _ in texts] for texts in own]
        counts = [np.array([*map(len, each)], "<u2").tobytes() for each in tokens]
        found.append(replace(one, chunk_tokens=[np.concatenate(e).tobytes() for e in tokens], token_counts=counts))
    return found


def _parts(chunk: Chunk, extraction: Extraction) -> list[str]:
    name, text, at = label(chunk.title, chunk.headings), plain(chunk.text), 0
    parts, rest = [name], []
    for fact in extraction.facts:
        if fact.relation:
            parts.append(fact_text(name, fact.text, fact.relation, (*fact.entities, fact.value)))
            continue
        parts.append(fact.text)
        if (start := text.find(fact.text, at)) >= 0:
            rest.append(text[at:start])
            at = start + len(fact.text)
    return [*parts, " ".join([*rest, text[at:]])]
