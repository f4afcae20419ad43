"""Run questions with several retrieval methods and collect what each retrieved."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphrag_apps.compare.measures import Measure
from graphrag_apps.compare.questions import Question, find_gold
from graphrag_apps.compare.report import WITHOUT_GRAPH, Answered, Report
from graphrag_core.errors import InputError
from graphrag_core.model import Chunk
from graphrag_core.retriever import GraphRetriever

METHODS: Mapping[str, Mapping[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    WITHOUT_GRAPH: {"method": "hybrid", "use_graph": False},
    "graph": {"method": "graph", "use_graph": True},
    "hybrid": {"method": "hybrid", "use_graph": True},
}
"""The methods to compare: name to arguments of ``GraphRetriever.retrieve``."""

OtherRetriever = Callable[[str], Iterable["str | Chunk"]]
"""Another retriever to compare with: returns document ids or chunks for a question, best first."""

_Run = Callable[[str, str, Any, int], list[Chunk]]  # the name of a method, a question, its vector, k
_PER_DOCUMENT = 4  # passages that are retrieved for each document that counts


def compare(
    retriever: GraphRetriever,
    questions: Iterable[Question],
    *,
    k: int = 5,
    measures: Iterable[Measure | str] = (),
    others: Mapping[str, OtherRetriever] | None = None,
) -> Report:
    """Run each question with every method and report what each retrieved.

    Every question is embedded once. Its methods run one after the other in random order, so that their times can be
    compared. The cache of the retriever is not used, and access counts stay as they are.

    Parameters
    ----------
    retriever, questions
        The retriever whose settings are used. Without gold the report has only differences between methods.
    k
        The number of documents that count; for questions with evidence quotes the number of passages.
    measures
        What to measure, such as "ndcg@10"; by default recall, all, ndcg and mrr at ``k``.
    others
        Other retrievers by name: functions that return document ids, or chunks for questions with evidence.
    """
    others = others or {}
    if taken := METHODS.keys() & others.keys():
        raise InputError(f"other retrievers need other names than {', '.join(sorted(taken))}")
    report = Report(k, (), (*METHODS, *others), tuple(map(Measure.parse, measures)))
    searched = GraphRetriever(retriever.index, replace(retriever.settings, score_threshold=None), cache=None)

    def run(name: str, text: str, vector: Any, count: int) -> list[Chunk]:
        if name in others:
            return [one if isinstance(one, Chunk) else Chunk(one, one, "") for one in others[name](text)]
        result = searched.retrieve(text, k=count, embedding=vector, count_access=False, **METHODS[name])
        return [hit.chunk for hit in result.hits]

    embedding = retriever.index.embedding
    asked = [(question, None if embedding is None else embedding.query(question.text)) for question in questions]
    for name in report.methods if asked else ():  # load indexes and graph before anything is timed
        run(name, asked[0][0].text, asked[0][1], report.depth)
    order = random.Random(0)  # noqa: S311 - an order, not a secret
    answered = [
        _answer(question, vector, retriever, run, order.sample(report.methods, len(report.methods)), report.depth)
        for question, vector in asked
    ]
    return replace(report, answered=tuple(answered))


def _answer(
    question: Question, vector: Any, retriever: GraphRetriever, run: _Run, methods: Sequence[str], depth: int
) -> Answered:
    """Run the methods on one question, in this order, and judge the first results of each."""
    gold = find_gold(retriever.index, question)
    ranked, times = {}, {}
    for name in methods:
        start = time.perf_counter()
        chunks = run(name, question.text, vector, depth if gold.by_passage else _PER_DOCUMENT * depth)
        times[name] = (time.perf_counter() - start) * 1000
        best: dict[str, Chunk] = {}  # the best passage of each document
        for chunk in chunks:
            best.setdefault(chunk.id if gold.by_passage else chunk.document_id, chunk)
        ranked[name] = list(best.items())[:depth]
    return Answered(
        question,
        {name: tuple(key for key, _ in found) for name, found in ranked.items()},
        {name: [gold.judge(chunk) for _, chunk in found] for name, found in ranked.items()},
        gold.items,
        gold.missing,
        times,
        {key: chunk.title for found in ranked.values() for key, chunk in found if chunk.title},
    )
