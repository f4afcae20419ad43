"""How many tokens a text costs: as exactly as can be told without a network."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from graphrag_core.ports import TokenCounter
from graphrag_core.text import estimate_tokens

_ENCODING = "cl100k_base"
_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
_DIGEST = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_environment = Lock()


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """Return tiktoken's count where its encoding lies on this disk already, else an estimate.

    tiktoken fetches an encoding when it is first used; a query must not, so it is asked only
    when the file is in its cache, or in the one that llama-index-core brings along.
    """
    folder = _cached_in()
    if folder is None:
        return estimate_tokens
    import tiktoken  # noqa: PLC0415 - an optional dependency

    with _environment, _variable(_VARIABLES[0], str(folder)):
        encoding: Any = tiktoken.get_encoding(_ENCODING)

    def count(text: str, /) -> int:
        """Return the number of tokens."""
        return len(encoding.encode(text, disallowed_special=()))

    return count


def _cached_in() -> Path | None:
    """Return the folder that holds a sound copy of the encoding, if tiktoken is there to read it."""
    if find_spec("tiktoken") is None:
        return None
    file = hashlib.sha1(_ADDRESS.encode(), usedforsecurity=False).hexdigest()
    for folder in _folders():
        path = folder / file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == _DIGEST:
            return folder
    return None


def _folders() -> Iterator[Path]:
    yield from (Path(os.environ[name]) for name in _VARIABLES if os.environ.get(name))
    yield Path(tempfile.gettempdir()) / "data-gym-cache"
    if (llama := find_spec("llama_index")) is not None:
        for place in llama.submodule_search_locations or ():
            yield Path(place) / "core" / "_static" / "tiktoken_cache"


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
