"""The retriever as a LangChain ``VectorStore``; ``search_type`` and ``search_kwargs`` of both."""

from __future__ import annotations

import json
import math

import pytest
from langchain_classic.chains.query_constructor.schema import AttributeInfo
from langchain_classic.retrievers import ParentDocumentRetriever
from langchain_classic.retrievers.self_query.base import SelfQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.language_models import FakeListChatModel
from langchain_core.stores import InMemoryStore
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests
from langchain_text_splitters import CharacterTextSplitter

from graphrag_core import Chunker
from graphrag_core.errors import InputError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import CountingEmbedder, HashEmbedder
from langchain_graphrag import GraphRAGRetriever, GraphRAGTranslator, GraphRAGVectorStore


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestStandardSuite(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        store = GraphRAGVectorStore.from_texts([], self.get_embeddings())
        yield store
        store.retriever.close()


class TestStandardSuiteInAFolder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        with GraphRAGRetriever.from_texts([], self.get_embeddings(), path=tmp_path / "index") as retriever:
            yield retriever.as_vectorstore()


@pytest.fixture
def store(retriever):
    return retriever.as_vectorstore()


class TestSearch:
    async def test_finds_what_the_retriever_finds_and_returns_documents_as_they_were_added(
        self, store, retriever, documents
    ):
        expected = ids(retriever.invoke(QUESTION, k=3))
        given = {document.id: document for document in documents}
        for found in (
            store.similarity_search(QUESTION, 3),
            await store.asimilarity_search(QUESTION, 3),
            store.search(QUESTION, "similarity", k=3),
            store.as_retriever(search_kwargs={"k": 3}).invoke(QUESTION),
            await store.as_retriever(search_kwargs={"k": 3}).ainvoke(QUESTION),
        ):
            assert ids(found) == expected
            assert found == [given[name] for name in expected]

    async def test_takes_the_settings_of_a_query(self, store, retriever):
        assert ids(store.similarity_search(QUESTION, 9, filter={"tenant": "umbrella"})) == ["secret"]
        for method in ("vector", "keyword", "graph"):
            expected = ids(retriever.invoke(QUESTION, k=4, method=method))
            assert ids(store.similarity_search(QUESTION, method=method)) == expected
            assert ids(await store.asimilarity_search(QUESTION, method=method)) == expected
        with pytest.raises(InputError, match="unknown search setting 'fiter'"):
            store.similarity_search(QUESTION, fiter={"tenant": "umbrella"})

    async def test_keeps_to_the_filter_of_the_retriever(self, retriever):
        mine = GraphRAGRetriever(index=retriever.index, filter={"tenant": "acme"}).as_vectorstore()
        assert "secret" not in ids(mine.similarity_search("Umbrella", 9))
        assert mine.similarity_search("Umbrella", 9, filter={"tenant": "umbrella"}) == []

    async def test_scores_fall_and_relevance_is_from_0_to_1(self, store):
        for method in ("hybrid", "vector", "keyword", "graph"):
            scored = store.similarity_search_with_score(QUESTION, 5, method=method)
            assert scored == await store.asimilarity_search_with_score(QUESTION, 5, method=method)
            scores = [score for _, score in scored]
            assert scores == sorted(scores, reverse=True)
            relevant = store.similarity_search_with_relevance_scores(QUESTION, 5, method=method)
            assert relevant == await store.asimilarity_search_with_relevance_scores(QUESTION, 5, method=method)
            assert ids(one for one, _ in relevant) == ids(one for one, _ in scored)
            assert all(0 <= score <= 1 for _, score in relevant)

    async def test_a_threshold_can_leave_nothing(self, store):
        everything, _ = zip(*store.similarity_search_with_relevance_scores(QUESTION, 5), strict=True)
        middle = store.similarity_search_with_relevance_scores(QUESTION, 5)[1][1]
        kept = store.as_retriever(
            search_type="similarity_score_threshold", search_kwargs={"k": 5, "score_threshold": middle}
        )
        assert ids(kept.invoke(QUESTION)) == ids(await kept.ainvoke(QUESTION)) == ids(everything)[:2]
        none = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 1.1})
        assert none.invoke(QUESTION) == []

    async def test_by_vector_asks_no_model(self, documents):
        embedding = CountingEmbedder()
        with GraphRAGRetriever.from_documents(documents, embedding) as retriever:
            store = retriever.as_vectorstore()
            vector = HashEmbedder().embed_query(documents[2].page_content).tolist()
            expected = ids(retriever.invoke(documents[2].page_content, k=3, method="vector"))
            embedding.queries.clear()
            assert ids(store.similarity_search_by_vector(vector, 3)) == expected
            assert ids(await store.asimilarity_search_by_vector(vector, 3)) == expected
            assert ids(one for one, _ in store.similarity_search_with_score_by_vector(vector, 3)) == expected
            assert ids(store.max_marginal_relevance_search_by_vector(vector, 3, lambda_mult=1)) == expected
            assert ids(await store.amax_marginal_relevance_search_by_vector(vector, 3, lambda_mult=1)) == expected
            assert embedding.queries == []

    async def test_embeds_the_question_on_the_event_loop_if_the_model_can(self, documents):
        class Hosted(HashEmbedder):
            awaited = 0

            async def aembed_query(self, text):
                self.awaited += 1
                return HashEmbedder.embed_query(self, text)

            def embed_query(self, text):
                raise AssertionError("called from a thread")

        embedding = Hosted()
        with GraphRAGRetriever.from_documents(documents, embedding, embed_facts=False, embed_names=False) as retriever:
            assert await retriever.as_vectorstore().asimilarity_search(QUESTION, 2)
            assert await retriever.as_vectorstore().amax_marginal_relevance_search(QUESTION, 2)
            assert embedding.awaited == 2


