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

from graphrag_core import forks
from graphrag_core.embedders.local import load_model
from graphrag_core.errors import InputError, MissingDependency
from graphrag_core.model import Chunk
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain

_DEFAULT_LENGTH = 512  # tokens, of a model that does not state its length
_LONGEST = 100_000  # a larger number stands for "unknown" in tokenizer_config.json


class CrossEncoder:
    """Scores passages by reading each together with the question. Runs on the CPU, without torch.

    Pass it as ``reranker`` to a retriever: it orders the best passages of :class:`~graphrag_core.Coverage`. For other
    settings wrap it: ``ScoreReranker(CrossEncoder(folder), passages=50)``. The model reads the title, the nearest
    heading and the text of a passage; what is longer than its input is cut off. The score is the model's output, which
    may be negative.

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

    _scores: Callable[[str, list[str]], Iterable[float]]
    _copy: Callable[[], CrossEncoder]
    identity: str

    def __init__(
        self, folder: str | Path, *, max_tokens: int | None = None, batch_size: int = 1, threads: int = 0
    ) -> None:
        if (max_tokens is not None and max_tokens < 1) or batch_size < 1:
            raise InputError("max_tokens and batch_size must be at least 1")
        folder = Path(folder)
        session, tokenizer, content = load_model(folder, threads, "ONNX cross-encoder")
        length = _length(folder, tokenizer)
        tokenizer.enable_truncation(min(max_tokens or length, length))
        tokenizer.enable_padding(**_padding(tokenizer))
        inputs = {item.name for item in session.get_inputs()}

        def scores(question: str, texts: list[str]) -> list[float]:
            found: list[float] = []
            for start in range(0, len(texts), batch_size):
                pairs = tokenizer.encode_batch([(question, text) for text in texts[start : start + batch_size]])
                feeds = {
                    "input_ids": [pair.ids for pair in pairs],
                    "attention_mask": [pair.attention_mask for pair in pairs],
                    "token_type_ids": [pair.type_ids for pair in pairs],
                }
                feed = {name: np.array(rows, np.int64) for name, rows in feeds.items() if name in inputs}
                found += _per_pair(session.run(None, feed)[0], len(pairs), folder)
            return found

        self._scores = scores
        self._copy = partial(
            type(self), folder.resolve(), max_tokens=max_tokens, batch_size=batch_size, threads=threads
        )
        forks.watch(self)
        self.identity = f"onnx-{folder.name}-{content}-{max_tokens or length}"
        scores("question", ["passage"])  # another kind of model is refused here and not in the first query

    @classmethod
    def fastembed(cls, model: str, *, batch_size: int = 1, local_files_only: bool = True, **options: Any) -> Self:
        """Return a cross-encoder that ``fastembed`` runs.

        Parameters
        ----------
        model
            A name that fastembed knows, such as ``"Xenova/ms-marco-MiniLM-L-6-v2"``.
        batch_size
            As above.
        local_files_only
            By default the model is loaded from fastembed's cache and nothing is downloaded. Pass False once to
            download it.
        options
            Options of fastembed's ``TextCrossEncoder``, such as ``cache_dir``, ``threads`` or ``cuda``.

        Raises
        ------
        InputError
            fastembed does not know the model, or cannot load it.
        MissingDependency
            fastembed is not installed.
        """
        try:
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        except ImportError as error:
            raise MissingDependency("fastembed", "fastembed", "A cross-encoder of fastembed") from error
        try:
            loaded = TextCrossEncoder(model, local_files_only=local_files_only, **options)
        except ValueError as error:
            advice = ": to download it, pass local_files_only=False once" if local_files_only else ""
            raise InputError(f"fastembed cannot load {model!r}{advice} ({error})") from error
        encoder = cls.__new__(cls)
        encoder._scores = partial(loaded.rerank, batch_size=batch_size)  # noqa: SLF001 - of this class
        encoder._copy = partial(  # noqa: SLF001
            cls.fastembed, model, batch_size=batch_size, local_files_only=local_files_only, **options
        )
        encoder.identity = f"fastembed-{model}"
        forks.watch(encoder)
        return encoder

    def __repr__(self) -> str:
        return f"<CrossEncoder {self.identity}>"

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> list[float]:
        """Return one score for each chunk; a higher score is better."""
        texts = [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in chunks]
        return [float(score) for score in self._scores(question, texts)]

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def after_fork_in_child(self) -> None:
        """Load the model again when it is next used: the threads of a session are in the parent."""
        forks.leak(self._scores)
        self._scores = self._load_and_score

    def _load_and_score(self, question: str, texts: list[str]) -> Iterable[float]:
        self._scores = self._copy()._scores  # noqa: SLF001 - of this class
        return self._scores(question, texts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a session cannot be copied, and nothing in it changes


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
    if not settings:
        for token in ("[PAD]", "<pad>"):
            if (number := tokenizer.token_to_id(token)) is not None:
                return {"pad_id": number, "pad_token": token}
    return settings


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
