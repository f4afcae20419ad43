"""Everything the library raises on purpose.

::

    GraphRAGError
    ├── InputError              a value handed in cannot be used (also a ValueError)
    │   ├── DocumentError       a document; carries ``document_id``
    │   ├── FileError           a file to be read in; the message goes on from its name
    │   └── FilterError         a ``where`` filter
    ├── EmbedderError           an embedder answered with something unusable
    │   └── EmbedderMismatch    an index was opened with another embedder than built it
    ├── ExtractionError         an extractor broke its contract
    ├── StorageError            the index's files
    │   ├── NotAnIndex          a folder that holds something else
    │   ├── UnsupportedFormat   written by a newer release
    │   ├── IndexLocked         another process is writing
    │   ├── ReadOnlyIndex       a write to an index that was opened for reading
    │   ├── IndexClosed         use after ``close``
    │   └── DiskError           full disk, read-only folder, failing device
    └── MissingDependency       an optional package is not installed (also an ImportError)

Each message says what was wrong with which input and what to do about it. When one of
these is raised by a call that writes, the index is exactly as before that call (of a call
longer than ``batch_size``, as after the last whole batch).
"""

from __future__ import annotations


class GraphRAGError(Exception):
    """The root: catch this to catch everything the library raises on purpose."""


class InputError(GraphRAGError, ValueError):
    """A value handed in cannot be used."""


class DocumentError(InputError):
    """A document cannot be indexed; ``document_id`` says which."""

    def __init__(self, document_id: object, problem: str) -> None:
        super().__init__(f"document {document_id!r}: {problem}")
        self.document_id = document_id


class FileError(InputError):
    """A file cannot be read; the message is what follows its name: "is binary, not text"."""


class FilterError(InputError):
    """A ``where`` filter has an unknown key, an unknown operator or an unusable value."""


class EmbedderError(GraphRAGError):
    """An embedder raised, or returned vectors that cannot be stored."""


class EmbedderMismatch(EmbedderError):
    """An index was opened with another embedder than the one that built it."""


class ExtractionError(GraphRAGError):
    """An extractor broke its contract: one extraction for each chunk, in order."""


class StorageError(GraphRAGError):
    """The index's files cannot be used as asked."""


class NotAnIndex(StorageError):
    """The folder exists and holds something other than an index."""


class UnsupportedFormat(StorageError):
    """The index was written by a release with another format."""


class IndexLocked(StorageError):
    """Another process, or another object of this one, has the index open for writing."""


class ReadOnlyIndex(StorageError):
    """A write to an index that was opened with ``read_only=True``."""


class IndexClosed(StorageError):
    """The index was closed."""


class DiskError(StorageError):
    """The disk is full, the folder cannot be written, or the device fails."""


class MissingDependency(GraphRAGError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package!r}: pip install 'hybrid-graphrag[{extra}]'")
