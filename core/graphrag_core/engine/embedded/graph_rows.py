"""What rows of the records add to the graph in memory."""

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from graphrag_core.engine.analysis import terms_of_names
from graphrag_core.engine.embedded.schema import NAME_BYTES
from graphrag_core.engine.graph.memory import GraphRows
from graphrag_core.engine.rows import ADDRESS, Row, damaged, statement_number
from graphrag_core.ports import Keys
from graphrag_core.text import hash64, normalise, title_names, unwrap

_WIDTHS = {"names": 5, "chunks": 9, "facts": 19, "aliases": 3}


def graph_rows(rows: Mapping[str, Sequence[Row]]) -> GraphRows:
    """Return rows of the tables names, chunks, facts and aliases as columns. They are of whole documents.

    Rows of names have the normalised name too, rows of chunks the title of the document.
    """
    columns = {table: tuple(zip(*rows.get(table, ()), strict=True)) or ((),) * n for table, n in _WIDTHS.items()}
    name_keys, surfaces, norms, ids, _ = columns["names"]
    chunk_keys, chunk_ids, documents, _, _, texts, subjects, chunk_names, titles = columns["chunks"]
    fact_keys, fact_chunks, _, starts, stops, own_texts, fact_names, relations, weights, *_ = columns["facts"]
    alias_chunks, short, long = columns["aliases"]
    chunks = np.array(chunk_keys, np.int64)
    mentioned, mention_chunk, place = _unpacked(chunk_names)
    held, fact, _ = _unpacked(fact_names)
    unwrapped = dict(zip(chunk_keys, map(unwrap, texts), strict=True))
    fact_texts = [
        text or (unwrapped[chunk][start:stop] if start is not None else "")
        for text, chunk, start, stop in zip(own_texts, fact_chunks, starts, stops, strict=True)
    ]
    ids_of = {title: [hash64(normalise(name)) for name in title_names(title)] for title in set(titles)}
    title_chunks = [at for at, title in enumerate(titles) for _ in ids_of[title]]
    title_ids = [name_id for title in titles for name_id in ids_of[title]]
    return GraphRows(
        chunks,
        np.array(documents, np.int64),
        np.array([crc32(one.encode("utf-8", "surrogatepass")) for one in chunk_ids], np.uint32),
        np.array(name_keys, np.int64),
        np.array(ids, np.int64),
        np.array([surface.startswith(ADDRESS) for surface in surfaces], np.bool_),
        terms_of_names(norms),
        (np.array(title_chunks, np.int64), np.array(title_ids, np.int64)),
        (mention_chunk, mentioned, place < np.array(subjects, np.int64)[mention_chunk]),
        (
            np.array(fact_keys, np.int64),
            np.array(fact_chunks, np.int64),
            np.array(weights, np.float32),
            np.array([relation is not None for relation in relations], np.bool_),
            np.array([*map(statement_number, fact_texts, relations, fact_names)], np.uint32),
        ),
        (fact, held),
        (
            np.searchsorted(chunks, np.array(alias_chunks, np.int64)),
            np.array(short, np.int64),
            np.array(long, np.int64),
        ),
    )


def _unpacked(lists: Sequence[bytes]) -> tuple[Keys, Keys, Keys]:
    """Return the keys of packed lists, and for each the list and the place in it."""
    sizes, rests = np.divmod(np.fromiter(map(len, lists), np.int64, len(lists)), NAME_BYTES)
    if rests.any():
        raise damaged("the names of a chunk or a fact have another length")
    owner = np.repeat(np.arange(len(lists)), sizes)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.frombuffer(b"".join(lists), "<i4").astype(np.int64), owner, place
