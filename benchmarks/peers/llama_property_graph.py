"""LlamaIndex ``PropertyGraphIndex`` with ``VectorContextRetriever``, over ready triples.

By default two retrievers are used: synonyms of the question's keywords, which need an LLM, and
``VectorContextRetriever``, which is measured, with the text of the sources (``include_text=True``). Its docstring:
"path_depth: The depth of the path to retrieve for each node. Defaults to 1 (i.e. a triple)". ``similarity_top_k`` is
10 here, and ``limit`` large enough for 10 passages. A custom extractor, as documented, hands over the triples.

``EntityNode`` puts the id of the source passage into the text that is embedded. The subclass below embeds the name
alone, which finds more. Passages count in the order of their first path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core import PropertyGraphIndex, Settings
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import VectorContextRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.vector_stores import SimpleVectorStore

from peers.llama import GivenEmbedding, ids, nodes
from peers.protocol import DEPTH, Bench, Triple, main, size_of


class NamedEntity(EntityNode):
    """An entity whose name alone is embedded."""

    def __str__(self) -> str:
        return self.name


class GivenTriples(TransformComponent):
    """An extractor that hands over ready triples."""

    triples: dict[str, list[Triple]]

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        for node in nodes:
            entities, relations = {}, []
            for triple in self.triples.get(node.node_id, ()):
                for name in (triple.subject, triple.object):
                    entities[name] = NamedEntity(name=name)
                source, target = entities[triple.subject].id, entities[triple.object].id
                relations.append(Relation(label=triple.relation, source_id=source, target_id=target))
            node.metadata[KG_NODES_KEY] = list(entities.values())
            node.metadata[KG_RELATIONS_KEY] = relations
        return nodes


def runner(bench: Bench, folder: Path) -> None:
    embedding = GivenEmbedding(bench.given)
    Settings.llm, Settings.embed_model = MockLLM(), embedding
    triples = defaultdict(list)
    for triple in bench.given.triples:
        triples[triple.passage].append(triple)

    def build() -> PropertyGraphIndex:
        return PropertyGraphIndex(
            nodes(bench.given),
            kg_extractors=[GivenTriples(triples=triples)],
            property_graph_store=SimplePropertyGraphStore(),
            vector_store=SimpleVectorStore(),
            embed_model=embedding,
            use_async=False,
        )

    index, seconds = bench.build(build)
    index.storage_context.persist(str(folder))
    retriever = VectorContextRetriever(
        index.property_graph_store, vector_store=index.vector_store, embed_model=embedding,
        include_text=True, similarity_top_k=DEPTH, path_depth=1, limit=1_000,
    )  # fmt: skip
    bench.run("VectorContextRetriever, path_depth=1", ids(retriever), built=seconds, disk_bytes=size_of(folder))


if __name__ == "__main__":
    main(runner, "llama-index-core")
