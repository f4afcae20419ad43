"""This project beside its peers, measured the same way: ``make bench-peers``.

Every peer gets the same passages, embeddings, questions and triples, in an environment of its own with one thread;
the protocol is described in ``peers.protocol``, what each peer is set to in its runner. Recall is computed here, with
paired bootstrap intervals of the difference to our default. A run of all peers and sets writes
its section of ``benchmarks/RESULTS.md``; a part prints the same tables (``make bench-peers PEERS="faiss_flat bm25s"
SETS=musique_train``). ``REUSE=1`` keeps what earlier runs measured on the same input, with the same ``SECONDS``.

The sets are read from ``../shared/data`` (or ``SHARED``), as in ``quality.py``. "musique_train:triples" is that set
with the triples that GPT-3.5 extracted from it, for everyone, ours included.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from quality import Dataset, load

from graphrag_core import Chunk, Document, Extraction, KnowledgeIndex, SentenceExtractor
from graphrag_core.embedders import WordLlama
from graphrag_core.ingest.embedding import embedded_texts
from graphrag_core.ports import ParsedDocument
from peers import report
from peers.protocol import Triple, read_lines

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
WORK = ROOT / ".bench-peers"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
MARKS = "<!-- peers -->\n", "<!-- end of peers -->\n"
SETS = ("musique_train", "musique_train:triples", "hotpotqa_train", "2wiki_train", "scifact_train", "docs_dev")
SECONDS = 40.0
"""CPU time after which a variant is asked no further questions; the questions are in random order."""
TIMEOUT = 3_600  # seconds; the CPU time of a runner is limited, too


@dataclass(frozen=True)
class Peer:
    """A runner, the packages it needs, and those to install without what they depend on."""

    name: str
    packages: tuple[str, ...]
    without_dependencies: tuple[str, ...] = field(default=())


PEERS = (
    Peer("ours", ("--editable", f"{ROOT}[wordllama]")),
    Peer("faiss_flat", ("faiss-cpu", "numpy")),
    Peer("bm25s", ("bm25s", "PyStemmer", "faiss-cpu")),
    Peer(
        "llama_fusion",
        ("llama-index-core", "llama-index-retrievers-bm25", "llama-index-vector-stores-faiss", "faiss-cpu"),
    ),
    Peer("langchain_ensemble", ("langchain-classic", "langchain-community", "rank-bm25", "faiss-cpu")),
    Peer("lightrag", ("lightrag-hku", "faiss-cpu", "wordllama")),
    Peer(
        "hipporag",
        tuple(
            "torch transformers openai litellm boto3 igraph networkx tiktoken tenacity einops tqdm pandas pyarrow "
            "faiss-cpu wordllama".split()
        ),
        ("hipporag==2.0.0a4",),  # it pins vllm, which needs CUDA
    ),
)


# -- the input


def prepare(name: str, seconds: float, *, reuse: bool) -> Dataset:
    """Write the input of a set, unless it may be reused; return the set with its questions in random order."""
    folder, settings = folder_of(name), json.dumps({"seconds": seconds})
    folder.mkdir(parents=True, exist_ok=True)
    dataset = load(name)
    rows = list(dataset.questions)
    random.Random(0).shuffle(rows)
    done = folder / "settings.json"
    if not (reuse and done.exists() and done.read_text("utf-8") == settings):
        done.unlink(missing_ok=True)
        _write_input(folder, dataset, rows, given_triples=dataset.variant == "triples")
        done.write_text(settings, "utf-8")
    return Dataset(name, dataset.documents, rows)


def _write_input(folder: Path, dataset: Dataset, rows: list[Mapping[str, Any]], *, given_triples: bool) -> None:
    with KnowledgeIndex(progress=False) as index:
        index.add(dataset.documents)
        parsed = index.engine.parsed([document.id for document in dataset.documents])
    chunks = [chunk for document in parsed for chunk in document.chunks]
    extractions = [extraction for document in parsed for extraction in document.extractions]
    texts = [text for document in parsed for text in embedded_texts(document)]
    model = WordLlama()
    passages = zip(chunks, texts, strict=True)
    _write(folder, "passages", ({"id": chunk.id, "title": chunk.title, "text": text} for chunk, text in passages))
    _write(folder, "questions", ({"id": row["id"], "question": row["question"]} for row in rows))
    np.save(folder / "passages.npy", model.embed_documents(texts))
    np.save(folder / "questions.npy", model.embed_documents([row["question"] for row in rows]))
    triples = list(_stored_triples(parsed) if given_triples else _found_triples(chunks, extractions))
    _write(folder, "triples", map(asdict, triples))
    names = _names(chunks, extractions, triples if given_triples else [])
    _write(folder, "entities", [*names, *_question_names(rows)])
    _write(folder, "chunks", ({"id": c.id, "document_id": c.document_id, "text": c.text} for c in chunks))
    _write(folder, "documents", map(_document_row, dataset.documents))


def _document_row(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "text": document.text,
        "title": document.title,
        "metadata": dict(document.metadata),
    }


def folder_of(name: str) -> Path:
    return WORK / name.replace(":", "-")


def _write(folder: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines, "utf-8")


def _found_triples(chunks: Sequence[Chunk], extractions: Sequence[Extraction]) -> Iterator[Triple]:
    """Yield our facts as triples: the subject of a sentence with every other entity in it."""
    for chunk, extraction in zip(chunks, extractions, strict=True):
        seen = set()
        for fact in extraction.facts:
            others = [*fact.entities[1:], *([fact.value] if fact.value else [])]
            for other in others:
                ends = (fact.entities[0], other)
                if any(name.startswith("→") for name in ends) or ends[0] == ends[1] or (*ends, fact.text) in seen:
                    continue
                seen.add((*ends, fact.text))
                yield Triple(chunk.id, ends[0], fact.relation or "mentions", other, fact.text)


def _stored_triples(parsed: Sequence[ParsedDocument]) -> Iterator[Triple]:
    """Yield the triples that the documents of a set carry."""
    for document in parsed:
        for triple in document.document.metadata["triples"]:
            if len(triple) == 3 and all(isinstance(part, str) and part.strip() for part in triple):
                subject, relation, other = (part.strip() for part in triple)
                yield Triple(document.chunks[0].id, subject, relation, other, f"{subject} {relation} {other}")


def _names(
    chunks: Sequence[Chunk], extractions: Sequence[Extraction], triples: Sequence[Triple]
) -> Iterator[dict[str, Any]]:
    more: dict[str, list[str]] = {}
    for triple in triples:
        more.setdefault(triple.passage, []).extend((triple.subject, triple.object))
    for chunk, extraction in zip(chunks, extractions, strict=True):
        names = [mention.name for mention in extraction.mentions if not mention.name.startswith("→")]
        yield {"id": chunk.id, "names": list(dict.fromkeys([*names, *more.get(chunk.id, ())]))}


def _question_names(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    chunks = [Chunk(f"question:{row['id']}", f"question:{row['id']}", row["question"]) for row in rows]
    for chunk, extraction in zip(chunks, SentenceExtractor().extract(chunks), strict=True):
        yield {"id": chunk.id, "names": [mention.name for mention in extraction.mentions]}


def _digest(folder: Path) -> str:
    """Return a hash of the input that peers read."""
    files = sorted(path for path in folder.iterdir() if path.suffix in {".jsonl", ".npy"} or path.stem == "settings")
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


# -- the environments and the runs


def install(peer: Peer) -> str:
    """Install a peer into its environment, once; return why that failed."""
    folder = ENVIRONMENTS / peer.name
    done, wanted = folder / ".installed", json.dumps([peer.packages, peer.without_dependencies])
    if done.exists() and done.read_text("utf-8") == wanted:
        return ""
    print(f"installing {peer.name} ...", flush=True)
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    for arguments in (peer.packages, ("--no-deps", *peer.without_dependencies)):
        if arguments == ("--no-deps",):
            continue
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments]
        pip = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - names from this file
        if pip.returncode:
            return f"pip install failed: {_last_line(pip.stderr)}"
    done.write_text(wanted, "utf-8")
    return ""


def measure(peer: Peer, name: str) -> str:
    """Run a peer on a set; return why that failed."""
    output = folder_of(name) / f"{peer.name}.json"
    output.unlink(missing_ok=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    offline = {"HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "ANONYMIZED_TELEMETRY": "False"}
    environment = {**os.environ, **threads, **offline, "PYTHONPATH": str(ROOT / "benchmarks"), "PYTHONHASHSEED": "0"}
    python = ENVIRONMENTS / peer.name / "bin" / "python"
    with tempfile.TemporaryDirectory() as elsewhere:  # some peers write logs into the working directory
        command = [str(python), "-m", f"peers.{peer.name}", str(folder_of(name)), str(output)]
        try:
            ran = subprocess.run(  # noqa: S603 - a file of this folder
                command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {TIMEOUT // 60} minutes"
    if ran.returncode:
        (folder_of(name) / f"{peer.name}.log").write_text(ran.stdout + ran.stderr, "utf-8")
        return _last_line(ran.stderr)
    return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1][:200] if lines else "no message"


def _outcome(peer: Peer, name: str, chosen: argparse.Namespace) -> str:
    """Measure a peer on a set, unless that was done on the same input; return why it failed."""
    digest, path = _digest(folder_of(name)), folder_of(name) / f"{peer.name}.outcome.json"
    stored = json.loads(path.read_text("utf-8")) if chosen.reuse and path.exists() else {}
    if stored.get("digest") != digest:
        start = time.monotonic()
        problem = measure(peer, name)
        stored = {"digest": digest, "problem": problem, "date": time.strftime("%Y-%m-%d")}
        path.write_text(json.dumps(stored), "utf-8")
        print(f"{name}: {peer.name} {problem or 'measured'}, {time.monotonic() - start:.0f} s", flush=True)
    return str(stored["problem"])


def _evaluate(name: str, peers: list[Peer], chosen: argparse.Namespace) -> tuple[Any, dict[str, str]]:
    """Return the measures of peers on a set, and why some of them failed."""
    dataset, outputs, failed = prepare(name, chosen.seconds, reuse=chosen.reuse), {}, {}
    for peer in peers:
        if problem := _outcome(peer, name, chosen):
            failed[peer.name] = problem
        else:
            outputs[peer.name] = json.loads((folder_of(name) / f"{peer.name}.json").read_text("utf-8"))
    rows = read_lines(folder_of(name) / "chunks.jsonl")
    chunks = {row["id"]: Chunk(row["id"], row["document_id"], row["text"]) for row in rows}
    return report.evaluate(dataset, chunks, outputs), failed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure this project beside its peers.")
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], metavar="PEER")
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU time to ask questions, for each variant")
    parser.add_argument("--reuse", action="store_true", help="keep what was measured on the same input")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    peers = [peer for peer in PEERS if not chosen.peers or peer.name in ("ours", *chosen.peers)]
    problems = {peer.name: problem for peer in peers if (problem := install(peer))}
    peers = [peer for peer in peers if peer.name not in problems]
    sets = []
    for name in chosen.sets or SETS:
        evaluated, failed = _evaluate(name, peers, chosen)
        sets.append(evaluated)
        problems |= {f"{peer} on {name}": problem for peer, problem in failed.items()}
    text = report.markdown(sets, problems, chosen.seconds)
    if not chosen.peers and not chosen.sets:
        before, _, rest = RESULTS.read_text("utf-8").partition(MARKS[0])
        RESULTS.write_text(f"{before}{MARKS[0]}{text}{MARKS[1]}{rest.partition(MARKS[1])[2]}", "utf-8")
    print(text)
    sys.exit(bool(problems.get("ours")))


if __name__ == "__main__":
    main()
