"""``CrossEncoder``: scores passages with a cross-encoder model in ONNX format, such as ms-marco-MiniLM-L-6-v2."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from graphrag_core.embedders.local import LocalModel, load_fastembed, load_model
from graphrag_core.errors import InputError
from graphrag_core.model import Chunk
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain

_DEFAULT_LENGTH = 512  # tokens, of a model that does not state its length
_LONGEST = 100_000  # a larger number stands for "unknown" in tokenizer_config.json


class CrossEncoder(LocalModel):
    """Scores passages by reading each together with the question. Runs on the CPU, without torch.

    Pass it as ``reranker`` to a retriever: it orders the best passages of
    :class:`~graphrag_core.strategies.Coverage`. For other settings wrap it: ``ScoreReranker(CrossEncoder(folder),
    passages=50)``. The model reads the title, the nearest heading and the text, cut to its input length.

    Parameters
    ----------
    folder
        The folder with ``model.onnx`` and ``tokenizer.json``. The model takes ``input_ids`` and returns one score per
        pair, or two, of which the second is for "relevant".
    max_tokens
        The length to which a question and a passage together are cut. Default: the model's, as stated in
        ``tokenizer.json`` or ``tokenizer_config.json``, else 512.
    batch_size
        How many passages are scored at once. With more than one they are padded to the same length; the scores of
        quantised models then depend on the other passages.
    threads
        CPU threads per run; 0 lets the runtime choose.

    Raises
    ------
    InputError
        The folder lacks one of the two files, or the model is not a cross-encoder.
    MissingDependency
        onnxruntime or tokenizers is not installed.
    """

    def __init__(
        self, folder: str | Path, *, max_tokens: int | None = None, batch_size: int = 1, threads: int = 0
    ) -> None:
        if (max_tokens is not None and max_tokens < 1) or batch_size < 1:
            raise InputError("max_tokens and batch_size must be at least 1")
        folder = Path(folder)
        settings: dict[str, Any] = {"max_tokens": max_tokens, "batch_size": batch_size, "threads": threads}
        super().__init__(partial(_Onnx, folder, **settings), partial(type(self), folder.resolve(), **settings))
        self.identity = f"onnx-{folder.name}-{self._model.content}-{max_tokens or self._model.length}"
        self._model("question", ["passage"])  # another kind of model is refused here and not in the first query

    @classmethod
    def fastembed(cls, model: str, *, batch_size: int = 1, local_files_only: bool = True, **options: Any) -> Self:
        """Return a cross-encoder that ``fastembed`` runs.

        Parameters
        ----------
        model
            A name that fastembed knows, such as ``"Xenova/ms-marco-MiniLM-L-6-v2"``.
        local_files_only
            By default the model is loaded from fastembed's cache. Pass False once to download it.
        options
            Options of fastembed's ``TextCrossEncoder``, such as ``cache_dir``, ``threads`` or ``cuda``.

        Raises
        ------
        InputError
            fastembed does not know the model, or cannot load it.
        MissingDependency
            fastembed is not installed.
        """

        def load() -> Callable[[str, list[str]], Iterable[float]]:
            loaded = load_fastembed(".rerank.cross_encoder", "TextCrossEncoder", model, local_files_only, options)
            return partial(loaded.rerank, batch_size=batch_size)

        encoder = cls.__new__(cls)
        settings = {"batch_size": batch_size, "local_files_only": local_files_only, **options}
        LocalModel.__init__(encoder, load, partial(cls.fastembed, model, **settings))
        encoder.identity = f"fastembed-{model}"
        return encoder

    def __repr__(self) -> str:
        return f"<CrossEncoder {self.identity}>"

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> list[float]:
        """Return one score for each chunk; a higher score is better."""
        texts = [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in chunks]
        return [float(score) for score in self._loaded()(question, texts)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a session cannot be copied, and nothing in it changes


class _Onnx:
    """An ONNX model that scores texts for a question."""

    def __init__(self, folder: Path, *, max_tokens: int | None, batch_size: int, threads: int) -> None:
        self._folder, self._batch_size = folder, batch_size
        self._session, self._tokenizer, self.content = load_model(folder, threads, "ONNX cross-encoder")
        self.length = _length(folder, self._tokenizer)
        self._tokenizer.enable_truncation(min(max_tokens or self.length, self.length))
        self._tokenizer.enable_padding(**_padding(self._tokenizer))
        self._inputs = {item.name for item in self._session.get_inputs()}

    def __call__(self, question: str, texts: list[str]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            pairs = self._tokenizer.encode_batch([(question, text) for text in batch])
            feeds = {
                "input_ids": [pair.ids for pair in pairs],
                "attention_mask": [pair.attention_mask for pair in pairs],
                "token_type_ids": [pair.type_ids for pair in pairs],
            }
            feed = {name: np.array(rows, np.int64) for name, rows in feeds.items() if name in self._inputs}
            found += _per_pair(self._session.run(None, feed)[0], len(pairs), self._folder)
        return found


def _length(folder: Path, tokenizer: Any) -> int:
    """Return how many tokens a model reads."""
    lengths = [(tokenizer.truncation or {}).get("max_length")]
    config = folder / "tokenizer_config.json"
    if config.is_file():
        lengths.append(json.loads(config.read_text("utf-8")).get("model_max_length"))
    known = [int(length) for length in lengths if isinstance(length, (int, float)) and 0 < length <= _LONGEST]
    return min(known, default=_DEFAULT_LENGTH)


def _padding(tokenizer: Any) -> dict[str, Any]:
    """Return how to pad the passages of a batch to the length of the longest."""
    stated = tokenizer.padding or {}
    settings = {key: stated[key] for key in ("direction", "pad_id", "pad_type_id", "pad_token") if key in stated}
    ids = {token: tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>")}
    known = [{"pad_id": number, "pad_token": token} for token, number in ids.items() if number is not None]
    return settings or next(iter(known), {})


def _per_pair(output: npt.NDArray[Any], count: int, folder: Path) -> list[float]:
    """Return the score of each pair from a model's first output."""
    logits = output.reshape(count, -1) if output.ndim in (1, 2) and len(output) == count else output
    if logits.ndim != 2 or logits.shape[1] not in (1, 2):
        raise InputError(
            f"{folder} is not a cross-encoder: its model returns an array of shape {output.shape} for {count} pairs "
            "of a question and a passage, not one score for each"
        )
    scores: list[float] = (logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)).astype(np.float64).tolist()
    return scores
