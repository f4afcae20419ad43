"""What the library knows of written language, without a model: names, words, sentences, ids."""

from graphrag_core.text.ids import fact_id, fingerprint, hash64
from graphrag_core.text.names import normalise, title_names
from graphrag_core.text.passages import chunk_text, fact_text
from graphrag_core.text.segment import has_cjk, segment
from graphrag_core.text.sentences import sentences, unwrap
from graphrag_core.text.tokens import estimate_tokens, most_tokens

__all__ = [
    "chunk_text",
    "estimate_tokens",
    "fact_id",
    "fact_text",
    "fingerprint",
    "has_cjk",
    "hash64",
    "most_tokens",
    "normalise",
    "segment",
    "sentences",
    "title_names",
    "unwrap",
]
