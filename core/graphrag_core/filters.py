"""The metadata filter language: which documents a query may see.

A filter is a mapping from metadata keys to a value, or to operators and values::

    {"tenant": "acme"}
    {"year": {"gte": 2020, "lt": 2024}, "tag": {"in": ["release", "incident"]}}
    {"or": [{"team": "search"}, {"not": {"draft": True}}]}

Operators are ``eq ne gt gte lt lte in nin exists``; ``and``, ``or`` and ``not`` combine filters. Each may be written
with a leading ``$``. A list in place of a value is ``in``. Nested keys are written with dots (``"author.name"``). A
list in a document's metadata matches if any of its items does. Numbers, texts, booleans and null are never equal to
each other, and range operators compare values of the same kind. An empty mapping is no filter and matches every
document; inside a filter it is refused, as is an empty ``and``. An empty ``or`` matches nothing. A comparison with a
key that no document has matches nothing, also if it is negated.
The key ``"__id__"`` is the id of a document: ``{"__id__": {"in": ["a", "b"]}}``.
A filter has at most 1,000 conditions, nested 20 levels deep.

Metadata is stored as JSON. These values are converted, in documents and in filters alike, so that both compare equal:

==========================================  ===========================================================
value                                       stored as
==========================================  ===========================================================
text, integer, float, boolean, None         itself; NaN and infinity are refused
``datetime`` with a time zone               ISO text in UTC, ``"2024-05-01T08:00:00+00:00"``
``datetime`` without, ``date``, ``time``    ISO text, ``"2024-05-01T10:00:00"``, ``"2024-05-01"``
``UUID``, ``Path``                          text
``Enum``                                    its value
list, tuple                                 list
set, frozenset                              sorted list
mapping                                     object with texts as keys
numpy scalar                                the Python value; ``datetime64`` as a ``datetime`` or ``date``
==========================================  ===========================================================

ISO texts are ordered by time, so range operators compare them. A date is before every time of its day.

:func:`parse` checks a filter and returns it as a frozen value. It reads what the user passed exactly
once: after that, nothing but the frozen value decides what a query sees and under which key its result
is cached. A parsed filter is accepted wherever a filter is. Engines translate it into their query language.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from enum import Enum
from itertools import chain
from operator import eq, ge, gt, is_, le, lt
from pathlib import PurePath
from typing import Any, Literal
from uuid import UUID

import numpy as np

from graphrag_core.errors import FilterError

Scalar = str | int | float | bool

Value = tuple[Literal["null", "bool", "text", "number"], Scalar]
"""A value with its kind. Only values of the same kind are compared; null is the empty text."""

DOCUMENT_ID = "__id__"
"""The filter key for the id of a document."""

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"eq": eq, "gt": gt, "gte": ge, "lt": lt, "lte": le}
_OPERATORS = ("eq", "exists", "gt", "gte", "in", "lt", "lte", "ne", "nin")
MAX_CONDITIONS = 1_000
MAX_DEPTH = 20
MAX_METADATA_DEPTH = 50
"""How deep lists and mappings of metadata are nested at most: what reads them may recurse."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one metadata key; ``operator`` is one of eq, gt, gte, lt, lte, in, exists."""

    key: str
    operator: str
    values: tuple[Value, ...]


class Internal(Condition):
    """A comparison that no caller wrote. If no document has its key, it matches nothing; negated, every document."""

    __slots__ = ()


