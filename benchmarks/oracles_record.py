"""Record what one version of the library answers; ``oracles.py`` runs this file with the Python of each version.

The file must run with old commits and with the current tree, so it uses documented names of the library and nothing
else of its repository. It writes one compressed file of JSON lines for each set, an answer per line. Names of sets are
those of ``quality.py`` and ``design:NAME`` for a published design, which is asked about the documents of its tests
(``oracles_designs.json``).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import graphrag_core
from graphrag_core import (
    Combined,
    Document,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    Result,
    SentenceExtractor,
    designs,
)
from graphrag_core.embedders import WordLlama
from graphrag_core.research import research_documents

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
CASES = Path(__file__).with_name("oracles_designs.json")
DESIGN = "design:"
DEPTH = 10
METHODS: dict[str, dict[str, Any]] = {
    "vector": {"method": "vector"},
    "BM25": {"method": "keyword"},
    "vector+BM25": {"use_graph": False},
    "graph": {"method": "graph"},
    "hybrid": {"method": "hybrid"},
}
PART = "oracle_part"  # metadata: a digit for each document
FILTERS: dict[str, Any] = {"none": None, "half": {PART: [0, 1, 2, 3, 4]}, "tenth": {PART: 0}}
EVERY = {"half": 2, "tenth": 10}  # every n-th document of a design


def part(document_id: str) -> dict[str, int]:
    return {PART: hashlib.sha256(document_id.encode()).digest()[0] % 10}


def piece_id(document_id: str, number: int) -> str:
    """Return an id as random ones look, which no link in a text can mean."""
    return hashlib.sha256(f"{document_id} {number}".encode()).hexdigest()[:32]


# -- the sets


def questions_of(name: str, limit: int) -> list[tuple[int, str]]:
    """Return at most ``limit`` questions of a set, spread evenly, with their places in its file; 0 for all."""
    rows = lines(SHARED / "data" / name.partition(":")[0] / "questions.jsonl")
    count = min(limit or len(rows), len(rows))
    return [(at, rows[at]["question"]) for at in (number * len(rows) // count for number in range(count))]


def index_of(name: str) -> KnowledgeIndex:
    """Return an index of a set, filled as ``quality.py`` does; the word behind the colon says how."""
    base, _, variant = name.partition(":")
    documents = sorted(documents_of(SHARED / "data" / base, variant), key=lambda document: document.id)
    documents = [replace(one, metadata={**one.metadata, **part(one.id)}) for one in documents]
    if variant == "cut":
        return cut_by_langchain(documents)
    if variant == "nodes":
        return cut_by_llama_index(documents)
    triples = variant == "triples"
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if triples else SentenceExtractor()
    index = KnowledgeIndex(embedder(), extractor=extractor, progress=False)
    index.add(documents)
    return index


def documents_of(folder: Path, variant: str) -> list[Document]:
    if (folder / "corpus.tar.gz").exists():
        with TemporaryDirectory() as unpacked:
            with tarfile.open(folder / "corpus.tar.gz") as archive:
                archive.extractall(unpacked, filter="data")
            return list(reader()([Path(unpacked, "corpus")]))
    if (folder / "docs.jsonl").exists():
        return [Document(row["file"], row["text"]) for row in lines(folder / "docs.jsonl")]
    return [
        Document(
            row["id"],
            row["text"],
            "" if variant == "untitled" else row.get("title") or "",
            {"triples": row.get("triples", [])} if variant == "triples" else {},
        )
        for row in lines(folder / "corpus.jsonl")
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def reader() -> Any:
    """Return ``load_documents`` from where the version has it."""
    try:
        return importlib.import_module("graphrag_core.documents").load_documents
    except ModuleNotFoundError:
        return importlib.import_module("graphrag_apps.documents").load_documents


def cut_by_langchain(documents: Sequence[Document]) -> KnowledgeIndex:
    from langchain_core.documents import Document as Page  # noqa: PLC0415 - other sets need no framework
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415

    from langchain_graphrag import GraphRAGRetriever  # noqa: PLC0415

    splitter, pieces = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=0), []
    for one in documents:
        cut = splitter.split_documents([Page(one.text, metadata={"source": one.id, **part(one.id)})])
        pieces += [
            Page(piece.page_content, metadata=piece.metadata, id=piece_id(one.id, n)) for n, piece in enumerate(cut)
        ]
    return GraphRAGRetriever.from_documents(pieces, embedder()).index


def cut_by_llama_index(documents: Sequence[Document]) -> KnowledgeIndex:
    from llama_index.core import Document as Page  # noqa: PLC0415 - other sets need no framework
    from llama_index.core.node_parser import SentenceSplitter  # noqa: PLC0415

    from llama_graphrag import GraphRAGRetriever, LocalEmbedding  # noqa: PLC0415

    splitter = SentenceSplitter(id_func=lambda number, page: piece_id(page.node_id, number))
    nodes = splitter.get_nodes_from_documents([Page(text=one.text, doc_id=one.id) for one in documents])
    for node in nodes:
        node.metadata.update(part(str(node.ref_doc_id)))  # after the cut: metadata makes passages shorter
        node.excluded_embed_metadata_keys = [PART]
    return GraphRAGRetriever.from_nodes(nodes, LocalEmbedding(embedder())).index


@cache
def embedder() -> WordLlama:
    return WordLlama()


# -- the designs


class StatedCosines:
    """Embeds a text so that its cosine to every question is the number in it: "cos 0.875"."""

    identity = "stated cosines"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        cosines = [float(found[1]) if (found := re.search(r"cos (0\.\d+)", text)) else 0.0 for text in texts]
        return [[cosine, (1 - cosine**2) ** 0.5] for cosine in cosines]

    def embed_query(self, _: str) -> list[float]:
        return [1.0, 0.0]


@contextmanager
def index_of_design(case: Mapping[str, Any]) -> Iterator[tuple[KnowledgeIndex, dict[str, str]]]:
    """Yield an index of the documents, told facts and findings of a design, and what to call each document.

    The ids of told facts are random, so they are called by their text. They also decide ties: a case with told facts
    lists the methods whose scores have none.
    """
    model = StatedCosines() if case.get("stated_cosines") else embedder()
    with KnowledgeIndex(model, extractor=KnowledgeExtractor(), embed_names=True, progress=False) as index:
        documents = [
            Document(row["id"], row["text"], metadata={"knowledge": row["knowledge"]})
            for row in case.get("documents", ())
        ]
        documents += research_documents(case["findings"]) if "findings" in case else []
        index.add(documents)
        names = {document.id: document.id for document in documents}
        for row in case.get("facts", ()):
            fact = index.memory.remember(**row)
            names[fact.chunk_id] = fact.text
        yield index, names


def answers_of_design(name: str, filters: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the answers of a design. Each has an index of its own, since the access counts of facts change scores."""
    design, case = getattr(designs, name.upper()), json.loads(CASES.read_text("utf-8"))[name]
    for chosen in filters:
        for method in case.get("methods", ("published", *METHODS)):
            for row, question in enumerate(case["questions"]):
                with index_of_design(case) as (index, names):
                    where = {"__id__": list(names)[:: EVERY[chosen]]} if chosen in EVERY else None
                    result = GraphRetriever(index, design, cache=False).retrieve(
                        question, where=where, **METHODS.get(method, {})
                    )
                    yield {"row": row, "method": method, "filter": chosen, **answer(result, names)}


