"""HippoRAG 2 without its LLM: ready triples, and no filter of the retrieved facts.

Its README: ``hipporag.index(docs=docs)``, ``hipporag.retrieve(queries=queries, num_to_retrieve=2)``; ``BaseConfig``
has the authors' settings, used as they are. The triples are put where it looks for those of earlier runs.
"Recognition memory", an LLM that filters the facts nearest to the question, lets all of them pass here. The embedding
model is replaced by the given embeddings. vLLM and GritLM, which the package imports and this does not use, are
replaced by empty modules: vLLM needs CUDA.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from peers.protocol import DEPTH, Bench, Embedding, Vectors, main, size_of

for _name in ("vllm", "gritlm"):
    sys.modules[_name] = ModuleType(_name)
    for _class in ("SamplingParams", "LLM", "GritLM"):
        setattr(sys.modules[_name], _class, MagicMock())

package: Any = import_module("hipporag.HippoRAG")  # the name in hipporag is the class
_LLM = "none"


class GivenEmbedding:
    """The given embeddings as an embedding model of HippoRAG."""

    embedding: Embedding

    def __init__(self, **_: Any) -> None:
        self.embedding_dim = self.embedding.dim

    def batch_encode(self, texts: str | Sequence[str], **_: Any) -> Vectors:
        return self.embedding([texts] if isinstance(texts, str) else list(texts))


def keep_all(
    query: str,  # noqa: ARG001
    candidate_items: list[Any],
    candidate_indices: list[int],
    len_after_rerank: int | None = None,
) -> tuple[list[int], list[Any], dict[str, Any]]:
    """Let all facts pass: the filter would ask an LLM."""
    return candidate_indices[:len_after_rerank], candidate_items[:len_after_rerank], {"confidence": None}


def runner(bench: Bench, folder: Path) -> None:
    given = bench.given
    GivenEmbedding.embedding = Embedding(given)
    package._get_embedding_model_class = lambda **_: GivenEmbedding  # noqa: SLF001
    package._get_llm_class = lambda _: MagicMock()  # noqa: SLF001
    package.DSPyFilter = lambda _: keep_all
    package.tqdm = lambda rows, **_: rows
    logging.disable(logging.WARNING)
    triples = defaultdict(list)
    for triple in given.triples:
        relation = triple.text if triple.relation == "mentions" else triple.relation
        triples[triple.passage].append([triple.subject, relation, triple.object])
    ids: dict[str, str] = {}
    for passage in given.passages:
        ids.setdefault(passage.text, passage.id)
    extracted = [
        {
            "idx": at, "passage": text, "extracted_triples": triples[id_],
            "extracted_entities": list(dict.fromkeys(name for t in triples[id_] for name in (t[0], t[2]))),
        }
        for at, (text, id_) in enumerate(ids.items())
    ]  # fmt: skip
    (folder / f"openie_results_ner_{_LLM}.json").write_text(json.dumps({"docs": extracted}), "utf-8")

    def build() -> Any:
        rag = package.HippoRAG(
            global_config=package.BaseConfig(save_dir=str(folder), llm_name=_LLM, embedding_model_name="given")
        )
        rag.index(docs=list(ids))
        rag.prepare_retrieval_objects()
        return rag

    rag, seconds = bench.build(build)
    bench.run(
        "without the LLM filter",
        lambda question: [ids[text] for text in rag.retrieve(queries=[question], num_to_retrieve=DEPTH)[0].docs],
        built=seconds,
        disk_bytes=size_of(folder),
    )


if __name__ == "__main__":
    main(runner, "hipporag", "torch", "igraph")
