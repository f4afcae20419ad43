"""Language processing without a model: names, ids, sentences, tokens, Chinese and Japanese text.

Import the names in ``__all__`` from here. The name finder is in :mod:`graphrag_core.text.mentions`.
"""

from graphrag_core.text.cjk import CJK, has_cjk, segment
from graphrag_core.text.names import (
    EDGE,
    REFERS_TO,
    chunk_text,
    fact_text,
    fingerprint,
    hash64,
    label,
    normalise,
    plain_runs,
    title_names,
)
from graphrag_core.text.sentences import sentences, unwrap
from graphrag_core.text.tokens import Tokenizer, estimate_tokens, most_tokens, token_counter
from graphrag_core.text.words import FUNCTION, OPENERS

__all__ = [
    "CJK",
    "EDGE",
    "FUNCTION",
    "OPENERS",
    "REFERS_TO",
    "Tokenizer",
    "chunk_text",
    "estimate_tokens",
    "fact_text",
    "fingerprint",
    "has_cjk",
    "hash64",
    "label",
    "most_tokens",
    "normalise",
    "plain_runs",
    "segment",
    "sentences",
    "title_names",
    "token_counter",
    "unwrap",
]
