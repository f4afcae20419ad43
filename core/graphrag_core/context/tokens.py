"""Count tokens with tiktoken if its encoding is already on disk, without network access."""

import hashlib
import os
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from graphrag_core.ports import TokenCounter
from graphrag_core.text import estimate_tokens

_ENCODING = "cl100k_base"
_URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_environment_lock = Lock()


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """Return tiktoken's counter if its encoding is cached on disk, else an estimate.

    tiktoken downloads a missing encoding on first use, which a query must not do. So it is used
    only if the file is in its cache or in the one that llama-index-core ships.
    """
    folder = _cache_folder()
    if folder is None:
        return estimate_tokens
    import tiktoken  # noqa: PLC0415 - an optional dependency

    with _environment_lock:
        before = os.environ.get(_CACHE_VARIABLES[0])
        os.environ[_CACHE_VARIABLES[0]] = str(folder)
        try:
            encoding: Any = tiktoken.get_encoding(_ENCODING)
        finally:
            if before is None:
                del os.environ[_CACHE_VARIABLES[0]]
            else:
                os.environ[_CACHE_VARIABLES[0]] = before

    def count(text: str, /) -> int:
        return len(encoding.encode(text, disallowed_special=()))

    return count


def _cache_folder() -> Path | None:
    """Return the folder with an intact copy of the encoding, if tiktoken is installed."""
    if find_spec("tiktoken") is None:
        return None
    folders = [Path(os.environ[name]) for name in _CACHE_VARIABLES if os.environ.get(name)]
    folders.append(Path(tempfile.gettempdir(), "data-gym-cache"))
    if (llama := find_spec("llama_index")) is not None:
        folders += [Path(at, "core", "_static", "tiktoken_cache") for at in llama.submodule_search_locations or ()]
    file = hashlib.sha1(_URL.encode(), usedforsecurity=False).hexdigest()  # how tiktoken names it
    for folder in folders:
        path = folder / file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == _SHA256:
            return folder
    return None
