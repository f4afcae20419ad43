"""The exceptions that the library raises.

::

    GraphRAGError
    ├── InputError              an argument cannot be used (also a ValueError)
    │   ├── DocumentError       a document; has ``document_id``
    │   │   └── IdTaken         its id, or the id of a passage, belongs to another document
    │   ├── ConfigError         hybrid-graphrag.toml
    │   ├── FileError           a file to index; the message continues after its name
    │   └── FilterError         a ``where`` filter
    ├── EmbedderError           an embedder failed or returned unusable vectors
    │   └── EmbedderMismatch    the index was built with another embedder
    ├── ExtractionError         an extractor violated its contract
    ├── RerankerError           a reranker violated its contract
    ├── LLMError                a language model failed; has ``partial``
    │   └── LLMUnreachable      its server does not answer, or rejects the API key
    ├── StorageError            the index's files cannot be used
    │   ├── NotAnIndex          the folder contains no index, or something else
    │   ├── DamagedIndex        the records are damaged: restore a backup
    │   ├── UnsupportedFormat   written by another release
    │   ├── IndexLocked         already open for writing
    │   ├── ReadOnlyIndex       a write to an index opened with ``read_only=True``
    │   ├── IndexClosed         the index was used after ``close``
    │   ├── DiskError           disk full, folder not writable, device failure
    │   └── DatabaseError       a database server cannot be reached, or refused a statement
    │       └── ChangedMeanwhile    another process changed what a write relied on
    └── MissingDependency       an optional package is not installed (also an ImportError)

Each message says which input was wrong and what to do about it. Writes are atomic: if a call
raises one of these, the index is unchanged, except for batches (of ``batch_size`` documents) that
were committed before. After any other exception, such as ``KeyboardInterrupt``, a batch is complete
or not there, and the index answers from one generation.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from operator import index as as_integer
from typing import Any


class GraphRAGError(Exception):
    """The base class of all exceptions of the library."""


class InputError(GraphRAGError, ValueError):
    """An argument cannot be used."""


class DocumentError(InputError):
    """A document cannot be indexed; ``document_id`` is its id."""

    def __init__(self, document_id: object, problem: str) -> None:
        super().__init__(f"document {document_id!r}: {problem}")
        self.document_id = document_id


class IdTaken(DocumentError):
    """The id of a document, or of one of its passages, belongs to another document."""


class ConfigError(InputError):
    """A configuration file cannot be read, or has a key or a value that cannot be used."""


class FileError(InputError):
    """A file cannot be read; the message is worded to follow its name: "is binary, not text"."""


class FilterError(InputError):
    """A ``where`` filter has an unknown operator or an unusable value."""


class EmbedderError(GraphRAGError):
    """An embedder raised an exception or returned vectors that cannot be stored."""


class EmbedderMismatch(EmbedderError):
    """The index was built with another embedder than the one it is opened with."""


class ExtractionError(GraphRAGError):
    """An extractor violated its contract: one extraction for each chunk, in order."""


class RerankerError(GraphRAGError):
    """A reranker violated its contract, for instance by changing the passages that it was to order."""


class LLMError(GraphRAGError):
    """A language model failed.

    ``endpoint`` and ``model`` say which one. ``partial`` is the text that it had written before, empty if it had not
    begun.
    """

    def __init__(self, message: str, *, endpoint: str = "", model: str = "", partial: str = "") -> None:
        super().__init__(message)
        self.endpoint = endpoint
        self.model = model
        self.partial = partial


class LLMUnreachable(LLMError):
    """The server of a language model does not answer, or rejects the API key."""


class DeadlineExceeded(GraphRAGError):
    """The time limit of a request has passed (:mod:`graphrag_core.deadline`)."""


class StorageError(GraphRAGError):
    """The files of an index cannot be opened, read or written."""


class NotAnIndex(StorageError):
    """The folder contains no index, something else, or an index whose creation was interrupted."""


class DamagedIndex(StorageError):
    """The rows of an index are damaged. Damaged search arrays raise no error: they are rebuilt from the rows."""


class UnsupportedFormat(StorageError):
    """The index was written by a release with another file format."""


class IndexLocked(StorageError):
    """The index is already open for writing, in another process or in this one."""


class ReadOnlyIndex(StorageError):
    """A write to an index that was opened with ``read_only=True``."""


class IndexClosed(StorageError):
    """The index was used after ``close``."""


class DiskError(StorageError):
    """The disk is full, the folder is not writable or the device failed."""


class DatabaseError(StorageError):
    """A database server cannot be reached, has no room for another connection, or refused a statement.

    ``lost`` is true if the connection was lost or the transaction conflicted with another: nothing was changed, and
    the same call may succeed later.
    """

    lost = False


class ChangedMeanwhile(DatabaseError):
    """Another process changed what a write relied on. Nothing was written; the same call may succeed."""


class MissingDependency(GraphRAGError, ImportError):
    """An optional package is not installed; the message contains the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package!r}: pip install 'hybrid-graphrag[{extra}]'")


def check_integer(value: Any, name: str, least: int = 1, most: int = (1 << 31) - 1) -> int:
    """Return an argument that is an integer within bounds; search indexes count with 32 bits.

    >>> check_integer(0, "k")
    Traceback (most recent call last):
    graphrag_core.errors.InputError: k is 0: use an integer of at least 1, below 2^31
    """
    try:
        integer = as_integer(value)
    except TypeError:
        integer = least - 1
    if isinstance(value, bool) or not least <= integer <= most:
        wanted = f"from {least} to {most}" if most < (1 << 31) - 1 else f"of at least {least}, below 2^31"
        raise InputError(f"{name} is {value!r:.80}: use an integer {wanted}")
    return integer


def check_number(value: Any, name: str, most: float = math.inf) -> float:
    """Return an argument that is a finite number of at least 0, as a float."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most or value == math.inf:
        wanted = "a number of at least 0" if most == math.inf else f"a number from 0 to {most:g}"
        raise InputError(f"{name} is {value!r:.80}: use {wanted}")
    return float(value)


@contextmanager
def optional_import(package: str, extra: str, purpose: str) -> Iterator[None]:
    """Raise :class:`MissingDependency` if what is imported inside is not installed.

    >>> with optional_import("no-such-package", "files", "Reading files"):
    ...     import no_such_package
    Traceback (most recent call last):
    graphrag_core.errors.MissingDependency: Reading files needs 'no-such-package': pip install 'hybrid-graphrag[files]'
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependency(package, extra, purpose) from error


_OTHER_NAMES = {"similarity_top_k": "k", "top_k": "k", "limit": "k", "n_results": "k", "search_type": "method"}


def unknown_name(name: str, known: Iterable[str], kind: str) -> str:
    """Return the message for an unknown name: the nearest known one, or all of them.

    >>> unknown_name("vector_wight", ["vector_weight", "k"], "setting")
    "unknown setting 'vector_wight': did you mean 'vector_weight'?"
    """
    names = list(known)
    same = [one for one in names if one.lower() == name.lower()]
    others = [other for other, one in _OTHER_NAMES.items() if one in names]
    near = (
        same or [_OTHER_NAMES[one] for one in get_close_matches(name, others, 1)] or get_close_matches(name, names, 1)
    )
    if near:
        return f"unknown {kind} {name!r}: did you mean {near[0]!r}?"
    return f"unknown {kind} {name!r}: use {', '.join(names)}"