class TestDiversity:
    """Two passages say the same in other words, a third is about something else."""

    TEXTS = (
        "The Auth Service issues access tokens to clients every day.",
        "The Auth Service issues access tokens to clients each day.",
        "Clients of the Auth Service live in Tallinn.",
    )

    @pytest.fixture
    def similar(self):
        embedding = CountingEmbedder()
        with GraphRAGRetriever.from_texts(self.TEXTS, embedding, ids=["a", "b", "c"]) as retriever:
            embedding.texts.clear()
            yield retriever
            assert embedding.texts == []

    async def test_leaves_out_what_has_been_said(self, similar):
        question = "Which access tokens does the Auth Service issue to clients?"
        plain = ids(similar.invoke(question, k=2, method="vector"))
        assert sorted(plain) == ["a", "b"]
        store = similar.as_vectorstore()
        diverse = {"method": "vector", "lambda_mult": 0.3}
        for found in (
            store.max_marginal_relevance_search(question, 2, **diverse),
            await store.amax_marginal_relevance_search(question, 2, **diverse),
            store.as_retriever(search_type="mmr", search_kwargs={"k": 2, **diverse}).invoke(question),
            similar.invoke(question, k=2, search_type="mmr", **diverse),
            await similar.ainvoke(question, k=2, search_type="mmr", **diverse),
        ):
            assert ids(found) == [plain[0], "c"]
        assert ids(store.max_marginal_relevance_search(question, 2, method="vector", lambda_mult=1)) == plain
        assert ids(store.max_marginal_relevance_search(question, 2, fetch_k=2, **diverse)) == plain

    def test_is_computed_as_the_formula_says(self, similar):
        """lambda * relevance - (1 - lambda) * the highest similarity to a chosen one, worked out with other code."""
        question, weight = "Auth Service tokens", 0.4
        vectors = dict(zip("abc", HashEmbedder().embed_documents(list(self.TEXTS)), strict=True))
        odds = {hit.chunk.id: math.log(hit.score / (1 - hit.score)) for hit in similar.search(question, k=3)}
        least, most = min(odds.values()), max(odds.values())
        scores = {name: (one - least) / (most - least) for name, one in odds.items()}
        chosen = [max(scores, key=scores.get)]
        while len(chosen) < 3:
            marginal = {
                name: weight * scores[name] - (1 - weight) * max(float(vectors[name] @ vectors[one]) for one in chosen)
                for name in scores.keys() - set(chosen)
            }
            chosen.append(max(marginal, key=marginal.get))
        found = similar.search(question, k=3, search_type="mmr", lambda_mult=weight)
        assert [hit.chunk.id for hit in found] == chosen

    def test_works_without_vectors_and_on_nothing(self):
        with GraphRAGRetriever.from_texts(["Keyring.", "OAuth and Keyring."], None, ids=["a", "b"]) as retriever:
            assert len(retriever.invoke("Keyring", search_type="mmr", k=2)) == 2
        with GraphRAGRetriever.from_texts([], HashEmbedder()) as retriever:
            assert retriever.invoke("Keyring", search_type="mmr") == []


