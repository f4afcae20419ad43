"""Filters as SQL, for both engines. User input is in the parameters only."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Group, Hidden, Not, required_keys, unknown_key

_COMPARE = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}

Query = tuple[str, list[Any]]
"""A statement and its parameters."""


class Dialect(NamedTuple):
    """How a database writes what filters need.

    Attributes
    ----------
    mark
        Stands for a parameter.
    own
        A condition for the rows of the index.
    listed
        A condition that a column is in a list of texts, which is one parameter, and what makes that parameter.
    values
        Returns a condition that an attribute has one of the values of a filter, or compares with one.
    """

    mark: str
    own: str
    listed: tuple[str, Callable[[list[Any]], Any]]
    values: Callable[[Condition, str], Query]


def filter_sql(scope: Filter, dialect: Dialect) -> Query:
    """Return a query for the keys of the documents that match a filter."""
    everything = f"SELECT key FROM documents WHERE {dialect.own}"
    if isinstance(scope, Not):
        inner, parameters = filter_sql(scope.part, dialect)
        return f"{everything} AND key NOT IN ({inner})", parameters
    if isinstance(scope, Group):
        if not scope.parts:
            return everything if scope.all else f"{everything} AND 1 = 0", []
        queries = [filter_sql(part, dialect) for part in scope.parts]
        joint = " INTERSECT " if scope.all else " UNION "
        sql = joint.join(f"SELECT * FROM ({query}) AS part" for query, _ in queries)
        return sql, [value for _, parameters in queries for value in parameters]
    if scope.key == DOCUMENT_ID:
        sql, parameters = _id_condition(scope, dialect)
        return f"{everything} AND {sql}", parameters
    sql, parameters = dialect.values(scope, _COMPARE.get(scope.operator, "")) if scope.values else ("1 = 0", [])
    if scope.operator == "exists":
        sql, parameters = "1 = 1", []
    named = f"SELECT document FROM attributes WHERE {dialect.own} AND name = {dialect.mark} AND {sql}"
    return named, [scope.key, *parameters]


def _id_condition(scope: Condition, dialect: Dialect) -> Query:
    ids = [value for kind, value in scope.values if kind == "text"]
    if scope.operator == "exists":
        return "1 = 1", []
    if scope.operator == "in":
        condition, as_parameter = dialect.listed
        return f"id {condition}", [as_parameter(ids)]
    return f"id {_COMPARE[scope.operator]} {dialect.mark}" if ids else "1 = 0", [*ids]


def check_keys(rows: Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]], scope: Filter, dialect: Dialect) -> bool:
    """Check that each key of a filter exists in some document; return whether there are any documents.

    ``rows`` runs a statement and returns its rows.
    """
    names = list(dict.fromkeys(required_keys(scope)))
    named = f"EXISTS (SELECT 1 FROM attributes WHERE {dialect.own} AND name = {dialect.mark})"
    exists = ", ".join([f"EXISTS (SELECT 1 FROM documents WHERE {dialect.own})", *[named] * len(names)])
    has_documents, *found = rows(f"SELECT {exists}", names)[0]
    for name, is_known in zip(names, found, strict=True):
        if has_documents and not is_known:
            raise unknown_key(name)
    return bool(has_documents)


def parts_of(scope: Filter | None) -> tuple[Filter | None, Filter | None]:
    """Return what a caller chose, and what is hidden from every query."""
    if isinstance(scope, Hidden):
        return None, scope.part
    if isinstance(scope, Group) and scope.all and len(scope.parts) == 2 and isinstance(scope.parts[1], Hidden):
        return scope.parts[0], scope.parts[1].part
    return scope, None


def _sqlite_values(scope: Condition, operator: str) -> Query:
    parameters = [item for value in scope.values for item in value]
    if operator:
        return f"kind = ? AND value {operator} ?", parameters
    pairs = ", ".join("(?, ?)" for _ in scope.values)
    return f"(kind, value) IN (VALUES {pairs})", parameters


def _postgres_values(scope: Condition, operator: str) -> Query:
    """Numbers are in a column of their own."""
    numbers = [Decimal(value) for kind, value in scope.values if kind == "number"]
    texts = [(kind, postgres_text(value)) for kind, value in scope.values if kind != "number"]
    if operator and numbers:
        return f"number {operator} %s::numeric", [*numbers]
    if operator:
        return f"kind = %s AND value {operator} %s", [*texts[0]]
    kinds, values = [kind for kind, _ in texts], [value for _, value in texts]
    sql = "(number = ANY(%s::numeric[]) OR (kind, value) IN (SELECT * FROM unnest(%s::text[], %s::text[])))"
    return sql, [numbers, kinds, values]


def postgres_text(value: Any) -> str:
    """Return a value that is no number as PostgreSQL stores it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


SQLITE = Dialect("?", "1 = 1", ("IN (SELECT value FROM json_each(?))", json.dumps), _sqlite_values)


def postgres(index: int) -> Dialect:
    """Return the dialect of PostgreSQL for the rows of an index."""
    return Dialect("%s", f"index = {index}", ("= ANY(%s::text[])", list), _postgres_values)
