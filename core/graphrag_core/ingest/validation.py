"""Check documents, and what extractors return, before anything is written. An error says what to change."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, TypeVar

from graphrag_core import extract as extractors
from graphrag_core.errors import DocumentError, ExtractionError, GraphRAGError, InputError
from graphrag_core.filters import MAX_METADATA_DEPTH, json_value, posing_key
from graphrag_core.ingest import remembered
from graphrag_core.ingest.embedding import combined_error
from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention
from graphrag_core.ports import Extractor
from graphrag_core.text import hash64, normalise

_Fields = Mapping[str, Callable[[Any], Any]]
_Value = TypeVar("_Value", Extraction, Mention, Fact)

to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_NUL_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_MOST_WEIGHT = 1e6
_FARTHEST = 1e18  # seconds
_LARGEST = 2**63 - 1  # that a database stores
_LONGEST_NAME = 300
_NOTHING = Extraction()
_MENTION_TEXTS, _FACT_TEXTS = attrgetter("type", "description"), attrgetter("text", "relation", "value")


# -- documents


def validate(documents: Iterable[Any], seen: set[int] | None = None) -> list[Document]:
    """Return documents with their metadata as it is stored. ``seen`` are the hashes of the ids of earlier documents.

    Raises
    ------
    DocumentError
        A document cannot be indexed, or an id is repeated.
    """
    hashes = set[int]() if seen is None else seen
    checked: list[Document] = []
    for document in documents:
        _check_texts(document)
        if document.metadata and (metadata := _stored_metadata(document)) is not document.metadata:
            document = replace(document, metadata=metadata)  # noqa: PLW2901 - as it is stored
        if remembered.FACT_KEY in document.metadata:
            try:
                remembered.to_fact(document)
            except InputError as error:
                raise DocumentError(document.id, str(error)) from error
        if (number := hash64(document.id)) in hashes:
            raise DocumentError(document.id, "this id comes twice in one call: keep one, or change the other id")
        hashes.add(number)
        checked.append(document)
    return checked


_ADAPTERS = {"langchain": "langchain_graphrag", "llama_index": "llama_graphrag"}  # by how modules of a framework begin


def _check_texts(document: Any) -> None:
    """Check the types of a document's parts, and its texts."""
    if not isinstance(document, Document):
        kind = type(document)
        adapter = next((own for name, own in _ADAPTERS.items() if kind.__module__.startswith(name)), "")
        advice = f"use from_documents of {adapter}.GraphRAGRetriever, or " if adapter else ""
        raise InputError(
            f"add takes graphrag_core.Document values, not {kind.__module__}.{kind.__qualname__}: {advice}"
            "Document(id=..., text=...)"
        )
    if not isinstance(document.id, str) or not document.id.strip():
        raise DocumentError(document.id, "the id must be a text that is not blank")
    for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
        if not isinstance(text, str):
            raise DocumentError(document.id, f"the {name} is {type(text).__qualname__}, not str: decode it first")
        _check_characters(document.id, name, text)
    if not document.text.strip():
        raise DocumentError(document.id, "the text is empty: leave the document out, or delete it from the index")
    if not isinstance(document.metadata, Mapping):
        raise DocumentError(document.id, f"the metadata is {type(document.metadata).__qualname__}, not a mapping")


def _check_characters(document_id: str, name: str, text: str) -> None:
    if (at := text.find("\x00")) >= 0:
        raise DocumentError(document_id, f"the {name} has a NUL character at {at}: remove it, or skip binary files")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(
            document_id,
            f"the {name} has half a surrogate pair at {error.start}: decode the source with errors='replace'",
        ) from error


def _stored_metadata(document: Document) -> Mapping[str, Any]:
    """Return metadata as it is stored; the same object if nothing changes."""
    try:
        metadata: Mapping[str, Any] = json_value(document.metadata, "metadata")
        text = to_json(dict(metadata))
    except ValueError as error:
        raise DocumentError(document.id, f"the metadata cannot be stored: {error}") from error
    except RecursionError as error:
        raise DocumentError(document.id, "the metadata contains itself, or is nested too deeply") from error
    if text.count("{") + text.count("[") > MAX_METADATA_DEPTH and _depth(metadata) > MAX_METADATA_DEPTH:
        raise DocumentError(
            document.id, f"the metadata is nested deeper than {MAX_METADATA_DEPTH} levels: store a flatter form"
        )
    _check_characters(document.id, "metadata", _NUL_IN_JSON.sub("\\1\x00", text) if "\\u0000" in text else text)
    if (key := posing_key(metadata)) is not None:
        raise DocumentError(
            document.id,
            f"the metadata key {key!r} looks to a filter like a key of the mapping beside it: rename one of them",
        )
    return metadata


