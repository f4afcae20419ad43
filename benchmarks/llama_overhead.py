"""What the LlamaIndex adapter adds to a query, and whether it finds the same: ``python benchmarks/llama_overhead.py``.

Every number of the first part is a ratio to the core's own ``retrieve`` in the same run: medians over questions
asked by turns, in processor time, no result cache, the question's vector given.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from synthetic import ReadyVectors, documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from llama_graphrag import GraphRAGRetriever, LocalEmbedding

CHUNKS = int(os.environ.get("CHUNKS", "10000"))
QUESTIONS = int(os.environ.get("QUESTIONS", "300"))


def node(document: Document) -> TextNode:
    return TextNode(
        id_=document.id,
        text=document.text,
        metadata={"title": document.title, **document.metadata, "file_name": "corpus.txt"},
        excluded_embed_metadata_keys=["part", "file_name"],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"source-{document.metadata['part']}")},
    )


def milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def overhead() -> None:
    embedder, corpus = ReadyVectors(), list(documents(CHUNKS))
    index = KnowledgeIndex(embedder, chunker=None, embed_facts=False, embed_names=False, progress=False)
    index.add(corpus)
    core = GraphRetriever(index, cache=None)
    adapter = GraphRAGRetriever.from_nodes(
        map(node, corpus), ReadyVectors(), cache=None, embed_facts=False, embed_names=False
    )
    questions = [f"What has {document.title} to do with it?" for document in corpus[:: max(1, CHUNKS // QUESTIONS)]]
    bundles = [QueryBundle(question, embedding=embedder.embed_query(question).tolist()) for question in questions]
    loop = asyncio.new_event_loop()
    ways: dict[str, Callable[[QueryBundle], object]] = {
        "core": lambda bundle: core.retrieve(bundle.query_str, embedding=bundle.embedding),
        "retrieve": adapter.retrieve,
        "aretrieve": lambda bundle: loop.run_until_complete(adapter.aretrieve(bundle)),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn, bundle in enumerate([*bundles[:20], *bundles]):
        for name, way in ways.items():
            spent = milliseconds(lambda way=way, bundle=bundle: way(bundle))  # type: ignore[misc]
            if turn >= 20:  # the first twenty warm up
                took[name].append(spent)
    loop.close()
    usual = statistics.median(took["core"])
    print(f"{CHUNKS:,} chunks, {len(bundles)} questions; the core takes {usual:.1f} ms at the median")
    for name in ("retrieve", "aretrieve"):
        over = statistics.median(mine - its for mine, its in zip(took[name], took["core"], strict=True))
        print(f"{name:<10} {100 * over / usual:>6.1f} % of the core's time on top (target: under 15 %)")


def recall() -> None:
    """Compare rankings on every question of a retrieval set, where it lies beside the repository."""
    folder = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared")) / "data" / "2wiki_train"
    if not folder.is_dir():
        print(f"{folder} is not there: recall was not compared")
        return
    corpus, questions = (
        [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "questions.jsonl")
    )
    model = LocalEmbedding()
    index = KnowledgeIndex(model.embedder, chunker=None, progress=False)
    index.add(Document(row["id"], row["text"], row["title"]) for row in corpus)
    core = GraphRetriever(index)
    adapter = GraphRAGRetriever.from_nodes(
        [TextNode(id_=row["id"], text=row["text"], metadata={"title": row["title"]}) for row in corpus], model
    )
    share: dict[str, list[float]] = {"core": [], "adapter": []}
    same = 0
    for row in questions:
        ranked = {
            "core": [hit.chunk.id for hit in core.retrieve(row["question"]).hits],
            "adapter": [found.node_id for found in adapter.retrieve(row["question"])],
        }
        same += ranked["core"] == ranked["adapter"]
        for name, ids in ranked.items():
            share[name].append(len(set(row["gold"]) & set(ids)) / len(row["gold"]))
    for name, shares in share.items():
        print(f"{name:<10} recall@5 {100 * statistics.mean(shares):.2f}")
    print(f"{same} of {len(questions)} rankings are the same")


if __name__ == "__main__":
    overhead()
    recall()
