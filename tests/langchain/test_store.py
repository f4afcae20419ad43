"""LangGraph's store over an index: the same answers as LangGraph's own store gives, and what it adds."""

from __future__ import annotations

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever
from langchain_graphrag.store import GraphRAGStore

ADA, BO = ("users", "ada"), ("users", "bo", "notes")


@pytest.fixture
def retriever():
    with GraphRAGRetriever.from_texts(["The Auth Service calls Keyring."], HashEmbedder(), ids=["a"]) as retriever:
        yield retriever


def fill(store):
    store.put(ADA, "1", {"text": "Ada prefers tea.", "kind": "taste", "score": 3})
    store.put(ADA, "2", {"text": "Ada works on the Auth Service.", "kind": "work", "score": 5})
    store.put(BO, "1", {"text": "Bo likes boats.", "kind": "taste", "nested": {"deep": [1, {"x": None}]}})
    store.put(("users",), "1", {"text": "There are two users."})
    store.put(ADA, "gone", {"text": "Gone."})
    store.delete(ADA, "gone")
    store.put(ADA, "1", {"text": "Ada prefers coffee.", "kind": "taste", "score": 4})


SAID = {
    "1": str({"text": "Ada prefers coffee.", "kind": "taste", "score": 4}),
    "2": str({"text": "Ada works on the Auth Service.", "kind": "work", "score": 5}),
}


def seen(items):
    return sorted((item.namespace, item.key, str(item.value)) for item in items)


def test_it_answers_as_the_store_of_langgraph_does(retriever):
    ours, theirs = GraphRAGStore(retriever), InMemoryStore()
    assert ours.search(("users",)) == theirs.search(("users",)) == []
    assert ours.list_namespaces() == theirs.list_namespaces() == []
    for store in (ours, theirs):
        fill(store)
    for namespace in (("users",), ADA, BO, ("user",), ("users", "ad")):
        assert seen(ours.search(namespace)) == seen(theirs.search(namespace)), namespace
    for where in ({"kind": "taste"}, {"score": {"$gte": 4}}, {"kind": "work", "score": 5}, {"score": {"$lt": 4}}):
        assert seen(ours.search(ADA, filter=where)) == seen(theirs.search(ADA, filter=where)), where
    for key in ("1", "2", "gone", "nothing"):
        one, other = ours.get(ADA, key), theirs.get(ADA, key)
        assert (one and one.value) == (other and other.value)
    assert len(ours.search(("users",), limit=2, offset=1)) == 2
    for settings in (
        {}, {"prefix": ("users", "*")}, {"suffix": ("notes",)}, {"max_depth": 2}, {"max_depth": 1}, {"limit": 1},
    ):  # fmt: skip
        assert ours.list_namespaces(**settings) == theirs.list_namespaces(**settings), settings
    item = ours.get(ADA, "1")
    assert item.created_at < item.updated_at


async def test_a_query_searches_items_alone(retriever):
    store = GraphRAGStore(retriever)
    assert store.search(("users",), query="Auth Service") == []
    fill(store)
    found = store.search(("users",), query="Who works on the Auth Service?", limit=1)
    assert [(item.namespace, item.key) for item in found] == [(ADA, "2")]
    assert found[0].score > 0
    assert [item.key for item in await store.asearch(ADA, query="Auth Service", filter={"kind": "taste"})] == ["1"]
    assert not [item for item in store.search(("users",), query="Keyring", limit=50) if "Keyring" in str(item.value)]
    (batch,) = await store.abatch([SearchOp(BO, query="boats")])
    assert [item.key for item in batch] == ["1"]


def test_it_stays_within_the_filter_of_its_retriever(retriever):
    own = [retriever.model_copy(update={"filter": {"tenant": name}}) for name in "ab"]
    first, second = (GraphRAGStore(one, metadata={"tenant": name}) for one, name in zip(own, "ab", strict=True))
    first.put(ADA, "1", {"text": "Ada has a secret."})
    second.put(BO, "1", {"text": "Bo has none."})
    assert second.get(ADA, "1") is None
    assert [item.key for item in second.search((), query="secret")] == ["1"]
    assert "secret" not in str(second.search((), query="secret"))
    second.delete(ADA, "1")
    second.put(ADA, "1", {"text": "Mine."})
    assert first.get(ADA, "1").value == {"text": "Ada has a secret."}, "neither deleted nor replaced"
    assert second.get(ADA, "1").value == {"text": "Mine."}