def _depth(value: Any) -> int:
    """Return how deep lists and mappings are nested, without recursion."""
    depth, level = 0, [value]
    while level := [inner for inner in level if isinstance(inner, (Mapping, list, tuple))]:
        depth += 1
        level = list(chain(*(inner.values() if isinstance(inner, Mapping) else inner for inner in level)))
    return depth


# -- what extractors return


def extract(extractor: Extractor, chunks: Sequence[Chunk]) -> list[Extraction]:
    """Return one extraction for each chunk, without rejected facts, all of whose values can be stored.

    Raises
    ------
    ExtractionError
        The extractor raised an exception, of whose type the error is too, or violated its contract.
    """
    if not chunks:
        return []
    combined = extractors.Combined
    if isinstance(extractor, combined) and extractor.extractors and type(extractor).extract is combined.extract:
        return extractor.join([extract(part, chunks) for part in extractor.extractors])
    kind, first = type(extractor).__qualname__, repr(chunks[0].document_id)
    try:
        found = list(extractor.extract(chunks))
    except GraphRAGError:
        raise
    except Exception as error:
        others = len({chunk.document_id for chunk in chunks}) - 1
        message = f"{kind} raised {type(error).__name__} on document {first}{f' and {others} others' if others else ''}"
        raise combined_error(ExtractionError, f"{message}: {error}", error) from error
    if len(found) != len(chunks):
        raise ExtractionError(
            f"{kind} returned {len(found)} extractions for {len(chunks)} chunks "
            f"(the first of document {first}): it must return one for each chunk, in order"
        )
    return found if type(extractor) is extractors.SentenceExtractor else _checked(kind, chunks, found)


def _checked(kind: str, chunks: Sequence[Chunk], found: Sequence[Any]) -> list[Extraction]:
    """Return what an extractor of another kind returned, if it can be stored."""
    checked = []
    for chunk, extraction in zip(chunks, found, strict=True):
        if type(extraction) is Extraction and extraction == _NOTHING:
            checked.append(extraction)
            continue
        try:
            plain = _plain(extraction, Extraction, _EXTRACTION)
            _check_spans(plain, chunk)
        except _Unusable as problem:
            raise ExtractionError(
                f"{kind} returned a value for document {chunk.document_id!r} that cannot be stored: {problem}"
            ) from None
        except Exception as error:  # properties and iterators of foreign types may raise anything
            raise combined_error(
                ExtractionError,
                f"{kind} returned a value for document {chunk.document_id!r} that cannot be read "
                f"({type(error).__name__}: {error})",
                error,
            ) from error
        checked.append(replace(plain, facts=tuple(fact for fact in plain.facts if fact.status != "rejected")))
    return checked


def _check_spans(extraction: Extraction, chunk: Chunk) -> None:
    for fact in extraction.facts:
        if fact.span and fact.span[1] > len(chunk.text):
            raise _Unusable(f"the span of the fact {fact.text!r:.80} ends after the chunk's text")


class _Unusable(Exception):
    """What is wrong with a value."""


def _plain(value: Any, kind: type[_Value], fields: _Fields) -> _Value:
    """Return a value with fields of plain types; ``fields`` has a function that checks and converts each."""
    if not isinstance(value, kind):
        raise _Unusable(f"it is {type(value).__qualname__}, not {kind.__name__}")
    converted = {}
    for name, convert in fields.items():
        given = getattr(value, name)
        try:
            converted[name] = convert(given)
        except _Unusable as problem:
            raise _Unusable(f"{name} of {kind.__name__} is {given!r:.80}: {problem}") from None
    return replace(value, **converted)


def _items(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _Unusable("it must be a tuple")
    return tuple(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unusable(f"{value!r:.80} must be a text")
    return value if type(value) is str else str.__str__(value)  # of a subclass, such as an enumeration


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, _items(value)))


