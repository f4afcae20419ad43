"""What indexing costs, in CPU time: ``make bench-index``.

The passages of the datasets in ``../shared/data`` (or ``SHARED``) are added with WordLlama and compared with what the
WordLlama library takes for the same texts. 5,000 of them are indexed through LangChain, up to the first answer, beside
LangChain's ``InMemoryVectorStore`` and, if it is installed, its ``FAISS``, with the same embedder. The documents of
three sets are read and indexed in a folder, whose bytes are compared with those of the files. Last comes the whole
process of ``hybrid-graphrag query``. Each part runs in a process of its own.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from graphrag_apps.documents import load_documents
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
THROUGH_LANGCHAIN = 5_000  # documents
FILES = ("docs_dev", "docs_dev2", "emanual_qa")
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def passages() -> Iterator[Document]:
    """Yield the passages of all English datasets."""
    for path in sorted((SHARED / "data").glob("*_train/corpus.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            yield Document(f"{path.parent.name} {row['id']}", row["text"], row["title"])


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def against_the_library() -> None:
    """Compare adding passages with embedding their texts."""
    import wordllama  # noqa: PLC0415 - turns logging on

    folder = Path(wordllama.__file__).parent
    wordllama.WordLlama.get_cache_dir = staticmethod(lambda *_, **__: folder / "tokenizers")
    library: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    ready, model = list(passages()), WordLlama()
    texts = KnowledgeIndex(model).to_embed(ready)
    model.embed_documents(texts[:1_000])
    library.embed(texts[:1_000], norm=True)
    alone = seconds(lambda: [library.embed(texts[at : at + 1_000], norm=True) for at in range(0, len(texts), 1_000)])
    with tempfile.TemporaryDirectory() as name, KnowledgeIndex.open(Path(name, "kb"), model, progress=False) as index:
        adding = seconds(lambda: index.add(ready))
    ratio = adding / alone
    print(f"{len(ready):,} passages in a folder: {adding:.1f} s, {ratio:.2f} times the WordLlama library alone")


def through_langchain() -> None:
    """Compare indexing through LangChain, up to the first answer, with its own stores."""
    from langchain_core.documents import Document as Passage  # noqa: PLC0415 - for this comparison alone
    from langchain_core.embeddings import Embeddings  # noqa: PLC0415
    from langchain_core.vectorstores import InMemoryVectorStore  # noqa: PLC0415

    from langchain_graphrag import GraphRAGRetriever  # noqa: PLC0415

    model = WordLlama()

    class AsEmbeddings(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return model.embed_documents(texts).tolist()  # type: ignore[no-any-return]

        def embed_query(self, text: str) -> list[float]:
            return model.embed_query(text).tolist()  # type: ignore[no-any-return]

    found = islice(passages(), THROUGH_LANGCHAIN)
    ready = [Passage(id=one.id, page_content=one.text, metadata={"title": one.title}) for one in found]
    question = f"What is said of {ready[0].metadata['title']}?"
    ways: dict[str, Callable[..., Any]] = {
        "GraphRAGRetriever": GraphRAGRetriever.from_documents,
        "InMemoryVectorStore": lambda *given: InMemoryVectorStore.from_documents(*given).as_retriever(),
    }
    with suppress(ImportError):
        from langchain_community.vectorstores import FAISS  # noqa: PLC0415

        ways["FAISS"] = lambda *given: FAISS.from_documents(*given).as_retriever()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(4):  # the first does not count
        for name, make in ways.items():
            times[name].append(seconds(lambda make=make: make(ready, AsEmbeddings()).invoke(question)))  # type: ignore[misc]
    for name, own in times.items():
        print(f"{len(ready):,} documents, LangChain {name}: {statistics.median(own[1:]):.2f} s to the first answer")


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
    "library": against_the_library, "langchain": through_langchain, "files": files, "query": query,
}  # fmt: skip


def main() -> None:
    for arguments in (["library"], ["langchain"], *(["files", name] for name in FILES), ["query"]):
        subprocess.run([sys.executable, __file__, *arguments], check=True)  # noqa: S603 - this file


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
