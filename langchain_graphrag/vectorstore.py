"""``GraphRAGVectorStore``: a retriever as a LangChain ``VectorStore``, and its filters for self-querying."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery, Visitor
from langchain_core.vectorstores import VectorStore
from typing_extensions import Self, override

from graphrag_core.adapter import returned_hits
from graphrag_core.filters import parse
from graphrag_core.ports import Embedder
from langchain_graphrag.documents import to_document
from langchain_graphrag.models import embeddings_of
from langchain_graphrag.retriever import GraphRAGRetriever

_BY_VECTOR = "the vector"  # stands in for the question of a search by vector
_Scored = list[tuple[Document, float]]


class GraphRAGVectorStore(VectorStore):
    """A vector store whose searches use vectors, keywords and the knowledge graph.

    For what takes a ``VectorStore``: ``ParentDocumentRetriever``, ``SelfQueryRetriever`` (with
    :class:`GraphRAGTranslator`), the indexing API. In a chain, use the retriever itself: its documents say why they
    were found. Create one with ``retriever.as_vectorstore()``, :meth:`from_texts` or :meth:`from_documents`.

    Every search takes the settings of the retriever's ``invoke``; ``method="vector"`` gives plain vector search.
    Relevance scores are the scores of the hits, limited to the range from 0 to 1.

    If the retriever has a ``chunker``, a search returns passages with the ids ``"<document id>#<number>"``.
    :meth:`get_by_ids` takes both kinds of ids, :meth:`delete` ids of documents.
    """

    def __init__(self, retriever: GraphRAGRetriever) -> None:
        self.retriever = retriever

    @classmethod
    @override
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder | None,
        metadatas: Any = None,
        *,
        ids: Any = None,
        **settings: Any,
    ) -> Self:
        """Index texts without splitting them; ``settings`` as for :meth:`GraphRAGRetriever.from_documents`."""
        settings = {"chunker": None, **settings}
        return cls(GraphRAGRetriever.from_texts(texts, embedding, metadatas, ids, **settings))

    @classmethod
    @override
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder | None,
        metadatas: Any = None,
        *,
        ids: Any = None,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_texts`."""
        settings = {"chunker": None, **settings}
        return cls(await GraphRAGRetriever.afrom_texts(texts, embedding, metadatas, ids, **settings))

    @property
    @override
    def embeddings(self) -> Any:
        """The embedding model; None if the index has no vectors."""
        return embeddings_of(self.retriever.index)

    # -- documents

    @override
    def add_texts(self, texts: Iterable[str], metadatas: Any = None, *, ids: Any = None, **kwargs: Any) -> list[str]:
        """Add texts and return their ids; see :meth:`GraphRAGRetriever.add_texts`."""
        return self.retriever.add_texts(texts, metadatas, ids, kwargs.get("embeddings"))

    @override
    async def aadd_texts(
        self, texts: Iterable[str], metadatas: Any = None, *, ids: Any = None, **kwargs: Any
    ) -> list[str]:
        """Async version of :meth:`add_texts`."""
        return await self.retriever.aadd_texts(texts, metadatas, ids, kwargs.get("embeddings"))

    @override
    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Add documents and return their ids; see :meth:`GraphRAGRetriever.add_documents`."""
        return self.retriever.add_documents(documents, ids=kwargs.get("ids"), embeddings=kwargs.get("embeddings"))

    @override
    async def aadd_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Async version of :meth:`add_documents`."""
        given = {"ids": kwargs.get("ids"), "embeddings": kwargs.get("embeddings")}
        return await self.retriever.aadd_documents(documents, **given)

    @override
    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents with their entities and facts; unknown ids are ignored."""
        self.retriever.delete(ids)
        return True

    @override
    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents as they were added, and passages; ids outside of the retriever's filter are ignored."""
        found = []
        for name in dict.fromkeys(ids):
            if documents := self.retriever.get([name]):
                found += documents
            elif self.retriever._in_scope([document_id := name.rpartition("#")[0]]):  # noqa: SLF001 - of this package
                chunks = self.retriever.index.chunks(document_id)
                found += [to_document(chunk) for chunk in chunks if chunk.id == name]
        return found

    @override
    def as_retriever(self, **kwargs: Any) -> Any:
        """Return LangChain's retriever of this store; a filter in ``search_kwargs`` is read once, now."""
        search_kwargs = kwargs.get("search_kwargs") or {}
        if search_kwargs.get("filter") is not None:
            kwargs["search_kwargs"] = {**search_kwargs, "filter": parse(search_kwargs["filter"])}
        return super().as_retriever(**kwargs)

    # -- searches

    @override
    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> _Scored:
        """Return the best documents for a question with their scores, higher is better."""
        result = self.retriever.search(query, **{"search_type": "similarity", "k": k, **kwargs})
        return [(to_document(hit.chunk), hit.score) for hit in returned_hits(result)]

    @override
    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> _Scored:
        """Async version of :meth:`similarity_search_with_score`; awaits the embedding model if it has a coroutine."""
        result = await self.retriever.asearch(query, **{"search_type": "similarity", "k": k, **kwargs})
        return [(to_document(hit.chunk), hit.score) for hit in returned_hits(result)]

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the best documents for a question, as they were added."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    @override
    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Async version of :meth:`similarity_search`."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, **kwargs)]

    @override
    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> _Scored:
        """Return the documents nearest to a vector with their scores."""
        kwargs |= {"embedding": embedding, "method": "vector"}
        return self.similarity_search_with_score(_BY_VECTOR, k, **kwargs)

    @override
    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return ``k`` of ``fetch_k`` documents that are relevant and differ from each other.

        ``lambda_mult`` is from 0 for the most diverse to 1 for the most relevant documents.
        """
        kwargs |= {"search_type": "mmr", "fetch_k": fetch_k, "lambda_mult": lambda_mult}
        return self.similarity_search(query, k, **kwargs)

    @override
    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Async version of :meth:`max_marginal_relevance_search`."""
        kwargs |= {"search_type": "mmr", "fetch_k": fetch_k, "lambda_mult": lambda_mult}
        return await self.asimilarity_search(query, k, **kwargs)

    @override
    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near to a vector and differ from each other."""
        kwargs |= {"method": "vector", "embedding": embedding}
        return self.max_marginal_relevance_search(_BY_VECTOR, k, fetch_k, lambda_mult, **kwargs)

    @override
    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: min(max(score, 0.0), 1.0)  # a keyword score or a reranker's may be outside


class GraphRAGTranslator(Visitor):
    """Translates the filters of LangChain's ``SelfQueryRetriever``.

    ``contain`` is true if a list contains the value, or if the value is equal. ``like`` is not available.

    Examples
    --------
    >>> filter = Operation(Operator.NOT, [Comparison(Comparator.LT, "year", 2020)])
    >>> GraphRAGTranslator().visit_structured_query(StructuredQuery("outages", filter, limit=3))
    ('outages', {'filter': {'not': {'year': {'lt': 2020}}}})
    """

    allowed_operators = (Operator.AND, Operator.OR, Operator.NOT)
    allowed_comparators = tuple(comparator for comparator in Comparator if comparator is not Comparator.LIKE)

    @override
    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        self._validate_func(operation.operator)
        parts = [part.accept(self) for part in operation.arguments]
        if operation.operator is Operator.NOT:
            return {"not": parts[0] if len(parts) == 1 else {"and": parts}}
        return {operation.operator.value: parts}

    @override
    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        self._validate_func(comparison.comparator)
        operator = "eq" if comparison.comparator is Comparator.CONTAIN else comparison.comparator.value
        value = comparison.value
        if isinstance(value, Mapping) and "date" in value:  # a date in the query language: {"date": ..., "type": ...}
            value = value["date"]
        if operator in ("in", "nin") and not isinstance(value, (list, tuple)):
            value = [value]
        return {comparison.attribute: {operator: value}}

    @override
    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        if structured_query.filter is None:
            return structured_query.query, {}
        return structured_query.query, {"filter": structured_query.filter.accept(self)}