class Unknown(Condition):
    """A comparison with a key that no document has: it matches nothing, and :func:`mark_unknown` negates none."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Not:
    """The documents that do not match a filter."""

    part: Filter


@dataclass(frozen=True, slots=True)
class Group:
    """The documents that match all parts, or any of them."""

    all: bool
    parts: tuple[Filter, ...]


class Hidden(Not):
    """What no query may see, such as rejected facts: a part of every scope, and not the choice of a caller.

    It has the meaning of :class:`Not`. An engine may keep hidden documents in its statistics.
    """

    __slots__ = ()


Filter = Condition | Not | Group
"""A parsed filter: frozen, hashable, independent of the mapping it was parsed from."""

Where = Mapping[str, Any] | Condition | Not | Group
"""A filter as users write it, or a parsed one."""


def parse(where: Where) -> Filter:
    """Return a filter as a frozen value. What the user passed is read once; a parsed filter is returned itself.

    Raises
    ------
    FilterError
        The filter is malformed; the message names the key, operator or value.

    Examples
    --------
    >>> parse({"year": {"gte": 2020}})
    Condition(key='year', operator='gte', values=(('number', 2020),))
    """
    if isinstance(where, (Condition, Not, Group)):
        return where
    parsed = _parse(where, MAX_DEPTH)
    if (count := sum(1 for _ in conditions(parsed))) > MAX_CONDITIONS:
        advice = "list the values of a key in one condition, {'tag': {'in': [...]}}"
        raise FilterError(f"the filter has {count:,} conditions, at most {MAX_CONDITIONS:,} are possible: {advice}")
    return parsed


def _parse(where: Where, depth: int) -> Filter:
    """Return a filter as a frozen value, with its parts nested up to a depth."""
    if isinstance(where, (Condition, Not, Group)):
        return where
    if depth == 0:
        raise FilterError(f"the filter is nested deeper than {MAX_DEPTH} levels: combine its conditions in one list")
    parts = tuple(part for key, value in _items(where) for part in _entry(key, value, depth))
    return parts[0] if len(parts) == 1 else Group(all=True, parts=parts)


def parse_all(*filters: Where | None) -> Filter | None:
    """Return one filter for the documents that match all the given filters; None if all of them are None.

    Each is read once. Use it to narrow a scope: no filter can widen another.
    """
    parts = tuple(parse(where) for where in filters if where is not None)
    return Group(all=True, parts=parts) if len(parts) > 1 else parts[0] if parts else None


def asked_keys(parsed: Filter) -> list[str]:
    """Return the metadata keys that a caller compares, each once, without keys marked as unknown."""
    asked = (part.key for part in conditions(parsed) if type(part) is Condition and part.key != DOCUMENT_ID)
    return list(dict.fromkeys(asked))


def unknown_keys(parsed: Filter) -> tuple[str, ...]:
    """Return the keys that :func:`mark_unknown` marked, each once."""
    return tuple(dict.fromkeys(part.key for part in conditions(parsed) if isinstance(part, Unknown)))


def mark_unknown(parsed: Filter, unknown: Collection[str], *, negated: bool = False) -> Filter:
    """Return a filter, or its negation, in which comparisons with some keys match nothing.

    Negations are moved to the comparisons, and none is left at those keys. So the filter matches a part of what it
    would match with any other key in their place: a typing mistake cannot open a scope.

    >>> mark_unknown(parse({"not": {"tenent": "acme"}}), {"tenent"})
    Unknown(key='tenent', operator='in', values=())
    """
    if isinstance(parsed, Condition):
        if type(parsed) is Unknown or (type(parsed) is Condition and parsed.key in unknown):
            return Unknown(parsed.key, "in", ())
        return Not(parsed) if negated else parsed
    if isinstance(parsed, Not):
        return mark_unknown(parsed.part, unknown, negated=not negated)
    parts = tuple(mark_unknown(part, unknown, negated=negated) for part in parsed.parts)
    return Group(all=parsed.all != negated, parts=parts)


def conjuncts(parsed: Filter) -> Iterator[Filter]:
    """Yield the parts of a filter that a document must match, all of them."""
    if isinstance(parsed, Group) and parsed.all:
        for part in parsed.parts:
            yield from conjuncts(part)
    else:
        yield parsed


def matches(where: Where | None, metadata: Mapping[str, Any], document_id: str = "") -> bool:
    """Return whether a document with this metadata and id is inside a filter, as an engine decides it.

    Examples
    --------
    >>> matches({"year": {"gte": 2020}, "tags": "a"}, {"year": 2021, "tags": ["a", "b"]})
    True
    >>> matches({"not": {"tenant": "acme"}}, {"tenant": "acme"}), matches({"__id__": "x"}, {}, "x")
    (False, True)
    """
    if where is None:
        return True
    values: dict[str, list[Value]] = {}
    for key, value in attributes(metadata):
        values.setdefault(key, []).append(value)
    return _holds(parse(where), {**values, DOCUMENT_ID: [("text", document_id)]})


def _holds(parsed: Filter, values: Mapping[str, list[Value]]) -> bool:
    if isinstance(parsed, Not):
        return not _holds(parsed.part, values)
    if isinstance(parsed, Group):
        return (all if parsed.all else any)(_holds(part, values) for part in parsed.parts)
    stored = values.get(parsed.key, [])
    if parsed.operator == "exists":
        return bool(stored)
    if parsed.operator == "in":
        return any(value in parsed.values for value in stored)
    ((kind, operand),) = parsed.values
    return any(_COMPARE[parsed.operator](value, operand) for stored_kind, value in stored if stored_kind == kind)


def json_value(value: Any, name: str) -> Any:
    """Return a metadata value as it is stored: see the table above. A value that needs no change is returned itself.

    Raises
    ------
    ValueError
        The value cannot be stored; the message starts with its key, which is ``name`` or within it.

    Examples
    --------
    >>> json_value({"day": date(2024, 5, 1), "tags": {"b", "a"}}, "metadata")
    {'day': '2024-05-01', 'tags': ['a', 'b']}
    """
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is list:
        listed = [json_value(inner, name) for inner in value]
        return value if all(map(is_, listed, value)) else listed
    if kind is dict:
        stored = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} of {name!r} is not a text, which JSON would change")  # noqa: TRY004
            plain = str.__str__(key)
            stored[plain] = json_value(inner, plain if name == "metadata" else f"{name}.{plain}")
        same = chain(map(is_, stored, value), map(is_, stored.values(), value.values()))
        return value if all(same) else stored
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value, name)
    raise _not_json(value, name, f" of type {kind.__qualname__}")


def _not_json(value: Any, name: str, of_type: str = "") -> ValueError:
    return ValueError(f"{name!r} is {value!r:.60}{of_type}, which is not JSON: convert it to text or a number")


def _from_float(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name!r} is {value}, which JSON cannot hold: use None, or leave the key out")
    return float(value)


def _from_time(value: date | time, name: str) -> str:
    if value != value:  # noqa: PLR0124 - pandas.NaT
        raise ValueError(f"{name!r} is {value}, which is not a time: use None, or leave the key out")
    is_aware = isinstance(value, datetime) and value.tzinfo is not None
    return (value.astimezone(timezone.utc) if is_aware else value).isoformat()  # type: ignore[union-attr]


def _from_numpy(value: Any, name: str) -> Any:
    """Return a numpy scalar as it is stored. numpy itself gives nanoseconds as integers."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        is_day = np.datetime_data(value)[0] in ("Y", "M", "W", "D")
        return json_value(value.astype("datetime64[D]" if is_day else "datetime64[us]").item(), name)
    is_number = isinstance(value, (np.bool_, np.number)) and not isinstance(value, (np.complexfloating, np.timedelta64))
    if not is_number:
        raise _not_json(value, name)
    return json_value(value.item(), name)


