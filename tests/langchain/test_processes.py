"""What pickles and copies of a LangChain retriever keep."""

from __future__ import annotations

import pickle

from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

DOCUMENTS = [
    Document("The Auth Service delegates logins to the OAuth Provider.", id="auth", metadata={"team": "a"}),
    Document("The OAuth Provider is run by Mara Lindqvist.", id="oauth", metadata={"team": "b"}),
]
QUESTION = "Who runs the OAuth Provider?"


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def test_a_pickled_retriever_keeps_what_langchain_adds(tmp_path):
    settings = {"filter": {"team": "b"}, "tags": ["mine"], "refresh_every": 5}
    with GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder(), path=tmp_path / "kb", **settings) as retriever:
        with pickle.loads(pickle.dumps(retriever)) as copied:
            assert (copied.filter, copied.tags, copied.refresh_every) == (retriever.filter, ["mine"], 5)
        with pickle.loads(pickle.dumps(retriever | len)).first as in_a_chain:
            assert ids(in_a_chain.invoke(QUESTION)) == ["oauth"]


def test_a_deep_model_copy_opens_the_folder(tmp_path):
    with (
        GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder(), path=tmp_path / "kb") as retriever,
        retriever.model_copy(deep=True) as copied,
    ):
        assert copied.index is not retriever.index
        assert copied.invoke(QUESTION) == retriever.invoke(QUESTION)