# -- what is recorded


def answers_of_set(name: str, filters: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    with index_of(name) as index:
        retriever = GraphRetriever(index, k=DEPTH, cache=False)
        for chosen in filters:
            for method, settings in METHODS.items():
                for row, question in questions_of(name, limit):
                    result = retriever.retrieve(question, where=FILTERS[chosen], **settings)
                    yield {"row": row, "method": method, "filter": chosen, **answer(result, {})}


def answer(result: Result, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what is compared of a result. Texts of passages are replaced by hashes."""
    values = result.to_dict()
    for chunk in values["chunks"]:
        chunk["content"] = hashlib.sha256(chunk["content"].encode()).hexdigest()[:12]
    hits = [(names.get(hit.chunk.id, hit.chunk.id), float(hit.score)) for hit in result.hits[:DEPTH]]
    return {"hits": hits, "context": str(result.context()), "to_dict": values}


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(':', '-')}.jsonl.gz"


def record(folder: Path, names: Sequence[str], filters: Sequence[str] = tuple(FILTERS), limit: int = 0) -> None:
    """Write the answers of sets into a folder, a file for each; a file that exists is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.process_time()
        is_design = name.startswith(DESIGN)
        found = (
            answers_of_design(name.removeprefix(DESIGN), filters) if is_design else answers_of_set(name, filters, limit)
        )
        file = path_of(folder, name)
        unfinished = file.with_suffix(".unfinished")
        with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=1) as out:
            out.writelines(json.dumps(one) + "\n" for one in found)
        unfinished.replace(file)
        print(f"  {name}: {time.process_time() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("source", type=Path, help="the tree whose code must be recorded")
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--filters", nargs="+", choices=FILTERS, default=list(FILTERS))
    parser.add_argument("--questions", type=int, default=0)
    given = parser.parse_args()
    if not Path(graphrag_core.__file__).is_relative_to(given.source.resolve()):
        parser.exit(1, f"{graphrag_core.__file__} is not in {given.source}\n")
    record(given.folder, given.sets, given.filters, given.questions)


if __name__ == "__main__":
    main()
