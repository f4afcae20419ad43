"""``Onnx`` and ``FastEmbed``: embed on the CPU with a model file, or with a model that the package fastembed runs."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import InputError, check_integer, optional_import
from graphrag_core.ports import Matrix


class LocalModel:
    """A model that runs in this process. A pickle has its settings, and a forked process loads it again."""

    local = True
    identity: str

    def __init__(self, load: Callable[[], Any], copy: Callable[[], Any]) -> None:
        self._load, self._copy = load, copy
        self._model = load()
        forks.watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def after_fork_in_child(self) -> None:
        """Load the model again when it is next used: its threads are in the parent."""
        forks.leak(self._model)
        self._model = None

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model


class Onnx(LocalModel):
    """Embed texts with an ONNX model on the CPU, such as all-MiniLM-L6-v2.

    Each text is run separately: quantised models scale activations per batch, so in a batch a
    text's vector would depend on the other texts.

    Parameters
    ----------
    folder
        The folder with ``model.onnx`` and ``tokenizer.json``. The model takes ``input_ids`` and
        ``attention_mask``. Its first output is one vector per text, or one per token, in which
        case they are averaged (mean pooling).
    max_tokens
        Longer texts are truncated to this length.
    threads
        CPU threads per run; 0 lets the runtime choose.

    Raises
    ------
    InputError
        The folder lacks one of the two files.
    MissingDependency
        onnxruntime or tokenizers is not installed.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = 256, threads: int = 0) -> None:
        folder = Path(folder)
        super().__init__(
            partial(load_model, folder, threads, "ONNX embedder"),
            partial(type(self), folder.resolve(), max_tokens=max_tokens, threads=threads),
        )
        session, self._tokenizer, content = self._model
        self._inputs = {item.name for item in session.get_inputs()}
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.identity = f"onnx-{folder.name}-{content}-{max_tokens}"

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per text, as rows."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.empty((0, 0), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        session = self._loaded()[0]
        out = session.run(None, {name: feeds[name] for name in self._inputs if name in feeds})[0][0]
        vector = out.mean(axis=0) if out.ndim == 2 else out
        unit: Matrix = (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
        return unit


class FastEmbed(LocalModel):
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

    def __init__(self, model: str, *, batch_size: int = 1, local_files_only: bool = True, **options: Any) -> None:
        check_integer(batch_size, "batch_size")
        super().__init__(
            partial(load_fastembed, "", "TextEmbedding", model, local_files_only, options),
            partial(type(self), model, batch_size=batch_size, local_files_only=local_files_only, **options),
        )
        self.model = model
        self.identity = f"fastembed:{model}"
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"FastEmbed({self.model!r})"

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one vector per text, as rows."""
        if not texts:
            return np.empty((0, 0), np.float32)
        return np.stack(list(self._loaded().passage_embed(texts, batch_size=self._batch_size))).astype(np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a question."""
        vector: Matrix = np.asarray(next(iter(self._loaded().query_embed(text))), np.float32)
        return vector


def load_model(folder: Path, threads: int, purpose: str) -> tuple[Any, Any, str]:
    """Return the session, the tokenizer and a hash of the ONNX model in a folder.

    ``purpose`` is for error messages: what the model is for.
    """
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}: an {purpose} needs model.onnx and tokenizer.json")
    with optional_import("onnxruntime and tokenizers", "onnx", f"An {purpose}"):
        import onnxruntime
        import tokenizers
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    content = hashlib.blake2b((folder / "model.onnx").read_bytes(), digest_size=6).hexdigest()
    return session, tokenizer, content


def load_fastembed(module: str, kind: str, model: str, local_files_only: bool, options: Mapping[str, Any]) -> Any:
    """Return a model of fastembed: of a class in one of its modules."""
    with optional_import("fastembed", "fastembed", "A model of fastembed"):
        loader = getattr(import_module(f"fastembed{module}"), kind)
    try:
        return loader(model, local_files_only=local_files_only, **options)
    except ValueError as error:
        once = f'python -c "from fastembed{module} import {kind}; {kind}({model!r}, local_files_only=False)"'
        advice = f": to download it once, run {once}" if local_files_only else ""
        raise InputError(f"fastembed cannot load {model!r} ({' '.join(str(error).split())[:200]}){advice}") from error
