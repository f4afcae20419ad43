"""``ContextFormat``: how the results of a retriever are written for a language model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from graphrag_core.errors import InputError, check_integer

Style = Literal["graph", "passages", "both", "narrative"]
"""What a context consists of: see :meth:`Result.context <graphrag_core.Result.context>`."""


@dataclass(frozen=True, kw_only=True)
class ContextFormat:
    """The defaults of :meth:`Result.context <graphrag_core.Result.context>`, for all results of a retriever.

    Parameters
    ----------
    max_tokens
        The token budget, unless a call has another. None for 500, and 1,000 in the memory tools.
    style
        What a context consists of, unless a call says so. None for ``"graph"``, and ``"passages"`` in the memory tools.
    inverses
        Names of relations seen from their object, such as ``{"feeds": "fed_by"}``, for the published format. Each pair
        holds in both directions.
    published
        True formats a context as the documents of the five designs do, and leaves passages that are nothing but
        navigation or an index in their places.
    """

    max_tokens: int | None = None
    style: Style | None = None
    inverses: Mapping[str, str] | Iterable[tuple[str, str]] = ()
    published: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_integer(self.max_tokens, "context.max_tokens")
        if self.style is not None:
            check_style(self.style)
        try:
            pairs: Any = tuple(dict(self.inverses).items())
        except (TypeError, ValueError) as error:
            raise InputError(f"inverses is {self.inverses!r:.80}: use a mapping of names of relations") from error
        object.__setattr__(self, "inverses", pairs)  # a tuple, so that settings can be hashed


def check_style(style: str) -> None:
    """Raise ``InputError`` if there is no such style."""
    if style not in get_args(Style):
        raise InputError(f"unknown style {style!r}: use one of {', '.join(get_args(Style))}")
