"""LangChain ``EnsembleRetriever`` over ``BM25Retriever`` and the FAISS store.

Its documentation: "The most common pattern is to combine a sparse retriever (like BM25) with a dense retriever (like
embedding similarity), because their strengths are complementary", with ``weights=[0.5, 0.5]``. ``BM25Retriever``
splits at white space by default; lower-case words, which find more, are its ``preprocess_func``. ``k`` is 10 for both
retrievers. Documents are told apart by ``id_key``, not by their text.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document

from peers.langchain import GivenEmbeddings, ids
from peers.protocol import DEPTH, Bench, main, size_of


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def runner(bench: Bench, folder: Path) -> None:
    embeddings = GivenEmbeddings(bench.given)
    passages = bench.given.passages

    def documents() -> list[Document]:
        return [Document(id=p.id, page_content=p.text, metadata={"passage": p.id}) for p in passages]

    store, store_seconds = bench.build(lambda: FAISS.from_documents(documents(), embeddings))
    store.save_local(str(folder))
    build = partial(BM25Retriever.from_documents, documents(), k=DEPTH, preprocess_func=words)
    keywords, seconds = bench.build(build)
    retriever = EnsembleRetriever(
        retrievers=[store.as_retriever(search_kwargs={"k": DEPTH}), keywords],
        weights=[0.5, 0.5], id_key="passage",
    )  # fmt: skip
    note = "disk: the FAISS store; BM25Retriever cannot be saved"
    built = store_seconds + seconds
    bench.run("EnsembleRetriever, lower-case words", ids(retriever), built=built, disk_bytes=size_of(folder), note=note)


if __name__ == "__main__":
    main(runner, "langchain-classic", "langchain-community", "langchain-core", "rank-bm25")
