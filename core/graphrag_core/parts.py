"""Rows of the records as parts of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphrag_core.ingest.echo import name_grams, sentence_grams
from graphrag_core.ports import Keys
from graphrag_core.stores.change import Span, unpack
from graphrag_core.stores.graph import GraphPart
from graphrag_core.stores.records import Records
from graphrag_core.text import unwrap

_PAGE = 1_000
Rows = Sequence[tuple[Any, ...]]


def graph_parts(records: Records, names: Span, chunks: Span) -> Iterator[GraphPart]:
    """Yield the names and chunks of two spans as graph parts of bounded size, names first."""
    for span in _pages(names):
        yield graph_part({"names": _rows(records, "names", "key", span)})
    for span in _pages(chunks):
        columns = {"chunks": "key", "facts": "chunk", "aliases": "chunk"}
        yield graph_part({table: _rows(records, table, column, span) for table, column in columns.items()})


def graph_part(rows: Mapping[str, Rows]) -> GraphPart:
    """Return rows of the tables ``names``, ``chunks``, ``facts`` and ``aliases`` as a part of a graph."""
    name_keys, _, norms, entities, _ = _columns(rows.get("names", ()), 5)
    chunk_keys, _, _, _, _, texts, subjects, chunk_names = _columns(rows.get("chunks", ()), 8)
    fact_keys, fact_chunks, _, starts, stops, own_texts, fact_names, _, weights, *_ = _columns(
        rows.get("facts", ()), 16
    )
    chunks, facts, names = _numbers(chunk_keys), _numbers(fact_keys), _numbers(name_keys)
    named, gram = name_grams(norms)
    mentioned, mention_chunk, place = _unpacked(chunk_names)
    fact_named, fact_at, _ = _unpacked(fact_names)
    unwrapped = dict(zip(chunk_keys, map(unwrap, texts), strict=True))
    pieces = [i for i, text in enumerate(own_texts) if text is None and starts[i] is not None]
    sentence, fact_gram = sentence_grams([unwrapped[fact_chunks[i]][starts[i] : stops[i]] for i in pieces])
    chunk, short, long = _columns(rows.get("aliases", ()), 3)
    return GraphPart(
        chunks=chunks,
        names=names,
        name_entity=_numbers(entities),
        name_gram=(names[named], gram),
        mention=(chunks[mention_chunk], mentioned, place < _numbers(subjects)[mention_chunk]),
        facts=facts,
        fact_chunk=_numbers(fact_chunks),
        fact_weight=np.array(weights, np.float32),
        fact_name=(facts[fact_at], fact_named),
        fact_gram=(facts[_numbers(pieces)][sentence], fact_gram),
        alias=(_numbers(chunk), _numbers(short), _numbers(long)),
    )


def _pages(span: Span) -> Iterator[Span]:
    for start in range(span[0], span[1], _PAGE):
        yield start, min(start + _PAGE, span[1])


def _rows(records: Records, table: str, column: str, span: Span) -> Rows:
    return records.rows(f"SELECT * FROM {table} WHERE {column} >= ? AND {column} < ? ORDER BY 1", span)


def _columns(rows: Rows, count: int) -> Sequence[Sequence[Any]]:
    return tuple(zip(*rows, strict=True)) or ((),) * count


def _unpacked(lists: Sequence[bytes]) -> tuple[Keys, Keys, Keys]:
    """Return the keys in packed lists, with the list and the place in the list of each."""
    sizes = np.fromiter(map(len, lists), np.int64, len(lists)) // 8
    owner = np.repeat(np.arange(len(lists)), sizes)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return unpack(b"".join(lists)), owner, place


def _numbers(values: Iterable[int]) -> Keys:
    return np.fromiter(values, np.int64)