class Hosted(Embeddings):
    """An embedding model with coroutines, which keeps the questions that it embedded."""

    def __init__(self):
        self.questions = []

    def embed_documents(self, texts):
        return HashEmbedder().embed_documents(texts).tolist()

    def embed_query(self, text):
        self.questions.append(text)
        return HashEmbedder().embed_query(text).tolist()

    async def aembed_query(self, text):
        return self.embed_query(text)


async def test_async_searches_embed_no_question_that_needs_no_vector():
    model = Hosted()
    with GraphRAGRetriever.from_texts(["Keyring."], model) as retriever:
        store = retriever.as_vectorstore()
        assert await store.asimilarity_search("  ") == []
        by_keyword = retriever.model_copy(update={"search_kwargs": {"method": "keyword"}}).as_vectorstore()
        assert len(await by_keyword.asimilarity_search("Keyring")) == 1
        assert model.questions == []
        assert len(await store.asimilarity_search("Keyring", method="vector")) == 1
        assert model.questions == ["Keyring"]


class TestSearchSettings:
    async def test_hold_for_every_call_which_may_override_them(self, retriever):
        mine = GraphRAGRetriever(index=retriever.index, search_kwargs={"k": 2, "method": "keyword"})
        assert mine.search_kwargs == {"k": 2, "method": "keyword"}
        found = mine.invoke(QUESTION)
        assert (len(found), mine.search(QUESTION).method) == (2, "keyword")
        assert ids(await mine.ainvoke(QUESTION)) == ids(found)
        assert len(mine.invoke(QUESTION, k=1)) == 1
        assert mine.search(QUESTION, method="vector").method == "vector"

    def test_can_be_changed_later(self, retriever):
        retriever.search_kwargs["k"] = 2
        assert len(retriever.invoke(QUESTION)) == 2
        retriever.search_kwargs["top_k"] = 3
        with pytest.raises(InputError, match="unknown search setting 'top_k'"):
            retriever.invoke(QUESTION)

    def test_filters_narrow(self, retriever):
        mine = GraphRAGRetriever(
            index=retriever.index, filter={"tenant": "acme"}, search_kwargs={"k": 9, "filter": {"year": 2023}}
        )
        assert set(ids(mine.invoke("Umbrella"))) == {"keyring", "lunch"}
        assert mine.invoke("Umbrella", filter={"tenant": "umbrella"}) == []

    def test_a_filter_is_used_twice(self, retriever):
        mine = GraphRAGRetriever(
            index=retriever.index, filter={"tenant": "acme"}, search_kwargs={"filter": {"year": {"in": iter([2023])}}}
        )
        assert ids(mine.invoke("Umbrella")) == ids(mine.invoke("Umbrella", count_access=False)) != []

    def test_a_threshold_leaves_out_what_is_not_similar(self, retriever):
        similar = [
            hit.chunk.id
            for hit in retriever.search(QUESTION, k=5, method="vector")
            if hit.channels["vector"].score >= 0.3
        ]
        assert 0 < len(similar) < 5
        mine = GraphRAGRetriever(
            index=retriever.index,
            method="vector",
            search_type="similarity_score_threshold",
            search_kwargs={"score_threshold": 0.3},
        )
        assert ids(mine.invoke(QUESTION)) == similar
        assert ids(retriever.invoke(QUESTION, method="vector", score_threshold=0.3)) == similar

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"search_kwargs": {"top_k": 3}}, "unknown search setting 'top_k'"),
            ({"search_type": "fuzzy"}, "unknown search_type 'fuzzy'"),
            ({"search_type": "similarity_score_threshold"}, "needs search_kwargs={'score_threshold'"),
            ({"search_type": "mmr", "search_kwargs": {"lambda_mult": 2}}, "lambda_mult is 2"),
        ],
    )  # fmt: skip
    def test_that_cannot_be_used_are_told_at_once(self, retriever, settings, problem):
        with pytest.raises(ValueError, match=problem):
            GraphRAGRetriever(index=retriever.index, **settings)

    def test_are_taken_by_every_constructor(self, documents):
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), search_kwargs={"k": 1}) as retriever:
            assert len(retriever.invoke(QUESTION)) == 1


