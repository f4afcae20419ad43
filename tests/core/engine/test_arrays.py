"""Arrays that grow beside readers, tables in parts, and the base file: compared with plain Python."""

from __future__ import annotations

import numpy as np

from graphrag_core.engine.arrays import Column, Inverse, Part
from graphrag_core.engine.postings import Postings, quantised, term_key


def numbers(values) -> np.ndarray:
    return np.array(values, np.int64)


def test_maxscore_returns_what_all_postings_would(monkeypatch):
    random = np.random.default_rng(3)
    size, words = 3_000, ["alpha", "bravo", "carol", "delta", "echo"]
    keys, owners = [], []
    for word, count in zip(words, (5, 60, 400, 1_500, 2_900), strict=True):
        owners.append(np.sort(random.choice(size, count, replace=False)).astype(np.int32))
        keys.append(np.full(count, term_key(word)))
    counts = random.integers(1, 9, sum(map(len, owners))).astype(np.uint8)
    table = Inverse(Part.of(np.concatenate(keys), np.concatenate(owners), counts))
    lengths = quantised(random.integers(5, 300, (size, 4)))
    alive = random.random(size) < 0.9
    for mask in (None, random.random(size) < 0.5):
        postings = Postings(table, Column(lengths), numbers([300_000] * 4), alive, int(alive.sum()))
        visible = None if mask is None else mask & alive
        monkeypatch.setattr("graphrag_core.engine.postings.PRUNED_FROM", 1 << 40)
        every = postings.search(" ".join(words), 10, visible, lambda _: [])
        monkeypatch.setattr("graphrag_core.engine.postings.PRUNED_FROM", 0)
        pruned = postings.search(" ".join(words), 10, visible, lambda _: [])
        assert every[0].tolist() == pruned[0].tolist()
        assert every[1].tolist() == pruned[1].tolist()
