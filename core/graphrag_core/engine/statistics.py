"""The size of an index."""

from __future__ import annotations

import numpy as np

from graphrag_core.engine.edits import EditedGraph
from graphrag_core.engine.snapshot import Snapshot
from graphrag_core.model import Stats
from graphrag_core.text import REFERS_TO

_TOP = 5  # entities in the statistics


def statistics(snapshot: Snapshot) -> Stats:
    """Return the size of the index and its most frequent entities."""
    records, meta = snapshot.records, snapshot.records.meta()
    graph = snapshot.graph
    every_hidden = graph.every_hidden() if isinstance(graph, EditedGraph) else np.empty(0, np.int64)
    hidden = snapshot.fact_keys(every_hidden)
    relations = records.relations(hidden)
    on_disk, in_memory = records.sizes()
    top = snapshot.entities(snapshot.top_entities(_TOP))
    return Stats(
        documents=records.count("documents"),
        chunks=records.count("passages"),
        entities=len(snapshot.top_entities(snapshot.node_limit)),
        facts=records.count("facts") - len(hidden),
        relations={name: count for name, count in relations.items() if name != REFERS_TO},
        vectors={
            "chunks": records.count("passages", "vector IS NOT NULL"),
            "names": records.count("name_vectors"),
        },
        dim=int(meta.get("dim", "0")),
        embedder=meta.get("embedder", ""),
        generation=snapshot.generation,
        bytes_on_disk=on_disk,
        bytes_in_memory=snapshot.view.nbytes + in_memory,
        top_entities=tuple((entity.name, entity.mentions) for entity in top),
        references=relations.get(REFERS_TO, 0),
    )