class TestDocuments:
    async def test_are_added_fetched_and_deleted(self, tmp_path):
        store = await GraphRAGVectorStore.afrom_texts(
            ["Keyring."], HashEmbedder(), [{"a": 1}], ids=["x"], path=tmp_path
        )
        with store.retriever:
            assert store.get_by_ids(["x", "nobody"]) == [Document(id="x", page_content="Keyring.", metadata={"a": 1})]
            assert await store.aadd_texts(["OAuth."], ids=["y"]) == ["y"]
            assert store.add_texts(["Auth."], [{"b": 2}], ids=["z"]) == ["z"]
            assert ids(await store.aget_by_ids(["z", "y"])) == ["z", "y"]
            assert await store.adelete(["x"])
            assert store.delete(["y"])
            assert ids(store.similarity_search("Auth")) == ["z"]
            with pytest.raises(InputError, match="pass the ids"):
                store.delete()
        other = GraphRAGVectorStore(GraphRAGRetriever.load(tmp_path, HashEmbedder()))
        with other.retriever:
            assert ids(other.get_by_ids(["z"])) == ["z"]

    def test_of_ones_own_vectors_are_not_embedded(self):
        embedding = CountingEmbedder()
        store = GraphRAGVectorStore.from_texts([], embedding, embed_facts=False, embed_names=False)
        with store.retriever:
            store.add_documents([Document(page_content="Keyring.")], ids=["a"], embeddings=[[1.0] * 64])
            store.add_texts(["OAuth."], embeddings=[[0.5] * 64])
            assert embedding.texts == []
            assert store.embeddings is embedding

    def test_that_are_split_are_fetched_whole_or_by_passage(self):
        text = "Keyring is a company. " * 200
        chunker = Chunker(max_tokens=64, overlap=0, whole_until=64)
        store = GraphRAGVectorStore.from_texts([text], HashEmbedder(), ids=["long"], chunker=chunker)
        with store.retriever:
            first = store.similarity_search("Keyring", 1)[0]
            assert first.id.startswith("long#")
            assert store.get_by_ids([first.id]) == [first]
            assert store.get_by_ids(["long"])[0].page_content == text
            assert store.get_by_ids(["long#999", "other#0"]) == []

    def test_from_documents_keep_their_ids(self, documents):
        store = GraphRAGVectorStore.from_documents(documents, HashEmbedder())
        with store.retriever:
            assert sorted(store.retriever.index.document_ids()) == sorted(ids(documents))

    def test_are_synced_by_the_indexing_api(self, store, documents):
        records = InMemoryRecordManager("here")
        records.create_schema()
        store.delete(ids(documents))
        settings = {"cleanup": "full", "key_encoder": "sha256"}
        assert index(documents, records, store, **settings)["num_added"] == 5
        assert index(documents[:2], records, store, **settings)["num_deleted"] == 3
        assert len(store.retriever.index) == 2


class TestParentDocuments:
    async def test_are_found_by_their_children(self):
        text = "The Auth Service delegates to the OAuth Provider.\n\nThe OAuth Provider is run by Keyring."
        others = [f"Menu {number}.\n\nSoup number {number}." for number in range(5)]
        store = GraphRAGVectorStore.from_texts([], HashEmbedder())
        with store.retriever:
            parents = ParentDocumentRetriever(
                vectorstore=store,
                docstore=InMemoryStore(),
                child_splitter=CharacterTextSplitter(separator="\n\n", chunk_size=60, chunk_overlap=0),
                search_kwargs={"k": 1},
            )
            parents.add_documents([Document(page_content=one) for one in (text, *others)])
            assert len(store.retriever.index) == 7
            assert [one.page_content for one in parents.invoke("Who runs the OAuth Provider?")] == [text]
            assert [one.page_content for one in await parents.ainvoke("Who runs the OAuth Provider?")] == [text]
            parents.search_type = "mmr"
            assert text in [one.page_content for one in parents.invoke("Who runs the OAuth Provider?")]


