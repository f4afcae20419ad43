"""``Onnx``: embeds on the CPU with a model file."""

import hashlib
import os
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

    def __init__(self, folder: str | Path, *, max_tokens: int = 256, threads: int = 0) -> None:
        self._folder, self._max_tokens, self._threads = Path(folder).resolve(), max_tokens, threads
        for name in ("model.onnx", "tokenizer.json"):
            if not (self._folder / name).is_file():
                raise InputError(f"{folder} has no {name}: an ONNX embedder needs model.onnx and tokenizer.json")
        with optional_import("onnxruntime and tokenizers", "onnx", "An ONNX embedder"):
            import onnxruntime  # noqa: F401 - when it is first used
            import tokenizers
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._session: Any = None
        self._process = 0  # whose session it is
        content = hashlib.blake2b((self._folder / "model.onnx").read_bytes(), digest_size=6).hexdigest()
        self.identity = f"onnx-{Path(folder).name}-{content}-{max_tokens}"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._folder, max_tokens=self._max_tokens, threads=self._threads), ()

    def embed_documents(self, texts: list[str]) -> Matrix:
        """Return one unit vector per text, as rows."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.empty((0, 0), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question."""
        if self._process != os.getpid():  # the threads of the model are in the parent
            import onnxruntime

            forks.leak(self._session)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            model = str(self._folder / "model.onnx")
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            self._process = os.getpid()
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        wanted = {item.name: feeds[item.name] for item in self._session.get_inputs() if item.name in feeds}
        out = self._session.run(None, wanted)[0][0]
        vector = out.mean(axis=0) if out.ndim == 2 else out
        unit: Matrix = (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
        return unit
