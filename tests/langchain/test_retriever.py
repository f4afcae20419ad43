"""Documents come back as they were added; results are those of the core."""

from __future__ import annotations

import json

import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.runnables import ConfigurableField, ConfigurableFieldSingleOption
from langchain_core.stores import InMemoryByteStore

import graphrag_core
from graphrag_core import Chunker, GraphRetriever, KnowledgeIndex, SearchSettings
from graphrag_core.errors import (
    DocumentError,
    EmbedderMismatch,
    FilterError,
    IndexLocked,
    InputError,
    NotAnIndex,
    ReadOnlyIndex,
)
from graphrag_core.query.explanation import Explainer
from graphrag_core.strategies import Anchored, Gate, Linear, PageRank, ReciprocalRank, SpreadingActivation, Weighted
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import CountingEmbedder, HashEmbedder
from langchain_graphrag import GraphRAGRetriever


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestDocuments:
    def test_come_back_with_their_id_text_and_metadata(self, retriever, documents):
        for found in retriever.invoke(QUESTION, k=5):
            (given,) = [document for document in documents if document.id == found.id]
            assert found == given

    def test_keep_every_kind_of_json_value(self):
        metadata = {"list": [1, "a", None, {"deep": [True]}], "number": 1.5, "no": None, "東京": "日本"}
        with GraphRAGRetriever.from_texts(["Keyring."], HashEmbedder(), [metadata]) as retriever:
            (found,) = retriever.invoke("Keyring")
            assert {key: found.metadata[key] for key in metadata} == metadata

    def test_are_the_callers_own(self, documents):
        documents[0].metadata["tags"] = ["a"]
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), add_metadata=["graphrag"]) as retriever:
            assert documents[0].metadata.keys() == {"tenant", "year", "title", "tags"}
            first = retriever.invoke(QUESTION)[0]
            first.metadata["tags"].append("changed")
            first.metadata["graphrag"]["path"].clear()
            again = retriever.invoke(QUESTION)[0]
            assert again.metadata["tags"] == ["a"]
            assert again.metadata["graphrag"]["path"]

    def test_with_metadata_that_is_not_json_are_refused_by_name(self, retriever):
        with pytest.raises(DocumentError, match="'x': the metadata cannot be stored: 'when' is <object"):
            retriever.add_documents([Document(id="x", page_content="Text.", metadata={"when": object()})])
        with pytest.raises(DocumentError, match="the metadata cannot be stored: 'when' is <object"):
            retriever.add_documents([Document(page_content="Text.", metadata={"when": object()})])

    def test_say_why_they_were_found_in_plain_data(self, retriever):
        detailed = retriever.model_copy(update={"add_metadata": ["score", "graphrag"]})
        found = detailed.invoke(QUESTION, k=5)
        scores = [document.metadata["score"] for document in found]
        assert scores == sorted(scores, reverse=True)
        details = {document.id: document.metadata["graphrag"] for document in found}
        assert json.loads(json.dumps(details)) == details
        assert details["keyring"]["entities"] == ["Auth Service"]
        assert details["keyring"]["method"] == "hybrid"
        assert details["keyring"]["document_id"] == "keyring"
        assert [step["text"] for step in details["oauth"]["path"]][1::2] == ["Auth Service", "OAuth Provider"]
        assert details["auth"]["channels"]["vector"].keys() == {"rank", "score"}
        skipped = detailed.invoke(QUESTION, use_graph=False)[0].metadata["graphrag"]
        assert skipped["expansion_skipped"] == "the graph was not used"

    def test_have_what_is_asked_for_beside_their_own(self):
        text = "# Workers\n\n## Pools\n\n" + "A pool forks its workers. " * 150
        own = {"page": 0, "score": "mine"}
        with GraphRAGRetriever.from_texts([text], HashEmbedder(), [own], ["long"], k=2) as retriever:
            first = retriever.invoke("pool")[0]
            assert type(first.metadata) is dict
            assert first.metadata == {**own, "section": "Pools", "document_id": "long"}
            assert retriever.model_copy(update={"add_metadata": []}).invoke("pool")[0].metadata == {
                **own, "document_id": "long",
            }  # fmt: skip
            asked = retriever.model_copy(update={"add_metadata": ("channels", "path", "score")}).invoke("pool")[0]
            assert asked.metadata.keys() == {"page", "score", "document_id", "channels", "path"}
            assert asked.metadata["score"] == "mine"
        with GraphRAGRetriever.from_texts(["Keyring."], HashEmbedder(), ids=["x"], add_metadata=["document_id"]) as one:
            assert one.invoke("Keyring")[0].metadata == {"document_id": "x"}

    @pytest.mark.parametrize(
        ("names", "problem"),
        [(["scor"], "add_metadata has 'scor': did you mean 'score'"), (["colour"], "use section, page"),
         ("score", "use a list of names")],
    )  # fmt: skip
    def test_are_not_given_what_does_not_exist(self, retriever, names, problem):
        with pytest.raises(InputError, match=problem):
            GraphRAGRetriever(index=retriever.index, add_metadata=names)

    async def test_are_explained_only_if_that_is_asked_for(self, retriever, monkeypatch):
        explained = []
        explain = Explainer.explain
        monkeypatch.setattr(Explainer, "explain", lambda *args: explained.append(1) or explain(*args))
        quiet = retriever.model_copy(update={"add_metadata": ["section", "score", "channels"], "cache": None})
        quiet.invoke(QUESTION)
        await quiet.ainvoke(QUESTION)
        result = quiet.search(QUESTION)
        assert not explained
        assert result.hits[1].path
        assert explained

    def test_found_and_added_again_are_unchanged(self, retriever, documents):
        found = retriever.invoke(QUESTION, k=5)
        generation = retriever.index.stats().generation
        retriever.add_documents(found)
        assert retriever.index.stats().generation == generation
        assert sorted(retriever.get(ids(documents)), key=lambda d: d.id) == sorted(documents, key=lambda d: d.id)

    def test_without_id_have_the_same_one_every_time(self):
        documents = [Document(page_content="Keyring."), Document(page_content="Keyring.", metadata={"a": 1})]
        with GraphRAGRetriever.from_documents([], HashEmbedder()) as retriever:
            first = retriever.add_documents(documents)
            assert len(set(first)) == 2
            assert retriever.add_documents([*documents, documents[0]]) == first
            assert len(retriever.index) == 2
            retriever.add_documents(retriever.invoke("Keyring"))
            assert len(retriever.index) == 2

    def test_that_share_an_id_are_refused(self, retriever):
        with pytest.raises(DocumentError, match="'a': this id occurs twice"):
            retriever.add_documents([Document(id="a", page_content=text) for text in ("One.", "Two.")])
        assert "a" not in retriever.index

    def test_are_langchains(self, retriever):
        with pytest.raises(InputError, match="expected a LangChain Document, got str"):
            retriever.add_documents(["text"])

    def test_that_are_long_are_split_unless_told_otherwise(self):
        text = "Keyring is a company. " * 200
        with GraphRAGRetriever.from_texts([text], HashEmbedder(), ids=["long"], chunker=None) as retriever:
            assert ids(retriever.invoke("Keyring")) == ["long"]
        with GraphRAGRetriever.from_texts([text], HashEmbedder(), ids=["long"]) as retriever:
            assert [chunk.id for chunk in retriever.index.chunks("long")][:2] == ["long#0", "long#1"]
        chunker = Chunker(max_tokens=64, overlap=0, whole_until=64)
        with GraphRAGRetriever.from_texts([text], HashEmbedder(), ids=["long"], chunker=chunker) as retriever:
            found = retriever.invoke("Keyring", k=3)
            assert all(document.id.startswith("long#") for document in found)
            assert {document.metadata["document_id"] for document in found} == {"long"}
            assert retriever.get(["long"])[0].page_content == text
            assert retriever.delete(["long"])["num_deleted"] == 1
            assert retriever.invoke("Keyring") == []

    def test_and_their_metadata_come_in_equal_numbers(self):
        with pytest.raises(InputError, match="got 2 texts, 1 metadatas and 2 ids"):
            GraphRAGRetriever.from_texts(["a", "b"], HashEmbedder(), [{}])

    def test_replaced_and_deleted_are_gone(self, retriever):
        retriever.add_documents([Document(id="keyring", page_content="Keyring moved to Riga.")])
        assert "Tallinn" not in str(retriever.invoke(QUESTION, k=5))
        outcome = retriever.delete(["keyring", "nobody", "keyring"])
        assert (outcome["num_deleted"], outcome["succeeded"]) == (1, ["keyring"])
        assert "keyring" not in ids(retriever.invoke(QUESTION, k=5))
        assert retriever.delete("lunch")["num_deleted"] == 1
        assert retriever.index.verify()