class TestSelfQuery:
    FIELDS = (
        AttributeInfo(name="tenant", description="The customer", type="string"),
        AttributeInfo(name="year", description="The year", type="integer"),
    )

    def asked(self, store, query: str, condition: str, **settings) -> SelfQueryRetriever:
        pytest.importorskip("lark")
        said = f"```json\n{json.dumps({'query': query, 'filter': condition, **settings})}\n```"
        return SelfQueryRetriever.from_llm(
            FakeListChatModel(responses=[said] * 2),
            store,
            "Services of a company",
            list(self.FIELDS),
            structured_query_translator=GraphRAGTranslator(),
            enable_limit=True,
            search_kwargs={"k": 9},
        )

    async def test_searches_with_the_filter_that_the_model_writes(self, store):
        condition = 'and(eq("tenant", "acme"), not(lt("year", 2023)))'
        mine = self.asked(store, "Keyring", condition)
        expected = ids(store.similarity_search("Keyring", 9, filter={"tenant": "acme", "year": {"gte": 2023}}))
        assert sorted(expected) == ["keyring", "lunch"]
        assert ids(mine.invoke("What does acme have since 2023?")) == expected
        assert ids(await mine.ainvoke("What does acme have since 2023?")) == expected
        assert len(self.asked(store, "Keyring", "NO_FILTER", limit=1).invoke("One about Keyring")) == 1

    @pytest.mark.parametrize(
        ("comparator", "value", "expected"),
        [
            (Comparator.EQ, "a", {"x": {"eq": "a"}}),
            (Comparator.IN, ["a", "b"], {"x": {"in": ["a", "b"]}}),
            (Comparator.NIN, "a", {"x": {"nin": ["a"]}}),
            (Comparator.CONTAIN, "a", {"x": {"eq": "a"}}),
            (Comparator.GTE, {"date": "2024-05-01", "type": "date"}, {"x": {"gte": "2024-05-01"}}),
        ],
    )
    def test_translates_comparisons(self, comparator, value, expected):
        assert GraphRAGTranslator().visit_comparison(Comparison(comparator, "x", value)) == expected

    def test_translates_operations(self):
        one, two = (Comparison(Comparator.EQ, name, 1) for name in "ab")
        either = Operation(Operator.OR, [one, Operation(Operator.NOT, [two])])
        query = StructuredQuery("q", either)
        expected = {"or": [{"a": {"eq": 1}}, {"not": {"b": {"eq": 1}}}]}
        assert GraphRAGTranslator().visit_structured_query(query) == ("q", {"filter": expected})
        assert GraphRAGTranslator().visit_structured_query(StructuredQuery("q", None)) == ("q", {})
        with pytest.raises(ValueError, match="disallowed comparator"):
            GraphRAGTranslator().visit_comparison(Comparison(Comparator.LIKE, "x", "a%"))


def test_a_fake_model_has_no_meaning_but_every_document_is_found():
    store = GraphRAGVectorStore.from_texts(["foo", "bar"], DeterministicFakeEmbedding(size=6))
    with store.retriever:
        assert len(store.similarity_search("baz", 2)) == 2


def test_a_search_of_the_store_returns_the_passages_around_a_hit():
    pieces = [
        Document(text, id=str(n), metadata={"source": "x.txt", "start_index": 100 * n})
        for n, text in enumerate(("Alpha is first.", "Bravo is second.", "Carol is third."))
    ]
    store = GraphRAGVectorStore.from_documents(pieces, HashEmbedder())
    ((found, score),) = store.similarity_search_with_score("Bravo second", k=1, expand="neighbours")
    assert (found.id, found.page_content) == ("1", "Alpha is first.\n\nBravo is second.\n\nCarol is third.")
    assert score == store.similarity_search_with_score("Bravo second", k=1)[0][1]
    assert {one.page_content for one in store.similarity_search("second", k=3)} == {one.page_content for one in pieces}
