"""FAISS alone: exact inner products with the question's embedding.

Its documentation names the flat indexes as those with exact results. Approximate indexes are faster on larger
collections and find at most as much.
"""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np

from peers.protocol import DEPTH, Bench, main


def runner(bench: Bench, folder: Path) -> None:
    given = bench.given
    ids = [passage.id for passage in given.passages]
    rows = dict(zip(given.questions, np.split(given.question_vectors, len(given.questions)), strict=True))

    def build() -> faiss.IndexFlatIP:
        index = faiss.IndexFlatIP(given.vectors.shape[1])
        index.add(given.vectors)
        return index

    index, seconds = bench.build(build)
    faiss.write_index(index, str(folder / "flat.faiss"))
    bench.run(
        "IndexFlatIP",
        lambda question: [ids[at] for at in index.search(rows[question], DEPTH)[1][0]],
        built=seconds,
        disk_bytes=(folder / "flat.faiss").stat().st_size,
        note="vectors only, no text on disk",
    )


if __name__ == "__main__":
    main(runner, "faiss-cpu")