class TestCalls:
    @pytest.mark.parametrize(
        ("asked", "where"),
        [
            ({}, None), ({"k": 2}, None), ({"method": "vector"}, None), ({"method": "keyword"}, None),
            ({"method": "graph"}, None), ({"method": "agentic"}, None), ({"use_graph": False}, None),
            ({"gate.min_graph_score": 0.9}, None), ({"filter": {"tenant": "acme"}}, {"tenant": "acme"}),
            ({"k": 3, "filter": {"year": {"$gte": 2020}}}, {"year": {"gte": 2020}}),
        ],
    )  # fmt: skip
    async def test_answer_as_the_core_does(self, retriever, asked, where):
        core = GraphRetriever(retriever.index, cache=None)
        settings = {key: value for key, value in asked.items() if key != "filter"}
        expected = core.retrieve(QUESTION, where=where, **settings)
        answers = [
            retriever.invoke(QUESTION, **asked),
            await retriever.ainvoke(QUESTION, **asked),
            *retriever.batch([QUESTION, QUESTION], **asked),
            *await retriever.abatch([QUESTION, QUESTION], **asked),
        ]
        for answer in answers:
            assert ids(answer) == [hit.chunk.id for hit in expected.hits]
        for result in (retriever.search(QUESTION, **asked), await retriever.asearch(QUESTION, **asked)):
            assert [(hit.chunk.id, hit.score) for hit in result] == [(hit.chunk.id, hit.score) for hit in expected]
            assert result.method == expected.method
            assert result.explain()

    async def test_with_unknown_settings_are_refused(self, retriever):
        with pytest.raises(InputError, match="unknown search setting 'top_k': did you mean 'k'"):
            retriever.invoke(QUESTION, top_k=3)
        with pytest.raises(InputError, match="top_k"):
            await retriever.ainvoke(QUESTION, top_k=3)
        with pytest.raises(InputError, match="unknown method 'magic'"):
            retriever.invoke(QUESTION, method="magic")
        with pytest.raises(FilterError, match="unknown operator"):
            await retriever.ainvoke(QUESTION, filter={"year": {"$near": 3}})
        with pytest.raises(InputError, match="must be a str"):
            retriever.invoke(None)

    def test_see_nothing_outside_the_filter(self, retriever):
        for method in ("hybrid", "vector", "keyword", "graph"):
            found = retriever.search(
                "Who runs the OAuth Provider of Umbrella?", k=9, method=method, filter={"tenant": "acme"}
            )
            assert found.hits
            assert "secret" not in [hit.chunk.id for hit in found]
            said = [step.text for hit in found for step in hit.path[1:]]
            assert "Wesker" not in " ".join(said)

    def test_cannot_widen_the_retrievers_own_filter(self, retriever):
        mine = GraphRAGRetriever(index=retriever.index, k=9, filter={"tenant": "acme"})
        assert "secret" not in ids(mine.invoke("Umbrella"))
        assert mine.invoke("Umbrella", filter={"tenant": "umbrella"}) == []
        assert "secret" not in ids(mine.invoke("Umbrella", filter={"or": [{"tenant": "umbrella"}, {"year": 2023}]}))
        assert set(ids(mine.invoke("Umbrella", filter={"year": 2023}))) == {"keyring", "lunch"}


