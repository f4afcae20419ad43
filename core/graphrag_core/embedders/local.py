"""``Onnx``: embeds on the CPU with a model file."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core import forks
from graphrag_core.errors import InputError, optional_import
from graphrag_core.ports import Matrix


class Onnx:
    """Embed texts with an ONNX model on the CPU, such as all-MiniLM-L6-v2.

    Each text is run separately: quantised models scale activations per batch, so in a batch a
    text's vector would depend on the other texts. A pickle has the settings alone, and a forked process loads the model
    again.

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

    local = True

    def __init__(self, folder: str | Path, *, max_tokens: int = 256, threads: int = 0) -> None:
        self._folder, self._max_tokens, self._threads = Path(folder).resolve(), max_tokens, threads
        self._session, self._tokenizer, content = _load(self._folder, threads)
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.identity = f"onnx-{Path(folder).name}-{content}-{max_tokens}"
        forks.watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._folder, max_tokens=self._max_tokens, threads=self._threads), ()

    def after_fork_in_child(self) -> None:
        """Load the model again when it is next used: its threads are in the parent."""
        forks.leak(self._session)
        self._session = None

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per text, as rows."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.empty((0, 0), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        if self._session is None:
            self._session = _load(self._folder, self._threads)[0]
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        out = self._session.run(None, {name: feeds[name] for name in self._inputs if name in feeds})[0][0]
        vector = out.mean(axis=0) if out.ndim == 2 else out
        unit: Matrix = (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
        return unit


def _load(folder: Path, threads: int) -> tuple[Any, Any, str]:
    """Return the session, the tokenizer and a hash of the ONNX model in a folder."""
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}: an ONNX embedder needs model.onnx and tokenizer.json")
    with optional_import("onnxruntime and tokenizers", "onnx", "An ONNX embedder"):
        import onnxruntime
        import tokenizers
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    content = hashlib.blake2b((folder / "model.onnx").read_bytes(), digest_size=6).hexdigest()
    return session, tokenizer, content