def _from_set(value: Any, name: str) -> list[Any]:
    """Return a list in an order that does not depend on the hashes of this process."""
    stored = json_value(list(value), name)
    return sorted(stored, key=lambda inner: (type(inner).__name__, inner if isinstance(inner, str) else repr(inner)))


# The first that fits decides: a numpy string is a text, and a text may be an enum.
_CONVERSIONS: tuple[tuple[Any, Callable[[Any, str], Any]], ...] = (
    (float, _from_float),
    (Enum, lambda value, name: json_value(value.value, name)),
    (str, lambda value, _: str.__str__(value)),
    (int, lambda value, _: int(value)),
    (np.generic, _from_numpy),
    (Mapping, lambda value, name: json_value(dict(value.items()), name)),
    ((list, tuple), lambda value, name: json_value(list(value), name)),
    ((set, frozenset), _from_set),
    ((date, time), _from_time),
    ((UUID, PurePath), lambda value, _: str(value)),
)


def attributes(metadata: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the key and value of everything in a document's metadata that a filter can match.

    >>> list(attributes({"tags": ["a", 1], "author": {"name": "Ada"}, "draft": None}))
    [('tags', ('text', 'a')), ('tags', ('number', 1)), ('author.name', ('text', 'Ada')), ('draft', ('null', ''))]
    """
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Mapping):
                yield from attributes(item, f"{name}.")
            elif isinstance(item, int) and not -(2**63) <= item < 2**63:
                continue  # stored with the document, but too large for a database to compare
            elif item is None or isinstance(item, (str, int, float, bool)):
                yield name, _value(item)


def posing_key(metadata: Mapping[str, Any], prefix: str = "") -> str | None:
    """Return a key with a dot that a filter cannot tell from a key of a mapping beside it, or None.

    >>> posing_key({"acl": {"tenant": "acme"}, "acl.tenant": "umbrella"})
    'acl.tenant'
    """
    inner = {
        key: [item for item in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(item, Mapping)]
        for key, value in metadata.items()
    }
    for key in metadata:
        parts = key.split(".")
        if any(inner.get(".".join(parts[:count])) for count in range(1, len(parts))):
            return prefix + key
    nested = (posing_key(item, f"{prefix}{key}.") for key, items in inner.items() for item in items)
    return next((key for key in nested if key is not None), None)


def conditions(parsed: Filter) -> Iterator[Condition]:
    """Yield all comparisons in a filter."""
    if isinstance(parsed, Condition):
        yield parsed
        return
    for part in (parsed.part,) if isinstance(parsed, Not) else parsed.parts:
        yield from conditions(part)


def _items(where: object) -> list[tuple[Any, Any]]:
    """Return the entries of a mapping, which is not read again."""
    if not isinstance(where, Mapping):
        raise FilterError(f"a filter must be a mapping such as {{'tenant': 'acme'}}, not {where!r:.80}")
    return [*where.items()]


def _listed(key: str, word: str, value: Any, what: str) -> list[Any]:
    """Return the items of a list, which is not read again. An iterator is refused: a used one would open the scope."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise FilterError(f"{key!r}: {word!r} takes a list of {what}, not {value!r:.80}")
    return list(value)


def _inner(key: str, where: Any, depth: int) -> Filter:
    """Return a filter inside another one. An empty one would match every document, and open the scope."""
    parsed = _parse(where, depth - 1)
    if isinstance(parsed, Group) and parsed.all and not parsed.parts:
        raise FilterError(f"{key!r} contains an empty filter, which matches every document: leave it out")
    return parsed


def _group(key: str, word: str, value: Any, depth: int) -> Filter:
    parts = tuple(_inner(key, part, depth) for part in _listed(key, word, value, "filters"))
    if word == "and" and not parts:
        raise FilterError(f"{key!r} is an empty list, which matches every document: leave it out")
    return Group(all=word == "and", parts=parts)


def _entry(key: object, value: Any, depth: int) -> Iterator[Filter]:
    if not isinstance(key, str) or not key:
        raise FilterError(f"the keys of a filter are metadata keys, not {key!r:.80}")
    key = str.__str__(key)  # a subclass may answer differently each time
    _check_text(key, f"the key {key!r:.80}")
    word = key.removeprefix("$")
    if word in ("and", "or"):
        yield _group(key, word, value, depth)
    elif word == "not":
        yield Not(_inner(key, value, depth))
    elif key.startswith("$"):
        raise FilterError(f"unknown operator {key!r}: use $and, $or, $not or a metadata key")
    elif isinstance(value, Mapping):
        if not (operators := _items(value)):
            raise FilterError(f"{key!r}: operator missing; use one of {', '.join(_OPERATORS)}")
        for operator, operand in operators:
            yield _condition(key, operator, operand)
    else:
        yield _condition(key, "in" if isinstance(value, (list, tuple, set, frozenset)) else "eq", value)


def _condition(key: str, operator: object, operand: Any) -> Filter:
    word = str.__str__(operator).removeprefix("$") if isinstance(operator, str) else ""
    if word not in _OPERATORS:
        raise FilterError(f"{key!r}: unknown operator {operator!r}; use one of {', '.join(_OPERATORS)}")
    name, negated = {"ne": ("eq", True), "nin": ("in", True)}.get(word, (word, operand is False and word == "exists"))
    if word == "exists" and not isinstance(operand, bool):
        raise FilterError(f"{key!r}: 'exists' takes True or False, not {operand!r}")
    operands = _listed(key, word, operand, "values") if name == "in" else [] if name == "exists" else [operand]
    values = tuple(_checked(key, value) for value in operands)
    if name not in ("eq", "in", "exists") and values[0][0] in ("null", "bool"):
        raise FilterError(f"{key!r}: {word!r} compares numbers or texts, not {operand!r}")
    condition = Condition(key, name, values)
    return Not(condition) if negated else condition


def _checked(key: str, value: Any) -> Value:
    if type(value) is str and value.isascii() and "\x00" not in value:
        return "text", value  # most of a long list of ids
    try:
        value = json_value(value, key)
    except (ValueError, RecursionError) as error:
        raise FilterError(f"{key!r}: values are texts, numbers, booleans, times or None: {error}") from error
    if value is not None and not isinstance(value, (str, int, float, bool)):
        raise FilterError(f"{key!r}: values are texts, numbers, booleans or None, not {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FilterError(f"{key!r}: {value!r} does not fit into 64 bits")
    if isinstance(value, str):
        _check_text(value, f"{key!r}: the value")
    return _value(value)


def _check_text(text: str, what: str) -> None:
    """Raise if a text has characters that no stored text has, and that databases refuse."""
    if "\x00" in text:
        raise FilterError(f"{what} contains a NUL character, which no stored text has")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FilterError(f"{what} has a lone surrogate at {error.start}: decode it correctly") from error


def _value(value: Scalar | None) -> Value:
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "bool", value
    return ("text", value) if isinstance(value, str) else ("number", value)
