"""What an index was made with, and what every later opening must agree with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from graphrag_core.embedding import Embedding
from graphrag_core.errors import EmbedderMismatch, InputError
from graphrag_core.stores.records import Records


@dataclass(frozen=True)
class Embeds:
    """What is embedded besides the chunks."""

    facts: bool
    names: bool


def agree(
    records: Records, embedding: Embedding | None, facts: bool | None, names: bool | None, path: Path | None
) -> Embeds:
    """Compare with how the index was made, or choose how it will be.

    Left to choose, names are embedded by an embedder that costs next to nothing, facts also by
    one that costs no more than this machine's time.
    The embedding learns the index's dimension.
    """
    made_with = records.meta("embedder")
    if embedding is not None:
        if made_with and made_with != embedding.identity:
            raise EmbedderMismatch(
                f"{path or 'the index'} was built with {made_with}, not with {embedding.identity}: "
                "open it with that embedder, or index the documents anew into another folder"
            )
        embedding.dim = int(records.meta("dim", "0")) or None
    if not made_with:
        cheap = embedding is not None and embedding.embedded
        local = embedding is not None and embedding.local
        return Embeds(local if facts is None else facts, cheap if names is None else names)
    made = Embeds(**json.loads(records.meta("embeds")))
    for name, asked, is_so in (("facts", facts, made.facts), ("names", names, made.names)):
        if asked is not None and asked != is_so:
            raise InputError(
                f"{path or 'the index'} was made with embed_{name}={is_so}: leave the setting out, "
                "or index the documents anew into another folder"
            )
    return made


def to_note(embedding: Embedding, embeds: Embeds) -> dict[str, str]:
    """Return the settings as they are noted with the first documents."""
    return {
        "embedder": embedding.identity,
        "dim": str(embedding.dim),
        "embeds": json.dumps({"facts": embeds.facts, "names": embeds.names}),
    }
