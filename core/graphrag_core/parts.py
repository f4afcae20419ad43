"""Rows of the records as parts of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.ingest.echo import name_grams, sentence_grams
from graphrag_core.ports import Keys
from graphrag_core.stores.change import Span, no_keys, unpack
from graphrag_core.stores.graph import GraphPart
from graphrag_core.stores.records import Records
from graphrag_core.text import unwrap

_PAGE = 1_000


def graph_parts(records: Records, names: Span, chunks: Span) -> Iterator[GraphPart]:
    """Yield the names and chunks of two spans as graph parts of bounded size, names first."""
    for start in range(names[0], names[1], _PAGE):
        yield _name_part(records, (start, min(start + _PAGE, names[1])))
    for start in range(chunks[0], chunks[1], _PAGE):
        yield _chunk_part(records, (start, min(start + _PAGE, chunks[1])))


def _name_part(records: Records, span: Span) -> GraphPart:
    rows = list(records.pages("SELECT key, entity, norm FROM names", "key", span))
    keys = _numbers(row[0] for row in rows)
    name, gram = name_grams([row[2] for row in rows])
    return _part(names=keys, name_entity=_numbers(row[1] for row in rows), name_gram=(keys[name], gram))


def _chunk_part(records: Records, span: Span) -> GraphPart:
    texts: dict[int, str] = {}
    lists, subjects = [], []
    for key, text, count, names in records.pages("SELECT key, text, subjects, names FROM chunks", "key", span):
        texts[key] = text
        lists.append(unpack(names))
        subjects.append(np.arange(len(lists[-1])) < count)
    chunks = _numbers(texts)
    aliases = records.rows("SELECT chunk, short, long FROM aliases WHERE chunk >= ? AND chunk < ?", span)
    facts = _facts(records, span)
    unwrapped = {key: unwrap(text) for key, text in texts.items()}
    pieces = [(key, unwrapped[chunk][start:stop]) for key, chunk, _, _, start, stop in facts if start is not None]
    sentence, gram = sentence_grams([text for _, text in pieces])
    fact_lists = [unpack(row[3]) for row in facts]
    fact_keys = _numbers(row[0] for row in facts)
    return _part(
        chunks=chunks,
        mention=(np.repeat(chunks, [len(x) for x in lists]), _joined(lists), _flags(subjects)),
        facts=fact_keys,
        fact_chunk=_numbers(row[1] for row in facts),
        fact_weight=np.array([row[2] for row in facts], np.float32),
        fact_name=(np.repeat(fact_keys, [len(x) for x in fact_lists]), _joined(fact_lists)),
        fact_gram=(_numbers(key for key, _ in pieces)[sentence], gram),
        alias=tuple(_numbers(row[i] for row in aliases) for i in range(3)),
    )


def _facts(records: Records, span: Span) -> list[tuple[Any, ...]]:
    piece = "iif(text IS NULL, start, NULL), stop"
    sql = f"SELECT key, chunk, weight, names, {piece} FROM facts WHERE chunk >= ? AND chunk < ? ORDER BY key"
    return records.rows(sql, span)


def _part(**columns: Any) -> GraphPart:
    empty = no_keys()
    whole: dict[str, Any] = {
        "chunks": empty,
        "names": empty,
        "name_entity": empty,
        "name_gram": (empty, empty),
        "mention": (empty, empty, np.empty(0, np.bool_)),
        "facts": empty,
        "fact_chunk": empty,
        "fact_weight": np.empty(0, np.float32),
        "fact_name": (empty, empty),
        "fact_gram": (empty, empty),
        "alias": (empty, empty, empty),
    }
    return GraphPart(**{**whole, **columns})


def _numbers(values: Any) -> Keys:
    return np.fromiter(values, np.int64)


def _joined(lists: list[Keys]) -> Keys:
    return np.concatenate(lists) if lists else no_keys()


def _flags(lists: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(lists) if lists else np.empty(0, np.bool_)
