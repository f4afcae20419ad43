"""Settings of the second stage, chosen on some sets and checked on another: ``make bench-settings``.

Each set is indexed once and each question is searched once; only ``Linear`` runs again for every setting. The first
tables show the difference of each setting to vector+BM25 in points, by set, on average and on the worst set
("-u" is a set without its titles, "-t" one with triples, "-c" and "-n" one that was cut before, "/m" one with MiniLM).
The last one leaves out one collection after the other: the others choose the setting whose worst difference to
vector+BM25 at @5 and @10 is best, and among those within half a point of it the one with the best mean; the collection
that was left out shows what the choice is worth. A gain that is lost there was fitted to the questions. Variants of the
same questions (untitled, translated, another embedding) are left out together. Intervals are 95 %, paired.

``settings.py SETS [SETTING ...]`` where SETS is "all" or names as in ``quality.py``, with ``@minilm`` behind a name for
MiniLM in place of WordLlama, and a SETTING is

- ``link=0.7``: one setting; ``link=0.7,cover=1.0``: one setting that changes two fields;
- ``link=0.5/0.7/1.1``: one setting for each value;
- ``link``: half and one and a half times the default.

Without settings, every field is tried like the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

import numpy as np
from quality import DEPTH, PLAIN, SETS, Dataset, Recalls, cell, family, index_of, load, recall
from scipy.stats import bootstrap

from graphrag_core import Chunk, GraphRetriever
from graphrag_core.ports import Ranking
from graphrag_core.query.query import Query
from graphrag_core.strategies import Linear, Reranked, Reranker

MEASURES = ("recall@2", "recall@5", "recall@10")
DECIDE = [1, 2]  # the measures by which a setting is chosen
DEFAULT = "default"
ALL = (*SETS, "docs_dev@minilm", "docs_dev2@minilm")
TOLERANCE = 0.005  # settings whose worst difference is so near to the best one are chosen by their mean


@dataclass(frozen=True)
class EachSetting(Reranker):
    """A reranker that applies every setting to the same candidates and keeps the passages of each."""

    settings: Mapping[str, Linear]
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        for name, linear in self.settings.items():
            reranked = linear.rerank(query, plain, graph)
            keys = reranked.keys[:DEPTH]
            self.chunks[name] = query.snapshot.chunks(keys)
        return reranked


def measure(dataset: Dataset, embedder: str, settings: Mapping[str, Linear]) -> dict[str, Recalls]:
    """Return for each setting a row for each question: the difference to vector+BM25 in each of ``MEASURES``."""
    found: dict[str, list[list[float]]] = {name: [] for name in (*settings, PLAIN)}
    with index_of(dataset, embedder) as index:
        for row in dataset.questions:
            each = EachSetting(settings)
            retriever = GraphRetriever(index, k=DEPTH, reranker=each, cache=False)
            retriever.retrieve(row["question"])
            plain = [hit.chunk for hit in retriever.retrieve(row["question"], use_graph=False).hits]
            for name, recalls in found.items():  # without a graph, nothing is reranked
                recalls.append(recall(row, each.chunks.get(name, plain)))
    measured = {name: np.array(values)[:, : len(MEASURES)] for name, values in found.items()}
    return {name: measured[name] - measured[PLAIN] for name in settings}


def parse(arguments: Sequence[str]) -> dict[str, Linear]:
    """Return settings by the text that describes them; the default is the first."""
    default: dict[str, Any] = {item.name: item.default for item in fields(Linear) if item.name != "probability"}
    settings = {DEFAULT: Linear()}
    for argument in arguments or list(default):
        choices = []
        for part in argument.split(","):
            name, _, values = part.partition("=")
            if name not in default:
                sys.exit(f"{name}: no field of Linear; use one of {', '.join(default)}")
            kind: type[Any] = type(default[name])
            around = (kind(default[name] / 2), kind(default[name] * 1.5))
            choices.append(
                [(name, kind(value)) for value in values.split("/")] if values else [(name, v) for v in around]
            )
        for chosen in product(*choices):
            settings[",".join(f"{name}={value:g}" for name, value in chosen)] = Linear(**dict(chosen))
    return settings


def show_settings(recalls: Mapping[str, Mapping[str, Recalls]], settings: Sequence[str]) -> None:
    """Print a table for each measure: the difference of each setting to vector+BM25."""
    width = 2 + max(map(len, settings))
    for column, measure in enumerate(MEASURES):
        sets = "".join(f"{short(name):>13}" for name in recalls)
        print(f"\n{measure:<{width}}{'worst':<8}{'mean of all sets':<24}{sets}")
        for name in settings:
            gains = {key: found[name][:, column] for key, found in recalls.items()}
            by_set = "".join(f"{100 * gain.mean() + 0.0:+13.1f}" for gain in gains.values())
            worst = 100 * min(gain.mean() for gain in gains.values()) + 0.0
            print(f"{name:<{width}}{worst:<+8.1f}{mean_of_sets(gains):<24}{by_set}")


def show_left_out(recalls: Mapping[str, Mapping[str, Recalls]], settings: Sequence[str]) -> None:
    """Print the difference to vector+BM25, on each set, of the setting that the other sets choose."""
    width = 2 + max(map(len, settings))
    print(f"\n{'left out':<26}{'others choose':<{width}}" + "".join(f"{measure:<24}" for measure in MEASURES).rstrip())
    gains = {}
    for name, found in recalls.items():
        others = [other for key, other in recalls.items() if family(key) != family(name)]
        if not others:
            sys.exit("leaving one set out needs two sets that are not variants of each other")
        best = choose(others, settings)
        gains[name] = found[best]
        print(f"{name:<26}{best:<{width}}" + "".join(f"{cell(column, '+'):<24}" for column in gains[name].T).rstrip())
    columns = [{name: gain[:, at] for name, gain in gains.items()} for at in range(len(MEASURES))]
    print(f"{'mean':<{26 + width}}" + "".join(f"{mean_of_sets(column):<24}" for column in columns).rstrip())


def choose(sets: Sequence[Mapping[str, Recalls]], settings: Sequence[str]) -> str:
    """Return the setting with the best worst difference, by its mean if several are as good."""
    differences = {name: [found[name][:, DECIDE].mean(axis=0) for found in sets] for name in settings}
    worst = {name: float(np.min(values)) for name, values in differences.items()}
    as_good = [name for name in settings if worst[name] >= max(worst.values()) - TOLERANCE]
    return max(as_good, key=lambda name: float(np.mean(differences[name])))


def mean_of_sets(gains: Mapping[str, Recalls]) -> str:
    """Return the mean of the sets' mean gains and its interval.

    Variants of the same questions are resampled together, other sets independently.
    """
    families = list(dict.fromkeys(map(family, gains)))
    samples = [
        bootstrap(
            (gain,), np.mean, n_resamples=10_000, method="percentile",
            random_state=np.random.default_rng(families.index(family(name))),
        ).bootstrap_distribution
        for name, gain in gains.items()
    ]  # fmt: skip
    low, high = 100 * np.percentile(np.mean(samples, axis=0), (2.5, 97.5)) + 0.0
    return f"{100 * np.mean([gain.mean() for gain in gains.values()]) + 0.0:+5.2f} [{low:+.2f}, {high:+.2f}]"


def short(name: str) -> str:
    base, _, variant = name.partition(":")
    base = base.removesuffix("_train").removesuffix("_qa").removesuffix("_chunking")
    return (f"{base}-{variant[0]}" if variant else base).replace("@minilm", "/m")


def main() -> None:
    names = ALL if len(sys.argv) < 2 or sys.argv[1] == "all" else sys.argv[1].split(",")
    settings = parse(sys.argv[2:])
    recalls = {}
    for name in names:
        start = time.perf_counter()
        dataset = load(name.removesuffix("@minilm"))
        recalls[name] = measure(dataset, "minilm" if name.endswith("@minilm") else "wordllama", settings)
        seconds = time.perf_counter() - start
        print(f"{name}: {len(dataset.questions)} questions, {len(settings)} settings, {seconds:.0f} s", flush=True)
    show_settings(recalls, list(settings))
    show_left_out(recalls, list(settings))


if __name__ == "__main__":
    main()
