"""``Onnx``: embed with a sentence-embedding model in ONNX format, such as all-MiniLM-L6-v2."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import InputError, MissingDependency
from graphrag_core.ports import Matrix


class Onnx:
    """Embed texts with an ONNX model on the CPU.

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

    embedded = False
    local = True

    def __init__(self, folder: str | Path, *, max_tokens: int = 256, threads: int = 0) -> None:
        folder = Path(folder)
        self._load = partial(load_model, folder, threads, "ONNX embedder")
        self._copy = partial(type(self), folder.resolve(), max_tokens=max_tokens, threads=threads)
        self._session, self._tokenizer, content = self._load()
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.identity = f"onnx-{folder.name}-{content}-{max_tokens}"
        forks.watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def after_fork_in_child(self) -> None:
        """Load the model again when it is next used: the threads of a session are in the parent."""
        forks.leak(self._session)
        self._session = None

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per text, as rows."""
        return np.stack([self._embed(text) for text in texts]) if texts else np.empty((0, 0), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        return self._embed(text)

    def _embed(self, text: str) -> Matrix:
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        if self._session is None:
            self._session = self._load()[0]
        out = self._session.run(None, {name: feeds[name] for name in self._inputs if name in feeds})[0][0]
        vector = out.mean(axis=0) if out.ndim == 2 else out
        unit: Matrix = (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
        return unit


def load_model(folder: Path, threads: int, purpose: str) -> tuple[Any, Any, str]:
    """Return the session, the tokenizer and a hash of the model in a folder.

    ``purpose`` is for error messages: what the model is for.
    """
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}: an {purpose} needs model.onnx and tokenizer.json")
    try:
        import onnxruntime
        import tokenizers
    except ImportError as error:
        raise MissingDependency("onnxruntime and tokenizers", "onnx", f"An {purpose}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    content = hashlib.blake2b((folder / "model.onnx").read_bytes(), digest_size=6).hexdigest()
    return session, tokenizer, content