def test_the_id_of_an_item_cannot_be_guessed(retriever):
    with GraphRAGRetriever.from_texts(["Another index."], HashEmbedder(), ids=["a"]) as other:
        for one in (retriever, other):
            GraphRAGStore(one).put(ADA, "1", {"text": "Ada prefers tea."})
            assert len(one.index) == 2
        assert not set(retriever.index.document_ids()) & set(other.index.document_ids()) - {"a"}


def test_what_is_not_indexed_is_stored(retriever):
    store = GraphRAGStore(retriever)
    store.put(ADA, "1", {"text": "Ada prefers tea.", "hidden": "boats"}, index=["text"])
    store.put(ADA, "2", {"text": "Ada prefers boats."}, index=False)
    assert store.get(ADA, "2").value == {"text": "Ada prefers boats."}
    texts = [document.text for document in retriever.index.documents(where={"langgraph.key": {"exists": True}})]
    assert sorted(texts) == ["(no text)", "Ada prefers tea."]


@pytest.mark.parametrize("value", ["text", ["text"], 3])
async def test_a_value_that_is_no_mapping_is_refused_before_anything_is_written(retriever, value):
    store = GraphRAGStore(retriever)
    message = r"the value of '2' in \('users', 'ada'\) is .*: store a mapping"
    with pytest.raises(InputError, match=message):
        store.put(ADA, "2", value)
    with pytest.raises(InputError, match=message):
        await store.aput(ADA, "2", value)
    with pytest.raises(InputError, match=message):
        store.batch([PutOp(ADA, "1", {"text": "Tea."}), PutOp(ADA, "2", value)])
    assert store.search(ADA, filter={"kind": "taste"}) == []
    assert len(retriever.index) == 1


async def test_a_batch_of_puts_is_one_write(retriever):
    store, engine = GraphRAGStore(retriever), retriever.index.engine
    store.put(ADA, "0", {"text": "Before."})
    before = store.get(ADA, "0")
    generation = engine.generation
    await store.abatch([PutOp(ADA, str(number), {"text": f"Note {number}."}) for number in range(100)])
    assert engine.generation == generation + 1
    assert len(store.search(ADA, limit=200)) == 100
    after = store.get(ADA, "0")
    assert (after.value, after.created_at) == ({"text": "Note 0."}, before.created_at)
    assert after.updated_at > before.updated_at


def test_reads_of_a_batch_see_what_was_there_before_it_as_in_the_store_of_langgraph(retriever):
    ops = [
        PutOp(ADA, "1", {"text": "Ada prefers water."}), GetOp(ADA, "1"), PutOp(ADA, "1", {"text": "Ada likes milk."}),
        PutOp(ADA, "2", None), SearchOp(ADA), PutOp(("new",), "1", {"text": "New."}), ListNamespacesOp(),
        PutOp(BO, "1", None), PutOp(BO, "1", {"text": "Bo is back."}), GetOp(ADA, "nothing"),
    ]  # fmt: skip
    ours, theirs = GraphRAGStore(retriever), InMemoryStore()
    results = []
    for store in (ours, theirs):
        fill(store)
        found = store.batch(ops)
        results.append([one.value if hasattr(one, "value") else one for one in found[:4] + found[5:]])
        assert seen(found[4]) == [(ADA, "1", SAID["1"]), (ADA, "2", SAID["2"])]
        results[-1].append(seen(store.search(())))
    assert results[0] == results[1]


class Counting(GraphRAGRetriever):
    asked: list = []  # noqa: RUF012 - a field of pydantic

    def search(self, query, **settings):
        self.asked.append(settings["k"])
        return super().search(query, **settings)


def test_a_search_asks_for_the_items_that_are_wanted():
    with Counting.from_texts([], HashEmbedder()) as retriever:
        store = GraphRAGStore(retriever)
        long = " ".join(f"The Auth Service has the door number {number}." for number in range(400))
        notes = [PutOp(ADA, str(number), {"text": f"Note {number} is short."}) for number in range(40)]
        store.batch([*notes, PutOp(ADA, "long", {"text": long}), PutOp(ADA, "last", {"text": "Other.", "kind": "x"})])
        retriever.asked.clear()
        assert len(store.search(ADA, query="Note", limit=3)) == 3
        assert len(store.search(ADA, query="Note", limit=2, offset=3)) == 2
        assert retriever.asked == [3, 5]
        found = store.search(ADA, query="Which number has the door of the Auth Service?", limit=3)
        assert len({item.key for item in found}) == 3, "the passages of one item are one result"
        assert [item.key for item in store.search(ADA, query="Note", filter={"kind": "x"}, limit=3)] == ["last"]
