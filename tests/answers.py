"""Results that are put together by hand."""

from __future__ import annotations

from graphrag_core import Chunk, Hit, Result
from graphrag_core.result import Explanation, Lazy, Reason, Remarks


def explained_hit(chunk: Chunk, score: float, *, path=(), words=(), covers=(), link=None, **fields) -> Hit:
    """A hit with its explanation."""
    reason = Reason(path=path, words=words, covers=covers, link=link)
    return Hit(chunk, score, **fields, explanation=Lazy.of(Explanation(reasons={chunk.id: reason})))


def explained(
    question,
    method,
    hits=(),
    entities=(),
    confidence=None,
    facts=(),
    known=None,
    *others,
    uncovered=(),
    **fields,
) -> Result:
    """A result with its explanation and its remarks."""
    lazy = Lazy.of(Explanation(facts=facts, known=known or {}, uncovered=uncovered))
    said = Remarks(**{name: fields.pop(name) for name in Remarks.__dataclass_fields__ if name in fields})
    own = {"remarks": Lazy.of(said), "explanation": lazy}
    return Result(question, method, hits, entities, confidence, *others, **fields, **own)
