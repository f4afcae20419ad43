"""Check documents, and what extractors return, before anything is written. An error says what to change."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from numbers import Integral, Real
from operator import index
from typing import Any

from graphrag_core.errors import DocumentError, ExtractionError, GraphRAGError, InputError
from graphrag_core.filters import MAX_METADATA_DEPTH, json_value, posing_key
from graphrag_core.ingest import remembered
from graphrag_core.ingest.embedding import combined_error
from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention
from graphrag_core.ports import Extractor
from graphrag_core.research import is_finding, with_finding
from graphrag_core.text import normalise

_Fields = Mapping[str, Callable[[Any], Any]]

to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_LARGEST = 2**63 - 1  # that a database stores
_LONGEST_NAME = 300


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
        _check(document)
        if document.metadata:
            document = replace(document, metadata=_stored_metadata(document))  # noqa: PLW2901 - as it is stored
        if remembered.FACT_KEY in document.metadata:
            try:
                remembered.to_fact(document)
            except InputError as error:
                raise DocumentError(document.id, str(error)) from error
        if hash(document.id) in hashes:
            raise DocumentError(document.id, "this id comes twice in one call: keep one, or change the other id")
        hashes.add(hash(document.id))
        checked.append(document)
    return checked


def _check(document: Any) -> None:
    """Check the types of a document's parts, and its texts."""
    if not isinstance(document, Document):
        kind = type(document)
        raise InputError(
            f"add takes graphrag_core.Document values, not {kind.__module__}.{kind.__qualname__}: use "
            "GraphRAGRetriever.from_documents of langchain_graphrag or llama_graphrag, or Document(id=..., text=...)"
        )
    if not isinstance(document.id, str) or not document.id.strip():
        raise DocumentError(document.id, "the id must be a text that is not blank")
    for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
        if not isinstance(text, str):
            raise DocumentError(document.id, f"the {name} is {type(text).__qualname__}, not str: decode it first")
        if not text.isascii() or "\x00" in text:
            _check_characters(document.id, name, text)
    if not document.text.strip():
        raise DocumentError(document.id, "the text is empty: leave the document out, or delete it from the index")
    if not isinstance(document.metadata, Mapping):
        raise DocumentError(document.id, f"the metadata is {type(document.metadata).__qualname__}, not a mapping")


def _check_characters(document_id: str, name: str, text: str) -> None:
    if (at := text.find("\x00")) >= 0:
        raise DocumentError(document_id, f"the {name} has a NUL character at {at}: remove it, or skip binary files")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        problem = f"the {name} has half a surrogate pair at {error.start}"
        raise DocumentError(document_id, f"{problem}: decode the source with errors='replace'") from error


def _stored_metadata(document: Document) -> Mapping[str, Any]:
    """Return metadata as it is stored."""
    try:
        metadata: Mapping[str, Any] = json_value(document.metadata, "metadata")
        text, depth = to_json(dict(metadata)), _depth(metadata)
    except ValueError as error:
        raise DocumentError(document.id, f"the metadata cannot be stored: {error}") from error
    except RecursionError as error:
        raise DocumentError(document.id, "the metadata contains itself, or is nested too deeply") from error
    if depth > MAX_METADATA_DEPTH:
        raise DocumentError(
            document.id, f"the metadata is nested deeper than {MAX_METADATA_DEPTH} levels: store a flatter form"
        )
    _check_characters(document.id, "metadata", text.replace("\\\\", "").replace("\\u0000", "\x00"))
    if (key := posing_key(metadata)) is not None:
        raise DocumentError(
            document.id,
            f"the metadata key {key!r} looks to a filter like a key of the mapping beside it: rename one of them",
        )
    return metadata


