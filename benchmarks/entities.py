"""The most mentioned entities, random entities and random facts of a folder, to be judged: ``make bench-entities``.

``python benchmarks/entities.py FOLDER [ENTITIES [SAMPLE [SEED]]]``: the ENTITIES most mentioned (20), then SAMPLE
entities and as many facts (100) drawn at random, without addresses of sections. Without a folder: ``docs_dev`` of
``../shared/data`` (or ``SHARED``), unpacked to a temporary folder.
"""

from __future__ import annotations

import os
import random
import sys
import tarfile
import tempfile
import time
from collections import Counter
from operator import attrgetter
from pathlib import Path

import numpy as np

from graphrag_apps.documents import load_documents
from graphrag_core import KnowledgeIndex
from graphrag_core.embedders import WordLlama

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))


def show(folder: Path, entities: int, sample: int, seed: int) -> None:
    began = time.perf_counter()
    with KnowledgeIndex(WordLlama()) as index:
        index.add(load_documents([folder]))
        stats = index.stats()
        counts = (stats.documents, stats.chunks, stats.entities, stats.facts)
        print("{:,} documents, {:,} chunks, {:,} entities, {:,} facts".format(*counts), end=", ")
        print(f"{time.perf_counter() - began:.0f} s")
        with index.engine.snapshot() as snapshot:
            print(f"\ntop {entities} entities (chunks that mention them)")
            for i, entity in enumerate(snapshot.entities(snapshot.top_entities(entities)), 1):
                print(f"{i:4} {entity.mentions:6}  {entity.name}")
            named = sorted(snapshot.entities(snapshot.top_entities(stats.entities)), key=attrgetter("id"))
            drawn = random.Random(seed).sample(named, min(sample, len(named)))
            print(f"\n{len(drawn)} random entities (seed {seed})")
            for i, entity in enumerate(drawn, 1):
                print(f"{i:4} {entity.mentions:6}  {entity.name}")
            keys = random.Random(seed).sample(range(stats.facts), min(sample, stats.facts))
            print(f"\n{len(keys)} random facts (seed {seed})")
            for i, fact in enumerate(snapshot.facts(np.array(sorted(keys), np.int64)), 1):
                print(f"{i:4}  {f'[{fact.relation}] ' if fact.relation else ''}{fact.text}")
        print("\nrelations:", dict(Counter(stats.relations)))


def main() -> None:
    entities, sample, seed = ([int(value) for value in sys.argv[2:5]] + [20, 100, 13][len(sys.argv[2:5]) :])[:3]
    if len(sys.argv) > 1:
        show(Path(sys.argv[1]), entities, sample, seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(SHARED / "data" / "docs_dev" / "corpus.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        show(Path(folder), entities, sample, seed)


if __name__ == "__main__":
    main()
