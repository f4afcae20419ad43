"""LightRAG without an LLM: ready triples, and given keywords in place of those an LLM finds in the question.

Its README: "The default query mode for LightRAG is ``mix``. Using ``mix`` mode generally yields the most ideal query
results"; ``ainsert_custom_kg`` inserts a ready graph, ``aquery_data`` returns what was retrieved without an answer.
``hl_keywords`` and ``ll_keywords`` are the entity names of the question, or the question if it has none. The
description of an entity, which an LLM would write, is the sentences that it occurs in, at most five. Passages count
in the order of the ``chunks`` that are returned. It recommends a reranker; none is used here, as for the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer, normalize_entity_name

from peers.protocol import Bench, Embedding, Input, Vectors, main, size_of

_LONGEST_NAME = 200
_SENTENCES = 5


class Words:
    """Counts words as tokens: the real tokenizer downloads its vocabulary."""

    def encode(self, content: str) -> list[int]:
        return list(range(len(content.split())))

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))


async def no_llm(*_: Any, **__: Any) -> str:
    """Refuse to answer."""
    raise RuntimeError("the LLM was called")


def graph(given: Input) -> dict[str, list[dict[str, Any]]]:
    """Return passages and triples as ``ainsert_custom_kg`` takes them."""
    sentences: dict[str, dict[str, None]] = {}
    sources: dict[str, str] = {}
    relations: dict[tuple[str, str, str], dict[str, Any]] = {}
    for triple in given.triples:
        ends = (triple.subject.strip()[:_LONGEST_NAME], triple.object.strip()[:_LONGEST_NAME])
        normal = [normalize_entity_name(name) for name in ends]
        if not all(normal) or normal[0] == normal[1]:  # one of these, and all is refused
            continue
        for name in ends:
            sentences.setdefault(name, {})[triple.text] = None
            sources.setdefault(name, triple.passage)
        relations.setdefault((*ends, triple.passage), {
            "src_id": ends[0], "tgt_id": ends[1], "description": triple.text, "keywords": triple.relation,
            "source_id": triple.passage, "file_path": triple.passage, "weight": 1.0,
        })  # fmt: skip
    return {
        "chunks": [{"content": p.text, "source_id": p.id, "file_path": p.id} for p in given.passages],
        "entities": [
            {
                "entity_name": name,
                "entity_type": "entity",
                "source_id": sources[name],
                "file_path": sources[name],
                "description": " ".join(list(found)[:_SENTENCES]),
            }
            for name, found in sentences.items()
        ],
        "relationships": list(relations.values()),
    }


def runner(bench: Bench, folder: Path) -> None:
    logging.getLogger("lightrag").setLevel(logging.ERROR)
    given = bench.given
    embedding = Embedding(given)
    known = {passage.id for passage in given.passages}

    async def embed(texts: Sequence[str], **_: Any) -> Vectors:
        return embedding(list(texts))

    async def build() -> LightRAG:
        rag = LightRAG(
            working_dir=str(folder),
            llm_model_func=no_llm,
            embedding_func=EmbeddingFunc(embedding_dim=embedding.dim, max_token_size=8192, func=embed),
            tokenizer=Tokenizer("words", Words()),
        )
        await rag.initialize_storages()
        await rag.ainsert_custom_kg(graph(given))
        return rag

    loop = asyncio.new_event_loop()
    try:
        rag, seconds = bench.build(lambda: loop.run_until_complete(build()))

        def retrieve(question: str) -> list[str]:
            keywords = given.question_entities[question] or [question]
            param = QueryParam(
                mode="mix", hl_keywords=keywords, ll_keywords=keywords, enable_rerank=False, chunk_top_k=20
            )
            found = loop.run_until_complete(rag.aquery_data(question, param))
            chunks = found.get("data", {}).get("chunks", [])
            return [chunk["file_path"] for chunk in chunks if chunk["file_path"] in known]

        bench.run("mode=mix", retrieve, built=seconds, disk_bytes=size_of(folder))
        loop.run_until_complete(rag.finalize_storages())
    finally:
        loop.close()


if __name__ == "__main__":
    main(runner, "lightrag-hku", "nano-vectordb")
