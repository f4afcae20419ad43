"""langchain-graph-retriever: similarity search, then traversal of metadata edges.

Its documentation: "``edges=[("keywords", "keywords")]``: define edges based on document metadata", and ``Eager``,
which "selects all discovered nodes at each traversal step". ``InMemoryVectorStore`` is the store that takes lists as
metadata; Chroma needs ``ShreddingTransformer`` for them, and traverses the same edges. Edges lead from the given entity
names of a passage to passages that have one as their title. Half of the passages are from the similarity search
(``start_k=5``), since traversal stops as soon as ``select_k`` passages are selected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_retriever.strategies import Eager
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_graph_retriever import GraphRetriever

from peers.langchain import GivenEmbeddings, ids
from peers.protocol import DEPTH, Bench, Passage, main


def metadata(passage: Passage, names: list[str]) -> dict[str, Any]:
    """Return the names of a passage and its title, with and without what stands in brackets, in lower case."""
    title = passage.title.lower()
    titles = list(dict.fromkeys(filter(None, (title, title.partition(" (")[0]))))
    return {"passage": passage.id, "names": list(dict.fromkeys(name.lower() for name in names)), "title": titles}


def runner(bench: Bench, folder: Path) -> None:
    given = bench.given
    embeddings = GivenEmbeddings(given)

    def build() -> InMemoryVectorStore:
        documents = [
            Document(id=p.id, page_content=p.text, metadata=metadata(p, given.entities[p.id])) for p in given.passages
        ]
        return InMemoryVectorStore.from_documents(documents, embeddings)

    store, seconds = bench.build(build)
    store.dump(str(folder / "store.json"))
    strategy = Eager(select_k=DEPTH, start_k=DEPTH // 2, max_depth=1)
    retriever = GraphRetriever(store=store, edges=[("names", "title")], strategy=strategy)
    saved = (folder / "store.json").stat().st_size
    bench.run("Eager, names to titles", ids(retriever), built=seconds, disk_bytes=saved)


if __name__ == "__main__":
    main(runner, "langchain-graph-retriever", "graph-retriever", "langchain-core")
