"""What extractors return, checked before anything is written: values that can be stored, or an error with a name."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

from graphrag_core.errors import ExtractionError, GraphRAGError, InputError
from graphrag_core.extract import SentenceExtractor
from graphrag_core.ingest import told_facts
from graphrag_core.ingest.embedding import combined_error
from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.ports import Extractor

_MOST_WEIGHT = 1e6
_FARTHEST = 1e18  # seconds
_LARGEST = 2**63 - 1  # that a database stores


def extract(extractor: Extractor, chunks: Sequence[Chunk]) -> list[Extraction]:
    """Return one extraction for each chunk, without rejected facts, all of whose values can be stored.

    Raises
    ------
    ExtractionError
        The extractor raised an exception, of whose type the error is too, or violated its contract.
    """
    if not chunks:
        return []
    kind = type(extractor).__qualname__
    try:
        found = list(extractor.extract(chunks))
    except GraphRAGError:
        raise
    except Exception as error:
        documents = len({chunk.document_id for chunk in chunks})
        of_others = "" if documents == 1 else f" and {documents - 1} others"
        message = f"{kind} raised {type(error).__name__} on document {chunks[0].document_id!r}{of_others}: {error}"
        raise combined_error(ExtractionError, message, error) from error
    if len(found) != len(chunks):
        raise ExtractionError(
            f"{kind} returned {len(found)} extractions for {len(chunks)} chunks "
            f"(the first of document {chunks[0].document_id!r}): it must return one for each chunk, in order"
        )
    if type(extractor) is SentenceExtractor:
        return found
    checked = []
    for chunk, extraction in zip(chunks, found, strict=True):
        try:
            checked.append(_checked(extraction, chunk))
        except _Unusable as problem:
            raise ExtractionError(
                f"{kind} returned a value for document {chunk.document_id!r} that cannot be stored: {problem}"
            ) from problem.__cause__
        except Exception as error:  # properties and iterators of foreign types may raise anything
            raise combined_error(
                ExtractionError,
                f"{kind} returned a value for document {chunk.document_id!r} that cannot be read "
                f"({type(error).__name__}: {error})",
                error,
            ) from error
    return checked


class _Unusable(Exception):
    """What is wrong with a value."""


def _checked(extraction: Any, chunk: Chunk) -> Extraction:
    if not isinstance(extraction, Extraction):
        raise _Unusable(f"{type(extraction).__qualname__} instead of an Extraction")
    mentions = tuple(map(_mention, _items(extraction.mentions, "mentions")))
    facts = tuple(_fact(fact, len(chunk.text)) for fact in _items(extraction.facts, "facts"))
    kept = tuple(fact for fact in facts if fact.status != "rejected")
    return Extraction(mentions, kept, _text(extraction.problem, "problem"))


def _mention(mention: Any) -> Mention:
    if not isinstance(mention, Mention):
        raise _Unusable(f"a mention is {type(mention).__qualname__}, not a Mention")
    name = _text(mention.name, "name of a mention")
    aliases = tuple(_text(alias, f"alias of {name!r:.80}") for alias in _items(mention.aliases, f"aliases of {name!r}"))
    return replace(
        mention,
        name=name,
        type=_text(mention.type, f"type of {name!r:.80}"),
        description=_text(mention.description, f"description of {name!r:.80}"),
        aliases=aliases,
        subject=bool(mention.subject),
    )


def _fact(fact: Any, length: int) -> Fact:
    """Return a fact of a chunk with a text of a length."""
    if not isinstance(fact, Fact):
        raise _Unusable(f"a fact is {type(fact).__qualname__}, not a Fact")
    text = _text(fact.text, "text of a fact")
    of = f"of the fact {text!r:.80}"
    try:
        told_facts.check_status(fact.status)
    except (InputError, TypeError) as error:
        raise _Unusable(f"the status {of}: {error}") from error
    if fact.valid_from is not None or fact.valid_to is not None:
        raise _Unusable(f"it set the validity {of}: tell a fact that is valid for a time with index.memory.remember")
    return replace(
        fact,
        entities=tuple(_text(name, f"entity {of}") for name in _items(fact.entities, f"entities {of}")),
        text=text,
        relation=_text(fact.relation, f"relation {of}"),
        value=_text(fact.value, f"value {of}"),
        source=cast("Any", _text(fact.source, f"source {of}")),
        weight=_number(fact.weight, f"weight {of}", 0, _MOST_WEIGHT),
        confidence=_number(fact.confidence, f"confidence {of}", 0, 1),
        created=_time(fact.created, f"creation time {of}"),
        last_accessed=_time(fact.last_accessed, f"access time {of}"),
        access_count=_integer(fact.access_count, f"access count {of}", _LARGEST),
        span=_span(fact.span, f"span {of}", length),
    )


def _items(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _Unusable(f"the {what} are {type(value).__qualname__}, not a tuple")
    return tuple(value)


def _text(value: Any, what: str) -> str:
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise _Unusable(f"the {what} is {value!r:.80}, not a text")
    return str.__str__(value)  # of a subclass, such as an enumeration


def _number(value: Any, what: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _Unusable(f"the {what} is {value!r:.80}, not a number")
    number = float(value)
    if not least <= number <= most:  # nor is NaN
        raise _Unusable(f"the {what} is {value!r:.80}: use a number from {least:g} to {most:g}")
    return number


def _time(value: Any, what: str) -> float | None:
    return None if value is None else _number(value, what, -_FARTHEST, _FARTHEST)


def _integer(value: Any, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) <= most:
        raise _Unusable(f"the {what} is {value!r:.80}: use an integer from 0 to {most}")
    return int(value)


def _span(value: Any, what: str, length: int) -> tuple[int, int] | None:
    if value is None:
        return None
    ends = _items(value, what)
    if len(ends) != 2:
        raise _Unusable(f"the {what} is {value!r:.80}: use (start, end)")
    start, end = (_integer(end, what, length) for end in ends)
    if start > end:
        raise _Unusable(f"the {what} is {value!r:.80}: it ends before it starts")
    return start, end
