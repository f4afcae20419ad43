"""bm25s: BM25 with sparse matrices.

Its README: "optional: create a stemmer", then ``bm25s.tokenize(corpus, stopwords="en", stemmer=stemmer)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bm25s
import Stemmer

from peers.protocol import DEPTH, Bench, main, size_of


def runner(bench: Bench, folder: Path) -> None:
    ids = [passage.id for passage in bench.given.passages]
    texts = [passage.text for passage in bench.given.passages]
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    def build() -> Any:
        index = bm25s.BM25()
        index.index(tokens(texts), show_progress=False)
        return index

    index, seconds = bench.build(build)
    index.save(str(folder), corpus=texts)

    def retrieve(question: str) -> list[str]:
        found, _ = index.retrieve(tokens([question]), k=DEPTH, show_progress=False)
        return [ids[at] for at in found[0]]

    bench.run("BM25, stemmed", retrieve, built=seconds, disk_bytes=size_of(folder))


if __name__ == "__main__":
    main(runner, "bm25s", "PyStemmer")
