"""Ids that are the same on every machine, in every process, for the same content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def hash64(text: str) -> int:
    """Return a signed 64-bit number for a text, the same everywhere and for ever.

    >>> hash64("auth service") == hash64("auth service") != hash64("auth server")
    True
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def fingerprint(parts: Iterable[str]) -> str:
    """Return a short text that changes when any part, or where parts meet, changes.

    >>> fingerprint(["ab", "c"]) == fingerprint(["a", "bc"])
    False
    """
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(piece).to_bytes(8, "little") + piece for piece in data])
    return hashlib.blake2b(framed, digest_size=16).hexdigest()


def fact_id(chunk_id: str, ordinal: int) -> str:
    """Return the id of a chunk's fact.

    >>> fact_id("handbook#2", 0)
    'handbook#2/0'
    """
    return f"{chunk_id}/{ordinal}"
