"""Looking at a whole index: how large it is, and whether its parts agree."""

from __future__ import annotations

from collections import Counter

from graphrag_core.derived import Derived
from graphrag_core.entities import top_entities
from graphrag_core.folder import Folder
from graphrag_core.report import Stats, Verification
from graphrag_core.stores.change import unpack
from graphrag_core.stores.records import Records

_TOP = 5


def measure(records: Records, derived: Derived, folder: Folder | None) -> Stats:
    """Return how large an index is and what it speaks of most."""
    view = derived.view
    count = {table: int(records.value(f"SELECT count(*) FROM {table}")) for table in ("documents", "chunks", "facts")}
    relations = records.rows(
        "SELECT relation, count(*) FROM facts WHERE relation IS NOT NULL GROUP BY relation ORDER BY 2 DESC, 1"
    )
    pages = records.value("PRAGMA page_count") * records.value("PRAGMA page_size")
    return Stats(
        documents=count["documents"],
        chunks=count["chunks"],
        entities=len(view.entity_ids),
        facts=count["facts"],
        relations=dict(relations),
        vectors={kind: len(store.keys) for kind, store in derived.vectors.items()},
        dim=int(records.meta("dim", "0")),
        embedder=records.meta("embedder"),
        generation=derived.generation,
        bytes_on_disk=folder.size() if folder else 0,
        bytes_in_memory=derived.nbytes + (0 if folder else pages),
        top_entities=tuple((entity.name, entity.mentions) for entity in top_entities(view, records, _TOP)),
    )


def verify(records: Records, derived: Derived) -> Verification:
    """Compare records, vectors, keywords and graph with each other, completely."""
    problems = [f"records: {row[0]}" for row in records.rows("PRAGMA integrity_check") if row[0] != "ok"]
    problems += [f"records: {row[0]} refers to nothing" for row in records.rows("PRAGMA foreign_key_check")]
    problems += _miscounted(records)
    if derived.generation != records.generation:
        problems.append(f"generation {derived.generation} is searched, {records.generation} recorded")
    problems.extend(derived.problems())
    return Verification(tuple(problems))


def _miscounted(records: Records) -> list[str]:
    """Return names whose count of chunks is wrong, and chunks that name nothing known."""
    counted: Counter[int] = Counter()
    for _, names in records.pages("SELECT key, names FROM chunks", "key", records.everything().chunks):
        counted.update(unpack(names).tolist())
    kept = dict(records.rows("SELECT key, uses FROM names"))
    wrong = [key for key in counted.keys() | kept.keys() if counted[key] != kept.get(key, 0)]
    return [f"records: {len(wrong)} names are counted wrongly, such as key {min(wrong)}"] if wrong else []
