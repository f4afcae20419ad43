"""The metadata filter language: which documents a query may see.

A filter is a mapping from metadata keys to a value, or to operators and values::

    {"tenant": "acme"}
    {"year": {"gte": 2020, "lt": 2024}, "tag": {"in": ["release", "incident"]}}
    {"or": [{"team": "search"}, {"not": {"draft": True}}]}

Operators are ``eq ne gt gte lt lte in nin exists``; ``and``, ``or`` and ``not`` combine
filters. Each may be written with a leading ``$``. Nested keys are written with dots
(``"author.name"``). A list matches if any of its items does. Numbers, texts, booleans and
null are never equal to each other, and range operators compare values of the same kind.

:func:`parse` checks a filter and returns it as a frozen value. Engines translate that value
into their query language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphrag_core.errors import FilterError

Where = Mapping[str, Any]
"""A filter as users write it."""

Scalar = str | int | float | bool

Value = tuple[Literal["null", "bool", "text", "number"], Scalar]
"""A value with its kind. Only values of the same kind are compared; null is the empty text."""

_OPERATORS = ("eq", "exists", "gt", "gte", "in", "lt", "lte", "ne", "nin")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one metadata key; ``operator`` is one of eq, gt, gte, lt, lte, in, exists."""

    key: str
    operator: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The documents that do not match a filter."""

    part: Filter


@dataclass(frozen=True, slots=True)
class Group:
    """The documents that match all parts, or any of them."""

    all: bool
    parts: tuple[Filter, ...]


Filter = Condition | Not | Group
"""A parsed filter: frozen, hashable, independent of the mapping it was parsed from."""


def parse(where: Where) -> Filter:
    """Return a filter as a frozen value.

    Raises
    ------
    FilterError
        The filter is malformed; the message names the key, operator or value.

    Examples
    --------
    >>> parse({"year": {"gte": 2020}})
    Condition(key='year', operator='gte', values=(('number', 2020),))
    """
    if not isinstance(where, Mapping):
        raise FilterError(f"a filter must be a mapping such as {{'tenant': 'acme'}}, not {where!r}")
    parts = tuple(part for key, value in where.items() for part in _entry(key, value))
    return parts[0] if len(parts) == 1 else Group(all=True, parts=parts)


def required_keys(parsed: Filter) -> list[str]:
    """Return the metadata keys that must exist in some document: all but those tested with ``exists``."""
    conditions = list(_conditions(parsed))
    optional = {condition.key for condition in conditions if condition.operator == "exists"}
    return [condition.key for condition in conditions if condition.key not in optional]


def optional(parsed: Filter) -> Filter:
    """Return a filter that does not raise if no document has one of its keys: its conditions then match nothing."""
    if isinstance(parsed, Condition):
        exists = Condition(parsed.key, "exists", ())
        return parsed if parsed.operator == "exists" else Group(all=True, parts=(exists, parsed))
    if isinstance(parsed, Not):
        return Not(optional(parsed.part))
    return Group(parsed.all, tuple(optional(part) for part in parsed.parts))


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


def _conditions(parsed: Filter) -> Iterator[Condition]:
    if isinstance(parsed, Condition):
        yield parsed
    else:
        for part in (parsed.part,) if isinstance(parsed, Not) else parsed.parts:
            yield from _conditions(part)


def _entry(key: object, value: Any) -> Iterator[Filter]:
    if not isinstance(key, str) or not key:
        raise FilterError(f"the keys of a filter are metadata keys, not {key!r}")
    word = key.removeprefix("$")
    if word in ("and", "or"):
        if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
            raise FilterError(f"{key!r} takes a list of filters, not {value!r}")
        yield Group(all=word == "and", parts=tuple(parse(part) for part in value))
    elif word == "not":
        yield Not(parse(value))
    elif key.startswith("$"):
        raise FilterError(f"unknown operator {key!r}: use $and, $or, $not or a metadata key")
    elif isinstance(value, Mapping):
        if not value:
            raise FilterError(f"{key!r}: operator missing; use one of {', '.join(_OPERATORS)}")
        for operator, operand in value.items():
            yield _condition(key, operator, operand)
    else:
        yield _condition(key, "eq", value)


def _condition(key: str, operator: object, operand: Any) -> Filter:
    word = operator.removeprefix("$") if isinstance(operator, str) else ""
    if word not in _OPERATORS:
        raise FilterError(f"{key!r}: unknown operator {operator!r}; use one of {', '.join(_OPERATORS)}")
    if word == "exists":
        if not isinstance(operand, bool):
            raise FilterError(f"{key!r}: 'exists' takes True or False, not {operand!r}")
        found = Condition(key, "exists", ())
        return found if operand else Not(found)
    if word in ("in", "nin"):
        if isinstance(operand, (str, Mapping)) or not hasattr(operand, "__iter__"):
            raise FilterError(f"{key!r}: {word!r} takes a list of values, not {operand!r}")
        among = Condition(key, "in", tuple(_checked(key, value) for value in operand))
        return among if word == "in" else Not(among)
    value = _checked(key, operand)
    if word in ("gt", "gte", "lt", "lte") and value[0] in ("null", "bool"):
        raise FilterError(f"{key!r}: {word!r} compares numbers or texts, not {operand!r}")
    return Not(Condition(key, "eq", (value,))) if word == "ne" else Condition(key, word, (value,))


def _checked(key: str, value: Any) -> Value:
    if value is not None and not isinstance(value, (str, int, float, bool)):
        raise FilterError(f"{key!r}: values are texts, numbers, booleans or None, not {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FilterError(f"{key!r}: {value!r} does not fit into 64 bits")
    if isinstance(value, str) and "\x00" in value:
        raise FilterError(f"{key!r}: the value contains a NUL character, which no stored text has")
    return _value(value)


def _value(value: Scalar | None) -> Value:
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "bool", value
    return ("text", value) if isinstance(value, str) else ("number", value)
