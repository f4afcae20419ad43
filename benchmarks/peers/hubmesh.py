"""hubmesh: personalized PageRank over an entity graph, fused with cosine similarity.

Its README: ``Planner(store=store, kg=kg, nlp=nlp, embed=embed)``, "KG mode — the benchmarked, production path", with
a graph from ``build_entity_kg_llm`` (triples, "richer than spaCy"). ``nlp``
is a stand-in for spaCy that returns the given entity names, and ``llm`` one for an LLM that returns the given
triples, so that every peer has the same names. Disk is what ``CorpusManager.build`` writes: texts, vectors and graph.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from hubmesh import Planner
from hubmesh.adapters import InMemoryStore
from hubmesh.corpus import kg_to_dict
from hubmesh.kg_llm import build_entity_kg_llm
from hubmesh.types import Document

from peers.protocol import DEPTH, Bench, Embedding, main, size_of

_ANY_LENGTH = 1_000_000  # tokens: the ranking is measured, not its packing into a prompt
_PASSAGE = re.compile(r'Passage:\n"""\n(.*)\n"""\n$', re.DOTALL)


def runner(bench: Bench, folder: Path) -> None:
    given = bench.given
    embedding = Embedding(given)
    names = {passage.text: given.entities[passage.id] for passage in given.passages} | given.question_entities
    triples = defaultdict(list)
    for triple in given.triples:
        triples[triple.passage].append([triple.subject, triple.relation, triple.object])
    of_text = {passage.text: triples[passage.id] for passage in given.passages}

    def embed(text: str) -> Any:
        return embedding([text])[0]

    def nlp(text: str) -> SimpleNamespace:
        return SimpleNamespace(ents=[SimpleNamespace(text=name, label_="ORG") for name in names[text]])

    def llm(prompt: str) -> str:
        passage = _PASSAGE.search(prompt)
        assert passage is not None
        return json.dumps({"triples": of_text[passage[1]]})

    def documents() -> list[Document]:
        pairs = zip(given.passages, given.vectors, strict=True)
        return [Document(id=passage.id, text=passage.text, vector=vector) for passage, vector in pairs]

    store, store_seconds = bench.build(lambda: InMemoryStore.from_documents(documents(), embed=embed))
    graph, seconds = bench.build(lambda: build_entity_kg_llm(documents(), llm=llm))
    rows = [json.dumps({"id": passage.id, "text": passage.text, "metadata": {}}) for passage in given.passages]
    (folder / "docs.jsonl").write_text("\n".join(rows), "utf-8")
    np.savez_compressed(folder / "vectors.npz", vectors=given.vectors)
    (folder / "kg.json").write_text(json.dumps(kg_to_dict(graph)), "utf-8")
    planner = Planner(store=store, kg=graph, nlp=nlp, embed=embed)

    def retrieve(question: str) -> list[str]:
        found = planner.retrieve(query=question, top_k=DEPTH, budget_tokens=_ANY_LENGTH)
        return [source.doc.id for source in found.sources]

    built = store_seconds + seconds
    bench.run("KG mode, given triples", retrieve, built=built, disk_bytes=size_of(folder))


if __name__ == "__main__":
    main(runner, "hubmesh")
