"""Translate LlamaIndex's ``MetadataFilters`` to the core's filter language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graphrag_core.errors import FilterError
from graphrag_core.filters import DOCUMENT_ID, Filter, Group, Internal, Not, Where, parse, parse_all
from llama_graphrag.nodes import SOURCE

_FILTERS = ("filters", "node_ids", "doc_ids")
_RESERVED = {"and", "or", "not"}
_SOURCE_KEYS = {"ref_doc_id", "doc_id", "document_id"}  # names of the source id in LlamaIndex's vector stores

_OPERATORS = {
    FilterOperator.EQ: "eq", FilterOperator.NE: "ne", FilterOperator.GT: "gt", FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt", FilterOperator.LTE: "lte", FilterOperator.IN: "in", FilterOperator.NIN: "nin",
    FilterOperator.ANY: "in", FilterOperator.ALL: "all", FilterOperator.CONTAINS: "eq",
    FilterOperator.IS_EMPTY: "is_empty",
}  # fmt: skip
"""The core's operators; the core has neither ``all`` nor ``is_empty``."""


def to_where(filters: MetadataFilters | None) -> Filter | None:
    """Return the equivalent filter of the core, parsed, or raise :class:`FilterError`.

    A list in a node's metadata matches a comparison if one of its items does; ``any``, ``all``
    and ``contains`` compare whole items. ``text_match`` is not supported.

    ``MetadataFilters(filters=[])`` is not a filter, also inside of filters that are joined by AND. Joined by OR or
    negated it is refused: it would open the scope. With the condition OR, no filters match nothing.
    """
    if filters is None:
        return None
    if not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters is {filters!r:.60}: pass MetadataFilters; a mapping can be passed as where=")
    condition, listed = filters.condition or FilterCondition.AND, list(filters.filters)
    parts = [to_where(part) if isinstance(part, MetadataFilters) else parse(_translate(part)) for part in listed]
    return _joined(condition, tuple(part for part in parts if part is not None), has_empty=None in parts)


def _joined(condition: FilterCondition, parts: tuple[Filter, ...], *, has_empty: bool) -> Filter | None:
    """Return filters joined by a condition; None if there is none to join."""
    if condition == FilterCondition.AND:
        return Group(all=True, parts=parts) if parts else None
    if condition not in (FilterCondition.OR, FilterCondition.NOT):
        raise FilterError(f"the condition {condition!r} is not supported: use and, or, not")
    if has_empty:
        raise FilterError(f"{condition.value!r} has an empty group of filters, which matches every node: leave it out")
    either = Group(all=False, parts=parts)
    if condition == FilterCondition.OR:
        return either
    return Not(either) if parts else None


def take_scope(settings: dict[str, Any]) -> Filter | None:
    """Remove ``where``, ``filters``, ``node_ids`` and ``doc_ids`` from settings; return one filter for all of them.

    Nodes are found by ``doc_ids`` if these are ids of their source documents. A passage that was indexed without
    LlamaIndex counts as a node with the id of its document.
    """
    where, filters, node_ids, doc_ids = (settings.pop(name, None) for name in ("where", *_FILTERS))
    parts: list[Where | None] = [where]
    if filters is not None:
        parts.append(to_where(filters))
    if node_ids is not None:
        parts.append({DOCUMENT_ID: {"in": _listed("node_ids", node_ids)}})
    if doc_ids is not None:
        ids = _listed("doc_ids", doc_ids)
        named, listed = parse({SOURCE: {"in": ids}}), parse({DOCUMENT_ID: {"in": ids}})
        is_node = Internal(SOURCE, "exists", ())  # no document may be one
        of_nodes, of_others = Group(all=True, parts=(is_node, named)), Group(all=True, parts=(Not(is_node), listed))
        parts.append(Group(all=False, parts=(of_nodes, of_others)))
    return parse_all(*parts)


def _listed(name: str, ids: Iterable[str]) -> list[str]:
    """Return ids as a list; raise :class:`FilterError` if they are not a list of texts."""
    listed = None if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    if listed is None or not all(isinstance(one, str) for one in listed):
        raise FilterError(f"{name} is {ids!r:.60}: pass a list of ids")
    return listed


def _translate(part: MetadataFilter) -> Where:
    if part.operator not in _OPERATORS:
        supported = ", ".join(operator.name for operator in _OPERATORS)
        raise FilterError(f"{part.key!r}: the operator {part.operator.name} is not supported; use one of {supported}")
    if part.key in _RESERVED or part.key.startswith("$"):
        raise FilterError(f"{part.key!r} is a reserved word of the filter language: rename the metadata key")
    key, operator, value = SOURCE if part.key in _SOURCE_KEYS else part.key, _OPERATORS[part.operator], part.value
    if operator == "is_empty":
        return {"or": [{key: {"exists": False}}, {key: {"in": [None, ""]}}]}
    if operator != "all":
        return {key: {operator: value}}
    if not isinstance(value, list):
        raise FilterError(f"{key!r}: the operator ALL takes a list of values, not {value!r}")
    return {"and": [{key: {"eq": item}} for item in value]}
