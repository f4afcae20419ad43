"""An embedder whose output is checked: usable vectors, or an error that names the document."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import DocumentError, EmbedderError, GraphRAGError, InputError
from graphrag_core.ports import Embedder, Matrix

_Error = TypeVar("_Error", bound=GraphRAGError)

DEFAULT_VECTOR_WEIGHT = 0.5  # of vector search, for an embedder that does not state it
_TINY = 1e-12
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
    if isinstance(known, str) and known:
        name = str.__str__(known)
    elif model := next((model for model in models if isinstance(model, str) and model), None):
        name = f"{name}({model})"
    return name.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")  # as a database can store it


def combined_error(base: type[_Error], message: str, error: BaseException) -> _Error:
    """Return an error of the library that also has the type and the attributes of another one.

    ``except EmbedderError`` and ``except openai.RateLimitError`` both catch it, and so do the exception types that
    a framework's retries and fallbacks are given. It has the library's type alone after pickling, and if the other
    type cannot be a base class.

    >>> error = combined_error(EmbedderError, "the model raised ConnectionError", ConnectionError("no route"))
    >>> isinstance(error, EmbedderError), isinstance(error, ConnectionError), str(error)
    (True, True, 'the model raised ConnectionError')
    """
    try:
        combined: _Error = _combined_type(cast("Any", base), cast("Any", type(error)))(message)
        combined.__dict__.update(vars(error))
    except Exception:  # noqa: BLE001 - a type that cannot be a base class, or that cannot be created so
        return base(message)
    return combined


@lru_cache(maxsize=64)
def _combined_type(base: type[Any], kind: type[BaseException]) -> Any:
    if issubclass(kind, (base, StopIteration, StopAsyncIteration)) or not issubclass(kind, Exception):
        return base  # a coroutine cannot raise StopIteration
    methods: dict[str, Any] = {
        "__module__": base.__module__,
        "__init__": lambda self, message: setattr(self, "args", (message,)),  # that of ``kind`` may need others
        "__str__": lambda self: str(self.args[0]),
        "__reduce__": lambda self: (base, self.args),
    }
    return type(base.__name__, (base, kind), methods)


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
        others = ~(np.abs(norms - 1) < _ROUNDING)
        if others.any():
            norms[~others] = 1
            vectors = (vectors / np.maximum(norms, _TINY)).astype(np.float32)
    return vectors


class CheckedEmbedder:
    """Wraps an embedder: returns unit vectors of one dimension, or raises :class:`EmbedderError`.

    ``dim`` is the dimension of the index; None until the first documents are embedded. ``vector_weight`` is the weight
    of vector search in plain search that suits the embedder.
    """

    def __init__(self, embedder: Embedder) -> None:
        for method in ("embed_documents", "embed_query"):
            if not callable(getattr(embedder, method, None)):
                kind = type(embedder).__qualname__
                raise InputError(f"{kind} is not an embedder: it needs embed_documents(list[str]) and embed_query(str)")
        self.embedder = embedder
        self.identity = identity_of(embedder)
        self.local = getattr(embedder, "local", False) is True
        weight = getattr(embedder, "vector_weight", None)
        self.vector_weight = float(weight) if isinstance(weight, (int, float)) else DEFAULT_VECTOR_WEIGHT
        self.dim: int | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether the embedder has ``token_ids``, ``embed_tokens`` and ``token_vectors``."""
        methods = "token_ids", "embed_tokens", "token_vectors"
        return all(callable(getattr(self.embedder, method, None)) for method in methods)

    def token_ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint16]]:
        """Return the ids of the tokens of each text, in order."""
        ids = [np.asarray(one) for one in self._call(f"{len(texts)} texts", "token_ids", list(texts))]
        if len(ids) != len(texts) or any(one.dtype != np.uint16 or one.ndim != 1 for one in ids):
            raise EmbedderError(
                f"{self.identity} returned invalid token ids for {len(texts)} texts: token_ids must return one 1-D "
                "array of uint16 for each text, so leave the method out for a vocabulary of more than 65,536 tokens"
            )
        return ids

    def token_vectors(self, ids: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Return the unit vectors of tokens, one row each."""
        vectors: Matrix = self._call(f"{len(ids)} tokens", "token_vectors", ids)
        return vectors

    def embed_tokens(self, counts: npt.NDArray[np.int64], ids: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Return the unit vectors of texts, given the number of tokens of each and their ids."""
        vectors: Matrix = self._call(f"{len(counts)} texts", "embed_tokens", counts, ids)
        return vectors

    def documents(
        self, texts: Sequence[str], owners: Sequence[str], embeddings: Mapping[str, Any] | None = None
    ) -> Matrix:
        """Return a unit vector for each text.

        ``owners`` are the ids of the documents of the texts, for error messages. ``embeddings`` are known vectors of
        texts; the others are embedded.
        """
        if not texts:
            return np.empty((0, self.dim or 0), np.float32)
        known = embeddings or {}
        missing = [text for text in texts if text not in known]
        vectors = np.empty((0, self.dim or 0), np.float32)
        if missing:
            of_first = f"{len(missing)} texts, the first of document {owners[0]!r}"
            vectors = self._checked(self._call(of_first, "embed_documents", missing), len(missing), owners)
        if len(missing) < len(texts):
            fresh = iter(vectors)
            vectors = self._checked([known[t] if t in known else next(fresh) for t in texts], len(texts), owners)
        self.dim = vectors.shape[1]
        return vectors

    def query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        return self.checked_query(self._call("a question", "embed_query", text))

    def checked_query(self, raw: object) -> Matrix:
        """Return what the embedder returned for a question as a unit vector."""
        vector: Matrix = self._checked([raw], 1, ["the question"])[0]
        return vector

    async def awaited_documents(self, texts: Sequence[str], vectors: Awaitable[Any]) -> dict[str, Matrix]:
        """Return the vectors that an embedder computes on the event loop, by text; see :meth:`documents`."""
        try:
            raw = await vectors
        except Exception as error:
            raise self._named(error, f"{len(texts)} texts") from error
        return dict(zip(texts, self._checked(raw, len(texts), [text[:40] for text in texts]), strict=True))

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vector of each question: in one call if the embedder has ``embed_queries``."""
        if not callable(getattr(self.embedder, "embed_queries", None)):
            return np.stack([self.query(text) for text in texts]) if texts else np.empty((0, self.dim or 0), np.float32)
        raw = self._call(f"{len(texts)} questions", "embed_queries", list(texts))
        return self._checked(raw, len(texts), ["the question"] * len(texts))

    def _call(self, texts: str, method: str, *given: Any) -> Any:
        """Call a method of the embedder. What it raises becomes an :class:`EmbedderError` that says for which texts."""
        try:
            return getattr(self.embedder, method)(*given)
        except Exception as error:
            raise self._named(error, texts) from error

    def _named(self, error: Exception, texts: str) -> EmbedderError:
        message = f"{self.identity} raised {type(error).__name__} on {texts}: {error}"
        return combined_error(EmbedderError, message, error)

    def given(self, document_id: str, vector: Sequence[float]) -> Matrix:
        """Return the vector that was passed for a document as a unit vector."""
        try:
            unit = unit_vector(vector, self.dim)
        except ValueError as error:
            raise DocumentError(document_id, f"its vector {error}") from error
        self.dim = len(unit)
        return unit

    def _checked(self, raw: object, count: int, owners: Sequence[str]) -> Matrix:
        try:
            vectors = _unit_vectors(raw)
        except Exception as error:  # __array__ of a foreign type may raise anything
            raise EmbedderError(
                f"{self.identity} returned vectors of different lengths, or not numbers, for {count} texts "
                f"(the first of document {owners[0]!r}): {error}"
            ) from error
        if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
            raise EmbedderError(
                f"{self.identity} returned an array of shape {vectors.shape} for {count} texts "
                f"(the first of document {owners[0]!r}): it must return one vector for each text"
            )
        if self.dim is not None and vectors.shape[1] != self.dim:
            raise EmbedderError(
                f"{self.identity} returned vectors of dimension {vectors.shape[1]}, the index has {self.dim}: "
                f"use the embedder that built it (the first text is of document {owners[0]!r})"
            )
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise EmbedderError(f"{self.identity} returned NaN or infinity for document {owners[int(bad[0])]!r}")
        return vectors