class TestSettings:
    @pytest.mark.parametrize(
        "settings",
        [
            {"fusion": ReciprocalRank()}, {"fusion": Weighted(alpha=0.1, beta=0.9)}, {"fusion": Anchored(anchors=1)},
            {"gate": Gate(min_confidence=1.0)}, {"graph": PageRank(damping=0.3)}, {"graph": SpreadingActivation()},
            {"method": "vector"}, {"k": 2, "candidates": 3}, {"reranker": False}, {"reranker": Linear(link=0)},
        ],
    )  # fmt: skip
    def test_are_the_cores(self, documents, settings):
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), **settings) as retriever:
            expected = GraphRetriever(retriever.index, **settings).retrieve(QUESTION)
            found = retriever.invoke(QUESTION)
            assert ids(found) == [hit.chunk.id for hit in expected.hits]
            assert retriever.search(QUESTION).expansion_skipped == expected.expansion_skipped

    def test_are_one_value_that_keywords_replace(self, retriever):
        settings = SearchSettings(k=1, method="keyword")
        mine = GraphRAGRetriever(index=retriever.index, settings=settings)
        assert (len(mine.invoke(QUESTION)), mine.search(QUESTION).method) == (1, "keyword")
        both = GraphRAGRetriever(index=retriever.index, settings=settings, k=2)
        assert both.settings == settings.replace(k=2)
        assert len(both.invoke(QUESTION)) == 2
        with pytest.raises(InputError, match="use SearchSettings"):
            GraphRAGRetriever(index=retriever.index, settings={"k": 1})

    def test_are_not_assigned(self, retriever):
        for name, value in (("settings", SearchSettings(k=1)), ("filter", {"tenant": "acme"}), ("k", 1)):
            with pytest.raises(ValueError, match=f'frozen|no field "{name}"'):
                setattr(retriever, name, value)
        assert len(retriever.invoke(QUESTION)) == 5
        other = retriever.model_copy(update={"k": 2, "gate": Gate(min_confidence=1.0)})
        assert len(other.invoke(QUESTION)) == 2
        assert "confidence" in other.search(QUESTION).expansion_skipped
        assert other.index is retriever.index
        with pytest.raises(InputError, match="k is 0"):
            retriever.model_copy(update={"k": 0})

    def test_of_a_copy_are_its_own(self, retriever):
        other = retriever.model_copy(update={"filter": {"tenant": "umbrella"}})
        assert ids(other.invoke(QUESTION)) == ["secret"]
        other = other.model_copy(update={"filter": None, "k": 1})
        assert len(other.invoke(QUESTION)) == 1
        assert len(retriever.invoke(QUESTION)) == 5

    def test_are_read_once_and_not_for_each_call(self, retriever, monkeypatch):
        def refuse(*arguments, **settings):
            raise AssertionError("a second GraphRetriever was made")

        monkeypatch.setattr(GraphRetriever, "__init__", refuse)
        assert len(retriever.batch([QUESTION, "Keyring"])) == 2

    def test_with_an_iterator_in_the_filter_hold_in_every_call(self, retriever):
        retriever = retriever.model_copy(update={"filter": {"and": iter([{"tenant": "acme"}])}})
        for question in ("Umbrella", "Umbrella Wesker"):
            assert "secret" not in ids(retriever.invoke(question, k=9))
        only = {"tenant": {"in": iter(["acme"])}}
        made = GraphRAGRetriever(index=retriever.index, filter=only, cache=None, k=9)
        assert all(len(made.invoke("Umbrella")) == 4 for _ in range(2))

    def test_can_be_configurable_fields(self, retriever):
        flexible = retriever.configurable_fields(search_kwargs=ConfigurableField(id="search"))
        assert len(flexible.invoke(QUESTION, {"configurable": {"search": {"k": 2}}})) == 2
        assert len(flexible.invoke(QUESTION)) == 5

    async def test_are_configured_by_a_call(self, retriever):
        method = ConfigurableFieldSingleOption(
            id="method", options={"words": "keyword", "all": "hybrid"}, default="all"
        )
        flexible = retriever.configurable_fields(
            k=ConfigurableField(id="k"), filter=ConfigurableField(id="filter"), method=method
        )
        config = {"configurable": {"k": 2, "filter": {"tenant": "umbrella"}, "method": "words"}}
        assert len(flexible.invoke(QUESTION, {"configurable": {"k": 2}})) == 2
        assert (flexible | len).invoke(QUESTION, {"configurable": {"k": 3}}) == 3
        assert ids(await flexible.ainvoke(QUESTION, config)) == ["secret"]
        assert len(flexible.invoke(QUESTION)) == 5
        found = flexible.with_config(config).search(QUESTION)
        assert (found.method, len(found.hits)) == ("keyword", 1)
        shown = flexible.config_schema().model_json_schema()["$defs"]["Configurable"]["properties"]
        assert (shown["k"]["default"], shown["k"]["type"], shown["method"]["default"]) == (5, "integer", "all")
        with pytest.raises(InputError, match="k is 0"):
            flexible.invoke(QUESTION, {"configurable": {"k": 0}})
        with pytest.raises(InputError, match="unknown configurable field 'kk': did you mean 'k'"):
            retriever.configurable_fields(kk=ConfigurableField(id="k"))

    def test_can_be_alternatives(self, retriever):
        which = ConfigurableField(id="which")
        short = retriever.model_copy(update={"k": 1})
        flexible = retriever.configurable_alternatives(which, default_key="long", short=short)
        assert len(flexible.invoke(QUESTION)) == 5
        assert len(flexible.invoke(QUESTION, {"configurable": {"which": "short"}})) == 1

    @pytest.mark.parametrize("settings", [{"k": 0}, {"method": "magic"}, {"top_k": 3}, {"graph": "PageRank"}])
    def test_that_cannot_be_used_are_told_at_once(self, retriever, settings):
        with pytest.raises(ValueError, match=r"k is 0|unknown method|unknown search setting|graph strategy"):
            GraphRAGRetriever(index=retriever.index, **settings)

    def test_are_not_shared(self, retriever):
        other = GraphRAGRetriever(index=retriever.index)
        assert other.cache is not retriever.cache

    def test_no_cache_asks_every_time(self, documents):
        for settings, times in (({}, 1), ({"cache": None}, 2)):
            embedding = CountingEmbedder()
            with GraphRAGRetriever.from_documents(documents, embedding, **settings) as retriever:
                for _ in range(2):
                    retriever.invoke(QUESTION)
                assert embedding.queries == [QUESTION] * times


