"""Check documents, and what extractors return, before anything is written. An error says what to change."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, cast

from graphrag_core.errors import DocumentError, ExtractionError, GraphRAGError, InputError
from graphrag_core.extract import SentenceExtractor
from graphrag_core.filters import json_value, posing_key
from graphrag_core.ingest import remembered
from graphrag_core.ingest.embedding import combined_error
from graphrag_core.model import Chunk, Document, Extraction, Fact, Mark, Mention
from graphrag_core.ports import Extractor
from graphrag_core.text import normalise

to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_MOST_WEIGHT = 1e6
_FARTHEST = 1e18  # seconds
_LARGEST = 2**63 - 1  # that a database stores
_LONGEST_NAME = 300


# -- documents


def validate(documents: Iterable[Any]) -> list[Document]:  # noqa: C901 - one check after the other
    """Return documents with their metadata as it is stored.

    Raises
    ------
    DocumentError
        A document cannot be indexed, or an id is repeated.
    """
    ids: set[str] = set()
    checked: list[Document] = []
    for document in documents:
        if not isinstance(document, Document):
            kind = type(document).__qualname__
            raise InputError(f"add takes Document values, not {kind}: Document(id=..., text=...)")
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
        if document.metadata and (metadata := _stored_metadata(document)) is not document.metadata:
            document = replace(document, metadata=metadata)  # noqa: PLW2901 - as it is stored
        if document.marks or remembered.FACT_KEY in document.metadata:
            _check_structure(document)
        if document.id in ids:
            raise DocumentError(document.id, "this id comes twice in one call: keep one, or change the other id")
        ids.add(document.id)
        checked.append(document)
    return checked


def _check_structure(document: Document) -> None:
    """Check the marks of a document, and the fact that it holds."""
    for mark in document.marks:
        if not isinstance(mark, Mark):
            raise DocumentError(document.id, f"a mark is {type(mark).__qualname__}, not a Mark")
        if type(mark.start) is not int or type(mark.end) is not int:
            raise DocumentError(document.id, f"the offsets of the mark {mark!r:.80} are not integers")
        for text in (mark.kind, mark.value):
            if not isinstance(text, str):
                raise DocumentError(document.id, f"the mark {mark!r:.80} has a value that is not a text")
            _check_characters(document.id, "marks", text)
    if remembered.FACT_KEY in document.metadata:
        try:
            remembered.to_fact(document)
        except InputError as error:
            raise DocumentError(document.id, str(error)) from error


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
        text = to_json(metadata if isinstance(metadata, dict) else dict(metadata))
        if not text.isascii() or "\\u0000" in text:
            _check_texts(document.id, metadata)
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError(document.id, f"the metadata cannot be stored: {error}") from error
    except RecursionError as error:
        raise DocumentError(document.id, "the metadata contains itself, or is nested too deeply") from error
    if (key := posing_key(metadata)) is not None:
        raise DocumentError(
            document.id,
            f"the metadata key {key!r} looks to a filter like a key of the mapping beside it: rename one of them",
        )
    return metadata


def _check_texts(document_id: str, value: Any) -> None:
    """Check the characters of every key and text within metadata."""
    if isinstance(value, str):
        _check_characters(document_id, "metadata", value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_characters(document_id, "metadata", key)
            _check_texts(document_id, inner)
    elif isinstance(value, list):
        for inner in value:
            _check_texts(document_id, inner)


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
    """Return a fact whose values can be stored; ``length`` is that of the chunk's text."""
    if not isinstance(fact, Fact):
        raise _Unusable(f"a fact is {type(fact).__qualname__}, not a Fact")
    text = _text(fact.text, "text of a fact")
    of = f"of the fact {text!r:.80}"
    try:
        remembered.check_status(fact.status)
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


def clean(extraction: Extraction) -> tuple[Extraction, dict[str, bool]]:
    """Return an extraction that can be stored, and its names, subjects first and marked true.

    Names are stripped and cut to a length; those without a letter or digit are dropped.
    """
    mentions, facts = extraction.mentions, extraction.facts
    cleaned = {mention.name: clean_name(mention.name) for mention in mentions}
    texts = [fact.text for fact in facts]
    for mention in mentions:
        if mention.aliases or mention.type or mention.description:
            cleaned.update((alias, clean_name(alias)) for alias in mention.aliases)
            texts += mention.type, mention.description
    for fact in facts:
        for name in fact.entities:
            if name not in cleaned:
                cleaned[name] = clean_name(name)
        if fact.relation or fact.value:
            texts += fact.relation, fact.value
    names = {cleaned[mention.name]: True for mention in mentions if mention.subject}
    for name in cleaned.values():
        names.setdefault(name, False)
    names.pop("", None)
    text = "".join(texts)
    if _storable(text) is text and [*cleaned] == [*cleaned.values()]:
        return extraction, names
    mentions = tuple(
        replace(
            mention,
            name=cleaned[mention.name],
            type=_storable(mention.type),
            description=_storable(mention.description),
            aliases=tuple(cleaned[alias] for alias in mention.aliases if cleaned[alias]),
        )
        for mention in mentions
        if cleaned[mention.name]
    )
    facts = tuple(
        replace(
            fact,
            entities=tuple(cleaned[name] for name in fact.entities if cleaned[name]),
            text=_storable(fact.text),
            relation=_storable(fact.relation),
            value=_storable(fact.value),
        )
        for fact in facts
    )
    return replace(extraction, mentions=mentions, facts=facts), names


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
    if "\x00" not in text:
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")
