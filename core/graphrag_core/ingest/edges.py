"""Explicit edges: documents that are linked because their metadata says so.

An edge is a pair of metadata fields. A document is linked to every document whose target field has a value of its
source field. If both fields are the same, as in ``("author", "author")``, each shared value is an entity of the type
"author". Otherwise the value is the address of the documents that have it in the target field. No question names an
address, and it leads nowhere until such a document arrives. The fact of an edge ends with the name
:data:`~graphrag_core.text.EDGE`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.model import Document, Fact, Mention
from graphrag_core.ports import ParsedDocument
from graphrag_core.text import EDGE, fingerprint, normalise, title_names

ID = "$id"
"""The field that is a document's id, and the metadata ``id`` if there is one. ``"id"`` is the same."""

Edge = tuple[str, str]
Edges = Iterable[str | Sequence[Any]]
"""Pairs of a source field and a target field; one text stands for a pair of the same field."""

_LONGEST_VALUE = 200
_OPAQUE = re.compile(r"(?=.*\d)[0-9A-Za-z_-]{16,}|[0-9a-fA-F-]{12,}|\w+://\S*|\S*[/\\@]\S*")


def parse_edges(edges: Edges) -> tuple[Edge, ...]:
    """Return edges as pairs of fields, each once.

    Raises
    ------
    InputError
        An edge is not a pair of fields.

    Examples
    --------
    >>> parse_edges(["author", ("links", "id"), ("$id", "parent")])
    (('author', 'author'), ('links', '$id'), ('parent', '$id'))
    """
    if isinstance(edges, (str, bytes, Mapping)) or not isinstance(edges, Iterable):
        raise InputError(f"edges is {edges!r:.80}: use a list such as [('author', 'author'), ('links', 'id')]")
    pairs: dict[Edge, None] = {}
    for edge in edges:
        ends = (edge, edge) if isinstance(edge, str) else tuple(edge) if isinstance(edge, Sequence) else ()
        if len(ends) != 2:
            raise InputError(f"the edge {edge!r:.80} is not a pair: use (source field, target field), or one field")
        source, target = map(_field, ends)
        if source == ID:  # the graph is followed in both directions
            source, target = target, source
        if source == ID:
            raise InputError("an edge from id to id links every document to itself: name a metadata field")
        pairs[source, target] = None
    return tuple(pairs)


def _field(field: Any) -> str:
    if not isinstance(field, str) or not field.strip():
        raise InputError(f"an edge has the field {field!r:.80}: use the name of a metadata field, or 'id'")
    if "=" in field or len(field) > _LONGEST_VALUE // 2:
        raise InputError(f"the field {field!r:.80} of an edge is too long, or has an '=': rename it in the metadata")
    return ID if field.strip() in ("id", ID) else field.strip()


def shared_fields(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the fields whose shared values are entities, of an index with these settings: the types of these."""
    return frozenset(source for source, target in json.loads(settings.get("edges", "[]")) if source == target)


def values(document: Document, field: str) -> list[str]:
    """Return the values of a field of a document as texts, each once.

    A field in nested metadata is written with dots. Of a list every item counts.

    >>> values(Document("1", "…", metadata={"info": {"year": 2020}, "tags": ["a", "b", None]}), "info.year")
    ['2020']
    """
    texts = {document.id: None} if field == ID else {}
    stored = _nested(document.metadata, "id" if field == ID else field)
    for value in stored if isinstance(stored, (list, tuple, set, frozenset)) else [stored]:
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, float) and value.is_integer():
            text = str(int(value))
        else:
            text = " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
        if text:
            texts[text] = None
    return list(texts)


def _nested(metadata: Any, field: str) -> Any:
    if not isinstance(metadata, Mapping):
        return None
    if field in metadata:
        return metadata[field]
    for at in (place for place, letter in enumerate(field) if letter == "."):
        if field[:at] in metadata:
            return _nested(metadata[field[:at]], field[at + 1 :])
    return None


def address(field: str, value: str) -> str:
    """Return the name of the documents that have a value in a field. Upper and lower case differ."""
    name = value if len(value) <= _LONGEST_VALUE else value[:100]
    if name != value or value != value.casefold():
        name = f"{name}~{fingerprint([value])[:8]}"
    return f"{EDGE}{field}={name}"


def value_name(field: str, value: str) -> str:
    """Return the name of the entity that is a shared value.

    A value that is written like a name is one, and meets the same name in the texts. Others have their field before
    them: neither a common word nor an id becomes a name.

    >>> value_name("author", "Mara Lindqvist"), value_name("habitat", "jungle"), value_name("year", "2020")
    ('Mara Lindqvist', 'habitat: jungle', 'year: 2020')
    """
    cased = any(letter.isupper() or (letter.isalpha() and letter.lower() == letter.upper()) for letter in value)
    return value if cased and normalise(value) and not _OPAQUE.fullmatch(value) else f"{field}: {value}"


def with_edges(parsed: ParsedDocument, edges: Sequence[Edge]) -> ParsedDocument:
    """Return a document with the facts of its edges in its first passage, and their names in each."""
    title = next(iter(title_names(parsed.chunks[0].title)), "")
    name = title or address(ID, parsed.document.id)
    facts = _edge_facts(parsed.document, edges, title, name)
    # The addresses to which edges of other documents lead; the own one, if the document has no title.
    targets = [target for source, target in edges if source != target]
    subjects = {address(target, value): True for target in targets for value in values(parsed.document, target)}
    if facts and not title:
        subjects[name] = True
    if not facts and not subjects:
        return parsed
    ends = ((end, fact.relation) for fact in facts for end in fact.entities[1:-1] if not end.startswith(EDGE))
    shared = [Mention(end, field) for end, field in dict.fromkeys(ends)]
    found = [replace(one, mentions=(*one.mentions, *shared)) for one in parsed.extractions]
    found[0] = replace(found[0], facts=(*found[0].facts, *facts))
    others = [EDGE, *(end for fact in facts for end in fact.entities[:-1])]
    return replace(parsed, extractions=found, names=[_with_names(own, subjects, others) for own in parsed.names])


def _with_names(names: Mapping[str, bool], subjects: dict[str, bool], others: Sequence[str]) -> dict[str, bool]:
    """Return names with further subjects behind the subjects, and other names at the end."""
    first = {own: True for own, is_subject in names.items() if is_subject} | subjects
    return first | {own: False for own in (*names, *others) if own not in first}


def _edge_facts(document: Document, edges: Sequence[Edge], title: str, name: str) -> list[Fact]:
    """Return a fact for each value of a source field, between a document's name and what the value leads to."""
    facts = []
    for source in dict.fromkeys(source for source, _ in edges):
        targets = [target for field, target in edges if field == source]
        for value in values(document, source):
            if ID in targets and value in values(document, ID):  # to itself
                continue
            ends = [value_name(source, value) if target == source else address(target, value) for target in targets]
            text = f"{source}: {value}" if source in targets else source
            facts.append(Fact((name, *ends, EDGE), f"{title} {text}" if title else text, source))
    return facts
