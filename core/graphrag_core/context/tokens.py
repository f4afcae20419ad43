"""Count tokens with tiktoken if one of its encodings is already on disk, without network access."""

import hashlib
import os
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from graphrag_core import forks
from graphrag_core.ports import TokenCounter
from graphrag_core.text import estimate_tokens

_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_SHA256 = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
}
"""The encodings in order of preference, with the hashes of their files."""
_CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_SHIPPED = {"llama_index": "core/_static/tiktoken_cache", "litellm": "litellm_core_utils/tokenizers"}
"""Packages that ship encodings, and where."""
_environment_lock = Lock()


@forks.run_in_child
def _renew_lock() -> None:
    global _environment_lock  # noqa: PLW0603 - another thread may have held it
    _environment_lock = Lock()


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """Return tiktoken's counter if an encoding is cached on disk, else an estimate.

    tiktoken downloads a missing encoding on first use, which a query must not do. So it is used
    only if the file is in its cache or in a folder of encodings that a package ships.
    """
    found = _cached_encoding()
    if found is None:
        return estimate_tokens
    import tiktoken  # noqa: PLC0415 - slow to import

    name, folder = found

    with _environment_lock:
        before = os.environ.get(_CACHE_VARIABLES[0])
        os.environ[_CACHE_VARIABLES[0]] = str(folder)
        try:
            encoding: Any = tiktoken.get_encoding(name)
        finally:
            if before is None:
                del os.environ[_CACHE_VARIABLES[0]]
            else:
                os.environ[_CACHE_VARIABLES[0]] = before

    def count(text: str, /) -> int:
        return len(encoding.encode(text, disallowed_special=()))

    return count


def _cached_encoding() -> tuple[str, Path] | None:
    """Return the best encoding of which there is an intact copy, and the folder that holds it."""
    folders = [Path(os.environ[name]) for name in _CACHE_VARIABLES if os.environ.get(name)]
    folders.append(Path(tempfile.gettempdir(), "data-gym-cache"))
    for package, inside in _SHIPPED.items():
        if (spec := find_spec(package)) is not None:
            folders += [Path(at, inside) for at in spec.submodule_search_locations or ()]
    for name, expected in _SHA256.items():
        file = hashlib.sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()  # how tiktoken names it
        for folder in folders:
            path = folder / file
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected:
                return name, folder
    return None