class Named(DeterministicFakeEmbedding):
    model: str = ""


class Plain(Embeddings):
    def embed_documents(self, texts):
        return HashEmbedder().embed_documents(texts).tolist()

    def embed_query(self, text):
        return HashEmbedder().embed_query(text).tolist()


class Cached(Plain):
    def __init__(self, underlying):
        self.underlying_embeddings = underlying


class TestFolders:
    def test_are_opened_again(self, documents, tmp_path):
        with GraphRAGRetriever.from_documents(documents, HashEmbedder(), path=tmp_path / "kb") as retriever:
            before = retriever.invoke(QUESTION)
        with GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder(), k=3) as retriever:
            assert ids(retriever.invoke(QUESTION)) == ids(before)[:3]
            retriever.add_documents([Document(id="new", page_content="Keyring has a new office in Riga.")])
        with GraphRAGRetriever.load(str(tmp_path / "kb"), HashEmbedder(), read_only=True) as retriever:
            assert "new" in ids(retriever.invoke("Riga"))
            with pytest.raises(ReadOnlyIndex):
                retriever.delete(["new"])

    def test_are_added_to(self, documents, tmp_path):
        for part in (documents[:2], documents[2:]):
            with GraphRAGRetriever.from_documents(part, HashEmbedder(), path=tmp_path / "kb") as retriever:
                pass
        with GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder()) as retriever:
            assert len(retriever.index) == 5

    def test_that_hold_no_index_are_not_made(self, tmp_path):
        with pytest.raises(NotAnIndex, match="from_documents"):
            GraphRAGRetriever.load(tmp_path / "typo", HashEmbedder())
        assert not (tmp_path / "typo").exists()

    def test_refuse_another_embedding(self, documents, tmp_path):
        GraphRAGRetriever.from_documents(documents, Named(size=8, model="small"), path=tmp_path / "kb").close()
        with pytest.raises(EmbedderMismatch, match=r"Named\(small\), not with .*Named\(large\)"):
            GraphRAGRetriever.load(tmp_path / "kb", Named(size=8, model="large"))
        GraphRAGRetriever.load(tmp_path / "kb", Named(size=8, model="small")).close()

    def test_take_an_embedding_without_a_name_and_one_behind_a_cache(self, documents, tmp_path):
        GraphRAGRetriever.from_documents(documents, Plain(), path=tmp_path / "kb").close()
        with GraphRAGRetriever.load(tmp_path / "kb", Cached(Plain())) as retriever:
            assert len(retriever.invoke(QUESTION)) == 5

    async def test_take_langchains_cache_of_an_embedding_for_the_embedding(self, documents, tmp_path):
        def cached():
            return CacheBackedEmbeddings.from_bytes_store(
                Plain(), InMemoryByteStore(), namespace="plain", key_encoder="sha256"
            )

        with GraphRAGRetriever.from_documents(documents, cached(), path=tmp_path / "kb") as retriever:
            expected = ids(retriever.invoke(QUESTION))
            assert ids(await retriever.ainvoke(QUESTION)) == expected
            identity = retriever.index.embedding.identity
        with GraphRAGRetriever.load(tmp_path / "kb", Plain()) as retriever:
            assert ids(retriever.invoke(QUESTION)) == expected
            assert retriever.index.embedding.identity == identity
        with GraphRAGRetriever.load(tmp_path / "kb", cached()) as retriever:
            await retriever.aadd_documents([Document(id="new", page_content="Keyring has a new office in Riga.")])
            assert "new" in ids(await retriever.ainvoke("Riga"))

    def test_are_not_made_for_what_is_no_embedding(self, tmp_path):
        with pytest.raises(InputError, match="str is not an embedding model"):
            GraphRAGRetriever.from_documents([], "text-embedding-3-small", path=tmp_path / "kb")
        assert not (tmp_path / "kb").exists()

    def test_made_by_the_core_are_the_same(self, documents, tmp_path):
        with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), chunker=None) as index:
            index.add(_core(documents))
        with GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder()) as retriever:
            assert retriever.index.add(_core(documents)).unchanged == 5

    def test_are_free_again_after_a_failure(self, tmp_path):
        for wrong in (
            {"documents": [Document(id=" ", page_content="a")]},
            {"documents": [""]},
            {"documents": [], "k": 0},
        ):
            with pytest.raises(ValueError, match=r"that is not blank|got str|k is 0"):
                GraphRAGRetriever.from_documents(embedding=HashEmbedder(), path=tmp_path / "kb", **wrong)
        made = GraphRAGRetriever.from_documents([], HashEmbedder(), path=tmp_path / "kb")
        with made, pytest.raises(IndexLocked):
            GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder())


