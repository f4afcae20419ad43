"""The same questions on the embedded engine and on PostgreSQL, with exact vectors: do both find the same?

``postgres_quality.py postgresql://... musique_train,docs_dev [QUESTIONS [hnsw]]`` indexes each set twice.
Printed are for how many questions the first ten passages are the same, in the same order and with scores that differ by
less than 1e-4, the recall of both, the time of a question, and how many statements and numbers PostgreSQL returned.
With ``hnsw`` PostgreSQL searches vectors with HNSW indexes, which it else creates only for many more: the difference
of the two recalls is what they cost. Datasets are read as in ``quality.py``.
"""

from __future__ import annotations

import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from quality import DEPTH, load, model_of, recall

from graphrag_core import GraphRetriever, KnowledgeIndex, SentenceExtractor
from graphrag_core.engine.postgres import PostgresEngine
from graphrag_core.engine.postgres import engine as engine_module
from graphrag_core.engine.postgres.reads import Transaction

SETS = "2wiki_train,musique_train,docs_dev"
METHODS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "graph": {"method": "graph"},
    "keyword": {"method": "keyword"},
    "vector": {"method": "vector"},
}
_CLOSE = 1e-4


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the statements of snapshots by the method that asks, the values that they return, and all statements."""
    counts: Counter[str] = Counter()
    plain, execute = Transaction.rows, psycopg.Cursor.execute

    def sent(cursor: Any, *arguments: Any, **settings: Any) -> Any:
        counts["sent"] += 1
        return execute(cursor, *arguments, **settings)

    def rows(self: Transaction, sql: str, parameters: Any = ()) -> Any:
        found = plain(self, sql, parameters)
        callers = [frame.name for frame in traceback.extract_stack() if frame.filename.endswith("snapshot.py")]
        counts["statements"] += 1
        counts[callers[0] if callers else "others"] += 1
        counts["values"] += sum(len(v) // 12 if isinstance(v, bytes | memoryview) else 1 for row in found for v in row)
        return found

    Transaction.rows = rows  # type: ignore[method-assign, assignment]
    psycopg.Cursor.execute = sent  # type: ignore[method-assign, assignment]
    try:
        yield counts
    finally:
        Transaction.rows = plain  # type: ignore[method-assign]
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def measure(name: str, url: str, most: int | None, *, hnsw: bool) -> None:
    """Index a set with both engines, ask its questions, and print what differs."""
    dataset = load(name)
    questions = dataset.questions[:most]
    place = f"{url}{'&' if '?' in url else '?'}index={name}-{uuid.uuid4().hex[:8]}"
    if hnsw:
        engine_module.APPROXIMATE_FROM = 1
    engine = PostgresEngine(place, exact=not hnsw)
    model = model_of("wordllama")
    with (
        KnowledgeIndex(model, extractor=SentenceExtractor(), progress=False) as embedded,
        KnowledgeIndex(model, extractor=SentenceExtractor(), progress=False, engine=engine) as remote,
    ):
        built = [_add(index, dataset.documents) for index in (embedded, remote)]
        print(f"\n{name}: {embedded.stats().chunks} passages, built in {built[0]:.1f} s and {built[1]:.1f} s")
        problems = remote.verify()
        print(f"verify: {problems}" if not problems else "verify: no problems")
        kinds = engine._indexed_kinds()  # noqa: SLF001 - for the report
        print(f"HNSW indexes: {', '.join(kinds) or 'none'}")
        ask = [GraphRetriever(index, k=DEPTH, cache=False) for index in (embedded, remote)]
        for label, settings in METHODS.items():
            if not hnsw or label in ("hybrid", "vector"):
                _compare(label, settings, questions, ask)


def _add(index: KnowledgeIndex, documents: Any) -> float:
    start = time.perf_counter()
    index.add(documents)
    index.engine.flush()
    return time.perf_counter() - start


def _compare(label: str, settings: Mapping[str, Any], questions: Any, ask: Any) -> None:
    times: list[list[float]] = [[], []]
    recalls: list[list[list[float]]] = [[], []]
    same = order = close = 0
    shared: list[float] = []
    statements = [0, 0]
    different: list[str] = []
    with counted() as counts:
        for row in questions:
            results = []
            for at, retriever in enumerate(ask):
                start, before = time.perf_counter(), counts["sent"]
                hits = retriever.retrieve(row["question"], **settings).hits
                statements[at] += counts["sent"] - before
                times[at].append(time.perf_counter() - start)
                recalls[at].append(recall(row, [hit.chunk for hit in hits]))
                results.append([(hit.chunk.id, hit.score) for hit in hits])
            one, other = ([chunk for chunk, _ in result] for result in results)
            same += set(one) == set(other)
            shared.append(len(set(one).intersection(other)) / max(len(one), len(other), 1))
            order += one == other
            is_close = one == other and np.allclose(
                [score for _, score in results[0]], [score for _, score in results[1]], atol=_CLOSE
            )
            close += is_close
            if not is_close:
                different.append(row["question"])
    count = len(questions)
    means = [100 * np.mean(own, axis=0) for own in recalls]
    print(
        f"{label}: {count} questions, the same ten {same}, in order {order}, with scores {close}; of ten "
        f"{10 * np.mean(shared):.2f} are equal; recall@5 {means[0][1]:.2f} and {means[1][1]:.2f}"
    )
    for at, engine in enumerate(("embedded", "postgres")):
        p50, p95 = np.percentile(np.array(times[at]) * 1000, [50, 95])
        print(f"  {engine}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, {statements[at] / count:.1f} statements")
    shown = ", ".join(f"{what} {number / count:.1f}" for what, number in counts.most_common())
    print(f"  for a question: {shown}", flush=True)
    for question in different[:3]:
        print(f"  differs: {question}")


def main() -> None:
    """Measure the data sets that are named on the command line."""
    most = int(sys.argv[3]) if len(sys.argv) > 3 else None
    for name in (sys.argv[2] if len(sys.argv) > 2 else SETS).split(","):
        measure(name, sys.argv[1], most, hnsw=sys.argv[4:] == ["hnsw"])


if __name__ == "__main__":
    main()
