"""``where``: which documents a query may see, as a checked tree of conditions.

A filter is a mapping from metadata keys to a value, or to operators and values::

    {"tenant": "acme"}
    {"year": {"gte": 2020, "lt": 2024}, "tag": {"in": ["release", "incident"]}}
    {"or": [{"team": "search"}, {"not": {"draft": True}}]}

Operators are ``eq ne gt gte lt lte in nin exists``; ``and``, ``or`` and ``not`` combine.
Each may be written with a leading ``$``. A nested key is written with dots
(``"author.name"``), and a list matches when any of its items does. Numbers, texts and
truth values are never equal to each other, and a range compares only its own kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag_core.errors import FilterError

Where = Mapping[str, Any]
Scalar = str | int | float | bool | None

_COMPARE = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPERATORS = {*_COMPARE, "ne", "in", "nin", "exists"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one key."""

    key: str
    operator: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """What does not fulfil the part."""

    part: Tree


@dataclass(frozen=True, slots=True)
class Group:
    """What fulfils all parts, or any part."""

    all: bool
    parts: tuple[Tree, ...]


Tree = Condition | Not | Group


def parse(where: Where) -> Tree:
    """Return the filter as a tree, or raise :class:`FilterError` naming what is wrong.

    >>> parse({"year": {"gte": 2020}})
    Condition(key='year', operator='gte', values=(2020,))
    """
    if not isinstance(where, Mapping):
        raise FilterError(f"a filter is a mapping such as {{'tenant': 'acme'}}, not {where!r}")
    parts = tuple(part for key, value in where.items() for part in _entry(key, value))
    return parts[0] if len(parts) == 1 else Group(all=True, parts=parts)


def keys(tree: Tree) -> list[str]:
    """Return the metadata keys that a filter takes for granted: all but those it asks the existence of."""
    conditions = list(_conditions(tree))
    asked = {condition.key for condition in conditions if condition.operator == "exists"}
    return [condition.key for condition in conditions if condition.key not in asked]


def _conditions(tree: Tree) -> Iterator[Condition]:
    if isinstance(tree, Condition):
        yield tree
    elif isinstance(tree, Not):
        yield from _conditions(tree.part)
    else:
        for part in tree.parts:
            yield from _conditions(part)


def kind(value: Scalar) -> str:
    """Return which values a value may be compared with."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def to_sql(tree: Tree) -> tuple[str, list[Scalar]]:
    """Return a query for document keys and its parameters; no text of the filter is in it."""
    if isinstance(tree, Not):
        inner, parameters = to_sql(tree.part)
        return f"SELECT key FROM documents WHERE key NOT IN ({inner})", parameters
    if isinstance(tree, Group):
        if not tree.parts:
            everything = "SELECT key FROM documents"
            return (everything if tree.all else f"{everything} WHERE 0"), []
        queries = [to_sql(part) for part in tree.parts]
        joint = " INTERSECT " if tree.all else " UNION "
        sql = joint.join(f"SELECT * FROM ({query})" for query, _ in queries)
        return sql, [value for _, parameters in queries for value in parameters]
    return _condition_sql(tree)


def _condition_sql(condition: Condition) -> tuple[str, list[Scalar]]:
    have = "SELECT document FROM attributes WHERE name = ?"
    if condition.operator == "exists":
        return have, [condition.key]
    if condition.operator in _COMPARE:
        (value,) = condition.values
        sql = f"{have} AND kind = ? AND value {_COMPARE[condition.operator]} ?"
        return sql, [condition.key, kind(value), _stored(value)]
    pairs = ", ".join("(?, ?)" for _ in condition.values)
    sql = f"{have} AND (kind, value) IN (VALUES {pairs})" if pairs else f"{have} AND 0"
    return sql, [condition.key, *(x for value in condition.values for x in (kind(value), _stored(value)))]


def _stored(value: Scalar) -> Scalar:
    return "" if value is None else value


def _entry(key: object, value: Any) -> Iterator[Tree]:
    if not isinstance(key, str) or not key:
        raise FilterError(f"a filter's keys are names of metadata, not {key!r}")
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
            raise FilterError(f"{key!r}: no operator given; use one of {sorted(_OPERATORS)}")
        for operator, operand in value.items():
            yield _condition(key, operator, operand)
    else:
        yield _condition(key, "eq", value)


def _condition(key: str, operator: object, operand: Any) -> Tree:
    word = operator.removeprefix("$") if isinstance(operator, str) else ""
    if word not in _OPERATORS:
        raise FilterError(f"{key!r}: unknown operator {operator!r}; use one of {sorted(_OPERATORS)}")
    if word == "exists":
        if not isinstance(operand, bool):
            raise FilterError(f"{key!r}: 'exists' takes True or False, not {operand!r}")
        found = Condition(key, "exists", ())
        return found if operand else Not(found)
    if word in ("in", "nin"):
        if isinstance(operand, (str, Mapping)) or not hasattr(operand, "__iter__"):
            raise FilterError(f"{key!r}: {word!r} takes a list of values, not {operand!r}")
        among = Condition(key, "in", tuple(_scalar(key, value) for value in operand))
        return among if word == "in" else Not(among)
    value = _scalar(key, operand)
    if word in ("gt", "gte", "lt", "lte") and kind(value) in ("null", "bool"):
        raise FilterError(f"{key!r}: {word!r} compares numbers or texts, not {operand!r}")
    if word == "ne":
        return Not(Condition(key, "eq", (value,)))
    return Condition(key, word, (value,))


def _scalar(key: str, value: Any) -> Scalar:
    if value is not None and not isinstance(value, (str, int, float, bool)):
        raise FilterError(f"{key!r}: compares texts, numbers, truth values and None, not {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FilterError(f"{key!r}: {value!r} is beyond 64 bits")
    if isinstance(value, str) and "\x00" in value:
        raise FilterError(f"{key!r}: the value has a NUL character, which no stored text has")
    return value


def attributes(metadata: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, Scalar]]:
    """Yield name, kind and value of everything in a document's metadata a filter can test.

    >>> list(attributes({"tags": ["a", 1], "author": {"name": "Ada"}, "draft": None}))
    [('tags', 'text', 'a'), ('tags', 'number', 1), ('author.name', 'text', 'Ada'), ('draft', 'null', '')]
    """
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Mapping):
                yield from attributes(item, f"{name}.")
            elif isinstance(item, int) and not -(2**63) <= item < 2**63:
                continue  # comes back with the document, but SQLite cannot compare it
            elif item is None or isinstance(item, (str, int, float, bool)):
                yield name, kind(item), _stored(item)
