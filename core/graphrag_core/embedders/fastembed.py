"""``FastEmbed``: embed with a model that the package fastembed runs."""

from functools import partial
from typing import Any

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import InputError, MissingDependency
from graphrag_core.ports import Matrix


class FastEmbed:
    """Embed texts on the CPU with a model that fastembed knows, such as ``"BAAI/bge-small-en-v1.5"``.

    Parameters
    ----------
    model
        A name that fastembed knows.
    batch_size
        Texts in a batch. In a batch of more than one, a quantised model's vectors depend a little on the other texts.
    local_files_only
        By default the model is loaded from fastembed's cache and nothing is downloaded. Pass False once to download it.
    options
        Options of fastembed's ``TextEmbedding``, such as ``cache_dir``, ``threads`` or ``cuda``.

    Raises
    ------
    InputError
        fastembed does not know the model, or cannot load it.
    MissingDependency
        fastembed is not installed.
    """

    embedded = False
    local = True

    def __init__(self, model: str, *, batch_size: int = 1, local_files_only: bool = True, **options: Any) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: it must be at least 1")
        self.model = model
        self.identity = f"fastembed:{model}"
        self._batch_size = batch_size
        self._load = partial(_load, model, local_files_only, options)
        self._copy = partial(type(self), model, batch_size=batch_size, local_files_only=local_files_only, **options)
        self._model: Any = self._load()
        forks.watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def __repr__(self) -> str:
        return f"FastEmbed({self.model!r})"

    def after_fork_in_child(self) -> None:
        """Load the model again when it is next used: the threads of a session are in the parent."""
        forks.leak(self._model)
        self._model = None

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one vector per text, as rows."""
        if not texts:
            return np.empty((0, 0), np.float32)
        return np.stack(list(self._loaded().passage_embed(texts, batch_size=self._batch_size))).astype(np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a question."""
        vector: Matrix = np.asarray(next(iter(self._loaded().query_embed(text))), np.float32)
        return vector

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model


def _load(model: str, local_files_only: bool, options: dict[str, Any]) -> Any:
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise MissingDependency("fastembed", "fastembed", "An embedder of fastembed") from error
    try:
        return TextEmbedding(model, local_files_only=local_files_only, **options)
    except ValueError as error:
        once = (
            f'python -c "from graphrag_core.embedders import FastEmbed; FastEmbed({model!r}, local_files_only=False)"'
        )
        advice = f": to download it once, run {once}" if local_files_only else ""
        raise InputError(f"fastembed cannot load {model!r} ({' '.join(str(error).split())[:200]}){advice}") from error