class Listens(BaseCallbackHandler):
    def __init__(self):
        self.runs = []

    def on_retriever_start(self, serialized, query, *, tags=None, metadata=None, name=None, **kwargs):
        self.runs.append([name, query, sorted(tags), metadata])

    def on_retriever_end(self, documents, **kwargs):
        self.runs[-1].append(len(documents))

    def on_retriever_error(self, error, **kwargs):
        self.runs[-1].append(type(error).__name__)


class TestTracing:
    async def test_tells_names_tags_and_models(self, documents):
        settings = {"tags": ["kb"], "metadata": {"team": "search"}, "k": 2}
        with GraphRAGRetriever.from_documents(documents, Named(size=8, model="small"), **settings) as retriever:
            listens = Listens()
            config = {"callbacks": [listens], "tags": ["call"], "run_name": "look up"}
            retriever.invoke(QUESTION, config)
            await retriever.ainvoke(QUESTION, {**config, "run_name": None})
            retriever.with_config(tags=["bound"]).invoke(QUESTION, {"callbacks": [listens]})
        first, second, third = listens.runs
        assert [first[0], second[0]] == ["look up", "GraphRAGRetriever"]
        assert first[2] == ["call", "kb"]
        assert third[2] == ["bound", "kb"]
        assert first[3]["team"] == "search"
        assert first[3]["ls_retriever_name"] == "graphrag"
        assert first[3]["ls_embedding_provider"] == "Named"
        assert first[3]["ls_embedding_model"].endswith("Named(small)")
        assert first[4] == second[4] == 2

    async def test_hears_of_errors(self, retriever):
        listens = Listens()
        with pytest.raises(InputError):
            retriever.invoke(7, {"callbacks": [listens]})
        with pytest.raises(InputError):
            await retriever.ainvoke("x", {"callbacks": [listens]}, k=0)
        assert [run[-1] for run in listens.runs] == ["InputError", "InputError"]


def _core(documents):
    from langchain_graphrag.documents import to_core_documents

    assert all(isinstance(document, graphrag_core.Document) for document in to_core_documents(documents))
    return to_core_documents(documents)


class TestScores:
    def test_a_threshold_can_leave_nothing(self, retriever):
        unrelated = "What is the capital of Mongolia?"
        assert retriever.search(unrelated).hits[0].score < 0.3
        assert retriever.invoke(unrelated, score_threshold=0.5) == []
        question = "What does the Auth Service delegate to?"
        found = retriever.invoke(question, score_threshold=0.5)
        assert found
        assert all(hit.score >= 0.5 for hit in retriever.search(question, score_threshold=0.5))
        strict = retriever.model_copy(update={"score_threshold": 0.5})
        assert strict.invoke(unrelated) == []
        assert strict.invoke(question) == found
