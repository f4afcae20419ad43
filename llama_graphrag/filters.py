"""LlamaIndex's ``MetadataFilters`` as the core's ``where``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graphrag_core.errors import FilterError
from graphrag_core.where import Where
from llama_graphrag.nodes import SOURCE

_WORDS = {"and", "or", "not"}
_SOURCE_KEYS = {"ref_doc_id", "doc_id", "document_id"}  # as LlamaIndex's vector stores name it

_OPERATORS: dict[FilterOperator, Callable[[str, Any], Where]] = {
    FilterOperator.EQ: lambda key, value: {key: {"eq": value}},
    FilterOperator.NE: lambda key, value: {key: {"ne": value}},
    FilterOperator.GT: lambda key, value: {key: {"gt": value}},
    FilterOperator.GTE: lambda key, value: {key: {"gte": value}},
    FilterOperator.LT: lambda key, value: {key: {"lt": value}},
    FilterOperator.LTE: lambda key, value: {key: {"lte": value}},
    FilterOperator.IN: lambda key, value: {key: {"in": value}},
    FilterOperator.NIN: lambda key, value: {key: {"nin": value}},
    FilterOperator.ANY: lambda key, value: {key: {"in": value}},
    FilterOperator.ALL: lambda key, value: {"and": [{key: {"eq": one}} for one in _listed(key, value)]},
    FilterOperator.CONTAINS: lambda key, value: {key: {"eq": value}},
    FilterOperator.IS_EMPTY: lambda key, _: {"or": [{key: {"exists": False}}, {key: {"in": [None, ""]}}]},
}


def to_where(filters: MetadataFilters | None) -> Where | None:
    """Return the filter that lets the same nodes through, or raise :class:`FilterError`.

    A list in a node's metadata fulfils a comparison when one of its items does, and ``any``,
    ``all`` and ``contains`` compare whole items. ``text_match`` is refused.
    """
    if filters is None or not filters.filters:
        return None
    parts = [to_where(part) or {} if isinstance(part, MetadataFilters) else _one(part) for part in filters.filters]
    condition = filters.condition or FilterCondition.AND
    if condition == FilterCondition.NOT:
        return {"not": {"or": parts}}
    if condition in (FilterCondition.AND, FilterCondition.OR):
        return {condition.value: parts}
    raise FilterError(f"the condition {condition!r} is not supported: use and, or, not")


def _one(part: MetadataFilter) -> Where:
    if part.operator not in _OPERATORS:
        held = ", ".join(operator.name for operator in _OPERATORS)
        raise FilterError(f"{part.key!r}: the operator {part.operator.name} is not supported; use one of {held}")
    if part.key in _WORDS or part.key.startswith("$"):
        raise FilterError(f"{part.key!r} is a word of the filter language: name the metadata otherwise")
    return _OPERATORS[part.operator](SOURCE if part.key in _SOURCE_KEYS else part.key, part.value)


def _listed(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FilterError(f"{key!r}: the operator ALL takes a list of values, not {value!r}")
    return value
