"""``GraphContextTransformer``: adds what the graph knows to documents, for any chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import BaseDocumentTransformer, Document
from pydantic import BaseModel, ConfigDict
from typing_extensions import override

from graphrag_core.context.notes import graph_notes
from langchain_graphrag.retriever import GraphRAGRetriever


class GraphContextTransformer(BaseModel, BaseDocumentTransformer):
    """Adds the facts and paths that lead to retrieved documents to their text, within a token budget.

    For chains that put ``page_content`` into a prompt, such as ``create_stuff_documents_chain``, and for a
    ``DocumentCompressorPipeline``. It can be called, so it works in a pipe: ``retriever | GraphContextTransformer()``,
    with ``add_metadata=["graphrag"]`` for the retriever. Every fact is added once, to the first document that has it.
    Documents are copied, not changed.

    Parameters
    ----------
    max_tokens
        The budget of all additions together.
    retriever
        Looks up facts for documents without ``metadata["graphrag"]``: those that join two names which the documents
        mention, within the retriever's filter. Without it such documents are returned as they are.
    tokenizer
        As for :meth:`graphrag_core.Result.context`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    max_tokens: int = 300
    retriever: GraphRAGRetriever | None = None
    tokenizer: Any = None

    @override
    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        passages = [(document.page_content, document.metadata.get("graphrag")) for document in documents]
        about = None if self.retriever is None else self.retriever.facts_about
        notes = graph_notes(passages, max_tokens=self.max_tokens, tokenizer=self.tokenizer, facts_about=about)
        return [
            document.model_copy(update={"page_content": f"{document.page_content}\n\n{note}"}) if note else document
            for document, note in zip(documents, notes, strict=True)
        ]

    def __call__(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents with what the graph knows."""
        return self.transform_documents(documents)
