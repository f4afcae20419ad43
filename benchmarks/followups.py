"""Recall of follow-up questions with and without the conversation before them: ``make bench-followups``.

``followups.jsonl`` has two-turn dialogues on three sets: the ``first`` question, the ``second``, the second written out
in ``full``, and the gold passages of the second, or the gold quotes as ``question:number``. A second question that does
not depend on the first stands on its own. The history is the first question, the question and an extracted
answer, or the result of the first question. Beside each recall is its 95 % bootstrap interval.

The last table asks the questions of two more sets after their neighbours in the file, which are about something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from quality import DEPTH, cell, index_of, lines, load, shares

from graphrag_apps.ask import ask
from graphrag_core import GraphRetriever, Result

DIALOGUES = Path(__file__).with_suffix(".jsonl")
UNRELATED = ("scifact_train", "docs_dev")
COLUMNS = ("without", "question", "question, answer", "result", "written out")
K = 5


def main() -> None:
    dialogues = lines(DIALOGUES)
    depends = np.array([row["depends"] for row in dialogues])
    recalls = np.zeros((len(dialogues), len(COLUMNS)))
    sets = np.array([row["set"] for row in dialogues])
    for name in dict.fromkeys(sets.tolist()):
        measured = np.flatnonzero(sets == name)
        recalls[measured] = measure(name, [dialogues[at] for at in measured])
        show(name, recalls[measured], depends[measured])
    show("all", recalls, depends)
    print("\nquestions whose hits or scores change after an unrelated question, of all")
    for name in UNRELATED:
        print(f"{name:<18}{changed(name)}", flush=True)


def measure(name: str, dialogues: Sequence[Mapping[str, Any]]) -> np.ndarray[Any, Any]:
    """Return the recall@5 of second questions: one row for each dialogue, one column for each of ``COLUMNS``."""
    questions = {row["id"]: row for row in load(name).questions}
    with index_of(load(name), "wordllama") as index:
        retriever = GraphRetriever(index, k=DEPTH, cache=False)
        rows = []
        for dialogue in dialogues:
            first, second = retriever.retrieve(dialogue["first"]), dialogue["second"]
            answer = ask(retriever, dialogue["first"], answer_threshold=0).text
            results = [
                retriever.retrieve(second),
                retriever.retrieve(second, history=[dialogue["first"]]),
                retriever.retrieve(second, history=[dialogue["first"], answer]),
                retriever.retrieve(second, history=[first]),
                retriever.retrieve(dialogue["full"]),
            ]
            gold = gold_of(dialogue, questions)
            rows.append([recall(gold, result) for result in results])
    return np.array(rows)


def gold_of(dialogue: Mapping[str, Any], questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the gold passages or quotes of a dialogue as those of a question."""
    if ":" not in dialogue["gold"][0]:
        return {"gold": dialogue["gold"]}
    places = (gold.split(":") for gold in dialogue["gold"])
    return {"evidence": [questions[question]["evidence"][int(number)] for question, number in places]}


def recall(gold: Mapping[str, Any], result: Result) -> float:
    return float(np.mean(shares(gold, [hit.chunk for hit in result.hits], K)))


def show(name: str, recalls: np.ndarray[Any, Any], depends: np.ndarray[Any, Any]) -> None:
    """Print the recall of dependent questions, how many are gained and lost, and of those on their own."""
    print(f"\n{name}, recall@{K}")
    print(f"{'':<18}{'':<12}" + "".join(f"{column:<22}" for column in COLUMNS))
    for label, rows in (("dependent", recalls[depends]), ("on their own", recalls[~depends])):
        print(f"{label:<18}{len(rows):<12}" + "".join(f"{cell(column):<22}" for column in rows.T))
        gains = rows - rows[:, :1]
        print(
            f"{'  gained, lost':<30}" + "".join(f"{f'{(g > 0).sum()}, {(g < 0).sum()}':<22}" for g in gains.T),
            flush=True,
        )


def changed(name: str) -> str:
    """Return how many questions of a set have other hits after the question before them in the file."""
    data = load(name)
    questions = [row["question"] for row in data.questions]
    with index_of(data, "wordllama") as index:
        retriever = GraphRetriever(index, cache=False)
        alone = [retriever.retrieve(question) for question in questions]
        forms: tuple[Callable[[int], str | Result], ...] = (lambda at: questions[at - 1], lambda at: alone[at - 1])
        counts = [
            sum(
                shown(retriever.retrieve(question, history=[before(at)])) != shown(alone[at])
                for at, question in enumerate(questions)
            )
            for before in forms
        ]
    return f"{counts[0]} (text), {counts[1]} (result) of {len(questions)}"


def shown(result: Result) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in result.hits]


if __name__ == "__main__":
    main()