def _depth(value: Any) -> int:
    """Return how deep lists and mappings are nested."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


# -- what extractors return


def extract(extractor: Extractor, chunks: Sequence[Chunk]) -> list[Extraction]:
    """Return one extraction for each chunk, as it can be stored: without rejected facts and names without a letter.

    Chunks of research findings have what their metadata says, too.

    Raises
    ------
    ExtractionError
        The extractor raised an exception, of whose type the error is too, or violated its contract.
    """
    if not chunks:
        return []
    kind, first, found = type(extractor).__qualname__, chunks[0].document_id, []
    try:
        extractions = list(extractor.extract(chunks))
    except GraphRAGError:
        raise
    except Exception as error:
        others = len({chunk.document_id for chunk in chunks}) - 1
        on = f"document {first!r}{f' and {others} others' if others else ''}"
        message = f"{kind} raised {type(error).__name__} on {on}: {error}"
        raise combined_error(ExtractionError, message, error) from error
    if len(extractions) != len(chunks):
        raise ExtractionError(
            f"{kind} returned {len(extractions)} extractions for {len(chunks)} chunks "
            f"(the first of document {first!r}): it must return one for each chunk, in order"
        )
    for chunk, extraction in zip(chunks, extractions, strict=True):
        try:
            raw = with_finding(chunk, extraction) if is_finding(chunk) else extraction
            found.append(_storable(raw, len(chunk.text)))
        except Exception as error:  # properties and iterators of foreign types may raise anything
            raise ExtractionError(
                f"{kind} returned a value for document {chunk.document_id!r} that cannot be stored: {error}"
            ) from error
    return found


def _storable(extraction: Any, length: int) -> Extraction:
    """Return an extraction from a text of a length."""
    whole = _plain(extraction, Extraction, {"problem": _text})
    mentions = [_plain(mention, Mention, _MENTION) for mention in whole.mentions]
    facts = [_plain(fact, Fact, _FACT) for fact in whole.facts]
    if not all(0 <= fact.span[0] <= fact.span[1] <= length for fact in facts if fact.span):
        raise ValueError("the span of a fact is not (start, end) inside the text of its chunk")
    named = tuple(mention for mention in mentions if mention.name)
    stored: Extraction = replace(
        whole, mentions=named, facts=tuple(fact for fact in facts if fact.status != "rejected")
    )
    return stored


def _plain(value: Any, kind: type[Any], fields: _Fields) -> Any:
    """Return a value with fields of plain types; ``fields`` has a function that checks and converts each."""
    if not isinstance(value, kind):
        raise TypeError(f"it is {type(value).__qualname__}, not {kind.__name__}")
    converted, defaults = {}, kind.__dataclass_fields__
    for name, convert in fields.items():
        if (given := getattr(value, name)) is not defaults[name].default:
            try:
                converted[name] = convert(given)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name} of {kind.__name__}: {error}") from error
    return replace(value, **converted)


def _text(value: Any) -> str:
    """Return a text without what a database cannot store: NUL, and halves of surrogate pairs."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    if type(value) is str and value.isascii() and "\x00" not in value:
        return value
    return str.__str__(value).encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")


def clean_name(name: Any) -> str:
    r"""Return a name as it is stored; empty if it has no letter or digit.

    >>> clean_name("  Auth\n Service "), clean_name("--")
    ('Auth Service', '')
    """
    name = " ".join(_text(name).split())[:_LONGEST_NAME].rstrip()
    return name if normalise(name) else ""


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{value!r:.80} is not a tuple")
    return tuple(filter(None, map(clean_name, value)))


def _number(value: Any, least: float, most: float, kind: Any = Real) -> Any:
    """Return an integer for the kind ``Integral``, else a float."""
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:  # nor is NaN
        raise ValueError(f"{value!r:.80} is not {'a number' if kind is Real else 'an integer'} "
                         f"from {least:g} to {most:g}")  # fmt: skip
    return float(value) if kind is Real else int(value)


def _span(value: Any) -> tuple[int, int]:
    start, end = map(index, value)
    return start, end


def _status(value: Any) -> str:
    remembered.check_status(value)
    return _text(value)


def _no_time(value: Any) -> None:
    raise ValueError(f"{value!r:.80}: tell a fact that is valid for a time with index.memory.remember")


_time = partial(_number, least=-1e18, most=1e18)
_MENTION: _Fields = {"name": clean_name, "type": _text, "description": _text, "aliases": _names, "subject": bool}
_FACT: _Fields = {
    "entities": _names, "text": _text, "relation": _text, "value": _text, "source": _text, "status": _status,
    "weight": partial(_number, least=0, most=1e6), "confidence": partial(_number, least=0, most=1),
    "created": _time, "last_accessed": _time, "access_count": partial(_number, least=0, most=_LARGEST, kind=Integral),
    "span": _span, "valid_from": _no_time, "valid_to": _no_time,
}  # fmt: skip


def names_of(extraction: Extraction) -> dict[str, bool]:
    """Return the names of an extraction, subjects first and marked true."""
    mentions = extraction.mentions
    names = {mention.name: True for mention in mentions if mention.subject}
    aliases, entities = (mention.aliases for mention in mentions), (fact.entities for fact in extraction.facts)
    for name in chain((mention.name for mention in mentions), *aliases, *entities):
        names.setdefault(name, False)
    return names
