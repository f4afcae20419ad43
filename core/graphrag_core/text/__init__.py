"""Language processing without a model: names, ids, sentences, tokens, Chinese and Japanese text."""

from graphrag_core.text.cjk import CJK as CJK
from graphrag_core.text.cjk import has_cjk as has_cjk
from graphrag_core.text.cjk import segment as segment
from graphrag_core.text.names import EDGE as EDGE
from graphrag_core.text.names import REFERS_TO as REFERS_TO
from graphrag_core.text.names import chunk_text as chunk_text
from graphrag_core.text.names import fact_text as fact_text
from graphrag_core.text.names import fingerprint as fingerprint
from graphrag_core.text.names import hash64 as hash64
from graphrag_core.text.names import label as label
from graphrag_core.text.names import normalise as normalise
from graphrag_core.text.names import plain_runs as plain_runs
from graphrag_core.text.names import title_names as title_names
from graphrag_core.text.sentences import sentences as sentences
from graphrag_core.text.sentences import unwrap as unwrap
from graphrag_core.text.tokens import Tokenizer as Tokenizer
from graphrag_core.text.tokens import estimate_at_most as estimate_at_most
from graphrag_core.text.tokens import estimate_tokens as estimate_tokens
from graphrag_core.text.tokens import token_counter as token_counter
from graphrag_core.text.words import FUNCTION as FUNCTION
from graphrag_core.text.words import OPENERS as OPENERS