def _number(least: float, most: float, kind: Any = Real, *, optional: bool = False) -> Callable[[Any], Any]:
    """Return a function that checks a number: an integer for the kind ``Integral``, else a float."""

    def convert(value: Any) -> Any:
        if optional and value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:  # nor is NaN
            raise _Unusable(f"use {'a number' if kind is Real else 'an integer'} from {least:g} to {most:g}")
        return float(value) if kind is Real else int(value)

    return convert


_count = _number(0, _LARGEST, Integral)
_time = _number(-_FARTHEST, _FARTHEST, optional=True)


def _span(value: Any) -> tuple[int, ...] | None:
    ends = None if value is None else tuple(map(_count, _items(value)))
    if ends is not None and (len(ends) != 2 or ends[0] > ends[1]):
        raise _Unusable("use (start, end)")
    return ends


def _status(value: Any) -> str:
    if value not in remembered.STATUSES:
        raise _Unusable(f"use one of {', '.join(remembered.STATUSES)}")
    return _text(value)


def _no_time(value: Any) -> None:
    if value is not None:
        raise _Unusable("tell a fact that is valid for a time with index.memory.remember")


_MENTION: _Fields = {"name": _text, "type": _text, "description": _text, "aliases": _texts, "subject": bool}
_FACT: _Fields = {
    "entities": _texts, "text": _text, "relation": _text, "value": _text, "source": _text, "status": _status,
    "weight": _number(0, _MOST_WEIGHT), "confidence": _number(0, 1), "created": _time, "last_accessed": _time,
    "access_count": _count, "span": _span, "valid_from": _no_time, "valid_to": _no_time,
}  # fmt: skip
_EXTRACTION: _Fields = {
    "mentions": lambda given: tuple(_plain(mention, Mention, _MENTION) for mention in _items(given)),
    "facts": lambda given: tuple(_plain(fact, Fact, _FACT) for fact in _items(given)),
    "problem": _text,
}


def clean(extraction: Extraction) -> tuple[Extraction, dict[str, bool]]:
    """Return an extraction that can be stored, and its names, subjects first and marked true.

    Names are stripped and cut to a length; names without a letter or digit are dropped.
    """
    mentions, facts = extraction.mentions, extraction.facts
    cleaned = {mention.name: clean_name(mention.name) for mention in mentions}
    for name in chain(*(mention.aliases for mention in mentions), *(fact.entities for fact in facts)):
        if name not in cleaned:
            cleaned[name] = clean_name(name)
    names = {cleaned[mention.name]: True for mention in mentions if mention.subject}
    for name in cleaned.values():
        names.setdefault(name, False)
    names.pop("", None)
    text = "".join(chain(*map(_MENTION_TEXTS, mentions), *map(_FACT_TEXTS, facts)))
    if _storable(text) is text and [*cleaned] == [*cleaned.values()]:
        return extraction, names
    return _cleaned(extraction, cleaned), names


def _cleaned(extraction: Extraction, cleaned: Mapping[str, str]) -> Extraction:
    """Return an extraction with names and texts that can be stored."""
    mentions = tuple(
        replace(
            mention,
            name=cleaned[mention.name],
            type=_storable(mention.type),
            description=_storable(mention.description),
            aliases=tuple(filter(None, map(cleaned.__getitem__, mention.aliases))),
        )
        for mention in extraction.mentions
        if cleaned[mention.name]
    )
    facts = tuple(
        replace(
            fact,
            entities=tuple(filter(None, map(cleaned.__getitem__, fact.entities))),
            text=_storable(fact.text),
            relation=_storable(fact.relation),
            value=_storable(fact.value),
        )
        for fact in extraction.facts
    )
    return replace(extraction, mentions=mentions, facts=facts)


@lru_cache(maxsize=8_192)
def clean_name(name: str) -> str:
    r"""Return a name as it is stored; empty if it has no letter or digit.

    >>> clean_name("  Auth\n Service "), clean_name("--")
    ('Auth Service', '')
    """
    if name.isascii() and name.isprintable() and name[:1].isalnum() and name[-1:] != " " and "  " not in name:
        return name[:_LONGEST_NAME].rstrip()  # most names are clean
    name = " ".join(_storable(name).split())[:_LONGEST_NAME].rstrip()
    return name if normalise(name) else ""


def _storable(text: str) -> str:
    """Return a text without the characters that a database cannot store: NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    storable = text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")
    return text if storable == text else storable
