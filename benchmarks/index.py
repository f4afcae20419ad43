"""What indexing costs, in CPU time: ``make bench-index``.

The documents of three sets in ``../shared/data`` (or ``SHARED``) are read and indexed in a folder with WordLlama, whose
bytes are compared with those of the files. Then comes the whole process of ``hybrid-graphrag query``. Each part runs in
a process of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from graphrag_apps.documents import load_documents
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
FILES = ("docs_dev", "docs_dev2", "emanual_qa")
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def files(name: str) -> None:
    """Read and index the files of a set."""
    source, embedder = SHARED / "data" / name, WordLlama()
    with tempfile.TemporaryDirectory() as folder:
        if (source / "corpus.tar.gz").exists():
            with tarfile.open(source / "corpus.tar.gz") as archive:
                archive.extractall(f"{folder}/files", filter="data")
            read = load_documents([Path(folder, "files", "corpus")])
            size = _size(Path(folder, "files"))
        else:
            rows = map(json.loads, (source / "corpus.jsonl").read_text("utf-8").splitlines())
            read = (Document(row["id"], row["text"], row.get("title", "")) for row in rows)
            size = (source / "corpus.jsonl").stat().st_size
        start = time.process_time()
        with KnowledgeIndex.open(f"{folder}/index", embedder, progress=False) as index:
            index.add(read)
        took, times = time.process_time() - start, _size(Path(folder, "index")) / size
    print(f"{name}: {took:.1f} s to read and index {size / 1e6:.1f} MB; the index has {times:.2f} times that size")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def query() -> None:
    """Time the process of a query on the command line, on the index of ``docs``."""
    docs, command = Path(__file__).parents[1] / "docs", [sys.executable, "-m", "graphrag_apps"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "index", docs, "--kb", folder, "--quiet"], env=COMPILED, check=True)  # noqa: S603
        times = []
        for _ in range(11):
            before = os.times()
            ask = [*command, "query", "how does the graph work", "--kb", folder]
            subprocess.run(ask, env=COMPILED, check=True, capture_output=True)  # noqa: S603
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    print(f"hybrid-graphrag query: {statistics.median(times):.2f} s")


PARTS: dict[str, Callable[..., None]] = {
    "files": files,
    "query": query,
}


def main() -> None:
    for arguments in (*(["files", name] for name in FILES), ["query"]):
        subprocess.run([sys.executable, __file__, *arguments], check=True)  # noqa: S603 - this file


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
