"""Indexing time, memory and reopening at 100,000 chunks: ``make bench-index``.

Every number is a ratio to something measured in the same run. Indexing is compared with the WordLlama library
embedding the same texts in the same process, before and after. The indexed vectors are precomputed, so the
embedder's time is not included. Adding the same documents with our WordLlama embedder is timed after that.
``CHUNKS=10000`` makes it smaller. The passages of the datasets in ``../shared/data`` (or ``SHARED``), a few thousand
longer ones, are timed as well if they are there. Then 5,000 of them, or of the generated ones, are indexed through
LangChain, in CPU time up to the first answer, beside LangChain's ``InMemoryVectorStore`` and, if it is installed, its
``FAISS``, with the same embedder. At last the documents of three sets are read and indexed in a folder: CPU time, and
the bytes of the folder as a ratio to those of the files.
``make bench-lengths`` times single documents of different lengths.
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import ReadyVectors, documents

from graphrag_apps.documents import load_documents
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.ingest.vectors import embedded_texts
from graphrag_core.text import chunk_text, sentences
from graphrag_core.text.mentions import find_names

COUNT = int(os.environ.get("CHUNKS", "100000"))
SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))

_THROUGH_LANGCHAIN = 5_000  # documents
_FILES = ("docs_dev", "docs_dev2", "emanual_qa")  # sets of which the size is measured

Row = tuple[str, float, str]


def resident() -> int:
    """Return the bytes of anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def real() -> Iterator[Document]:
    """Yield the passages of all English datasets."""
    for path in sorted((SHARED / "data").glob("*_train/corpus.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            yield Document(f"{path.parent.name} {row['id']}", row["text"], row["title"])


class Library:
    """The WordLlama library without our embedder."""

    def __init__(self) -> None:
        import wordllama  # noqa: PLC0415 - turns logging on

        folder, library = Path(wordllama.__file__).parent, wordllama.WordLlama
        library.get_cache_dir = staticmethod(lambda *_, **__: folder / "tokenizers")  # where 0.2.2 looks for them
        self._model: Any = library.load(cache_dir=folder, disable_download=True)

    def embed_documents(self, texts: list[str]) -> Any:
        return self._model.embed(texts, norm=True)


def race(folder: str, of: str = "") -> None:
    """Time indexing and embedding. Runs in a subprocess."""
    ready = list(real() if of == "real" else documents(COUNT))
    chunks = _texts(ready)
    library, own = Library(), WordLlama()
    library.embed_documents(chunks[:1_000])
    own.embed_documents(chunks[:1_000])
    before = _embedding(library, chunks)
    with KnowledgeIndex.open(folder, ReadyVectors(), progress=False) as kb:
        start, cpu = time.perf_counter(), time.process_time()
        kb.add(ready)
        indexing, processor = time.perf_counter() - start, time.process_time() - cpu
    after = _embedding(library, chunks)
    with KnowledgeIndex.open(f"{folder}-own", own, progress=False) as kb:
        start = time.perf_counter()
        kb.add(ready)
        everything = time.perf_counter() - start
    embedding = _embedding(own, chunks)
    print(
        json.dumps(
            {
                "WordLlama on chunks": (before + after) / 2,
                "own on chunks": embedding,
                "indexing": indexing,
                "processor": processor,
                "everything": everything,
            }
        )
    )


def langchain() -> None:
    """Time indexing 5,000 documents and the first question through LangChain. Runs in a subprocess."""
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

    ready = list(islice(chain(real(), documents(_THROUGH_LANGCHAIN)), _THROUGH_LANGCHAIN))
    passages = [Passage(id=one.id, page_content=one.text, metadata={"title": one.title}) for one in ready]
    question, timed = f"What is said of {ready[0].title}?", dict[str, list[float]]()
    ways: dict[str, Callable[..., Any]] = {
        "own": GraphRAGRetriever.from_documents,
        "InMemoryVectorStore": lambda *given: InMemoryVectorStore.from_documents(*given).as_retriever(),
    }
    with suppress(ImportError):
        from langchain_community.vectorstores import FAISS  # noqa: PLC0415

        ways["FAISS"] = lambda *given: FAISS.from_documents(*given).as_retriever()
    for _ in range(4):  # the first does not count
        for name, index_all in ways.items():
            start = time.process_time()
            index_all(passages, AsEmbeddings()).invoke(question)
            timed.setdefault(name, []).append(time.process_time() - start)
    print(json.dumps({name: statistics.median(times[1:]) for name, times in timed.items()}))


def files(name: str, folder: str) -> None:
    """Index the files of a set in a folder and print CPU time and bytes. Runs in a subprocess."""
    source = SHARED / "data" / name
    if (source / "corpus.tar.gz").exists():
        with tarfile.open(source / "corpus.tar.gz") as archive:
            archive.extractall(f"{folder}/files", filter="data")
        read = load_documents([Path(folder, "files", "corpus")])
        size = _size(Path(folder, "files"))
    else:
        rows = map(json.loads, (source / "corpus.jsonl").read_text("utf-8").splitlines())
        read = (Document(row["id"], row["text"], row.get("title", "")) for row in rows)
        size = (source / "corpus.jsonl").stat().st_size
    embedder = WordLlama()
    start = time.process_time()
    with KnowledgeIndex.open(f"{folder}/index", embedder, progress=False) as kb:
        kb.add(read)
    print(json.dumps({"cpu": time.process_time() - start, "ratio": _size(Path(folder, "index")) / size}))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def index(folder: str) -> None:
    """Index a stream of documents and print the memory in use. Runs in a subprocess."""
    with KnowledgeIndex.open(folder, ReadyVectors(), progress=False) as kb:
        size = kb.add(_counted(documents(COUNT))).added
        held = resident()
        stats = kb.stats()
    payload = _Counted.size + sum(stats.vectors.values()) * 4 * stats.dim
    print(json.dumps({"documents": size, "resident": held, "payload": payload, "stats": str(stats)}))


class _Counted:
    size = 0


def _counted(source: Iterable[Document]) -> Iterator[Document]:
    for document in source:
        _Counted.size += len(chunk_text(document.title, document.text).encode())
        yield document


def reopen(folder: str) -> None:
    """Open a folder and print the memory in use; compare opening with reading all its files."""
    with KnowledgeIndex.open(folder, ReadyVectors(), read_only=True) as kb:
        assert _links(kb)
        held = resident()
    opened, read = [], []
    for _ in range(5):
        start = time.perf_counter()
        for path in Path(folder).rglob("*"):
            if path.is_file():
                path.read_bytes()
        read.append(time.perf_counter() - start)
        start = time.perf_counter()
        with KnowledgeIndex.open(folder, ReadyVectors(), read_only=True) as kb:
            assert _links(kb)
        opened.append(time.perf_counter() - start)
    ratio = statistics.median(o / r for o, r in zip(opened, read, strict=True))
    print(json.dumps({"ratio": ratio, "resident": held}))


def _links(index: KnowledgeIndex) -> int:
    """Return the number of links in the graph, which loads it."""
    assert isinstance(index.engine, IndexEngine)
    with index.engine.snapshot() as snapshot:
        return len(snapshot.neighbours(np.arange(snapshot.first_entity, snapshot.node_limit), to="entities").targets)


def _run(*arguments: str) -> dict[str, Any]:
    out = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    result: dict[str, Any] = json.loads(out.stdout.strip().splitlines()[-1])
    return result


def _texts(ready: list[Document]) -> list[str]:
    """Return the texts of chunks."""
    pipeline = KnowledgeIndex(ReadyVectors()).pipeline
    parsed = pipeline.parse(ready)
    return [text for p in parsed for text in embedded_texts(p)]


def _embedding(model: Library | WordLlama, texts: list[str]) -> float:
    start = time.perf_counter()
    for at in range(0, len(texts), 1_000):
        model.embed_documents(texts[at : at + 1_000])
    return time.perf_counter() - start


def _rates(sample: list[str]) -> None:
    spans = [sentences(text) for text in sample]
    count = sum(map(len, spans))
    start = time.perf_counter()
    for text, found in zip(sample, spans, strict=True):
        find_names(text, {a for a, _ in found})
    print(f"mentions             {count / (time.perf_counter() - start):>10,.0f} sentences a second on one core")


def lengths() -> None:
    """Print the time to index one document per kB, at several lengths, relative to the shortest."""
    for kind, text in (("prose", _long_text()), ("one line", _long_text().replace(". ", " ").replace("\n", " "))):
        for settings in ({"chunker": None}, {}):
            base = 0.0
            for size in (100_000, 400_000, 1_600_000):
                document = Document("long", text[:size], "Long")
                with KnowledgeIndex(ReadyVectors(), progress=False, **settings) as kb:  # type: ignore[arg-type]
                    start = time.process_time()
                    kb.add([document])
                    assert _links(kb)
                    spent = (time.process_time() - start) / len(document.text)
                base = base or spent
                how = "whole" if settings else "in chunks"
                print(f"{kind:<9} {how:<10}{size // 1000:>6,} kB {spent / base:>6.2f} × the time per kB at 100 kB")


def _long_text() -> str:
    """Return 1.6 MB of the passages of the datasets, or of generated ones."""
    passages = [document.text for document in real()] or [document.text for document in documents(20_000)]
    return ("\n\n".join(passages) * 9)[:1_600_000]


def main() -> None:
    sample = [d.text for _, d in zip(range(5_000), documents(5_000), strict=False)]
    _rates(sample)
    with tempfile.TemporaryDirectory() as folder:
        timed = _run("race", f"{folder}/race")
        made = _run("index", f"{folder}/index")
        again = _run("reopen", f"{folder}/index")
    print(f"\n{made['stats']}")
    _show(_times(timed))
    _show(
        [
            ("memory after it", made["resident"] / made["payload"], "× the bytes of texts and vectors (at most 2.5)"),
            ("memory reopened", again["resident"] / made["payload"], "× the same"),
            ("reopening", again["ratio"], "× reading the files (at most 3)"),
        ]
    )
    if count := sum(1 for _ in real()):
        with tempfile.TemporaryDirectory() as folder:
            timed = _run("race", f"{folder}/race", "real")
        print(f"\n{count:,} passages of {SHARED.name}/data")
        _show(_times(timed))
    timed = _run("langchain")
    own = timed.pop("own")
    print(f"\n{_THROUGH_LANGCHAIN:,} documents through LangChain, up to the first answer")
    _show([("CPU time", own, "s")])
    _show([("", own / store, f"× {name} with the same embedder ({store:.2f} s)") for name, store in timed.items()])
    for name in _FILES if (SHARED / "data").exists() else ():
        with tempfile.TemporaryDirectory() as folder:
            measured = _run("files", name, folder)
        print(f"\n{name}, read and indexed in a folder")
        _show([("CPU time", measured["cpu"], "s"), ("size", measured["ratio"], "× the bytes of its files")])


def _times(timed: dict[str, float]) -> list[Row]:
    chunks, own_chunks = timed["WordLlama on chunks"], timed["own on chunks"]
    indexing, adding = timed["indexing"], timed["everything"]
    return [
        ("WordLlama", chunks, "s for the chunks: the library"),
        ("our embedder", own_chunks, "s for the chunks: the same vectors"),
        ("indexing", indexing, f"s, {timed['processor']:.1f} s of processor time"),
        (
            "",
            indexing / chunks,
            f"× WordLlama on the chunks (at most 1), {indexing / own_chunks:.2f} × our embedder",
        ),
        ("indexing, embedding", adding, f"s with our embedder, {own_chunks:.1f} s of it its own"),
        ("", adding / chunks, "× WordLlama on the same texts"),
    ]


def _show(rows: Iterable[Row]) -> None:
    for name, value, meaning in rows:
        print(f"{name:<21}{value:>10.2f} {meaning}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "race":
        race(*sys.argv[2:])
    elif sys.argv[1] == "lengths":
        lengths()
    elif sys.argv[1] == "langchain":
        langchain()
    elif sys.argv[1] == "files":
        files(*sys.argv[2:])
    elif sys.argv[1] == "index":
        index(sys.argv[2])
    else:
        reopen(sys.argv[2])
