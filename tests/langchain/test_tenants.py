"""Filters narrow: nothing that is made of a tenant's retriever finds a document of another tenant."""

from __future__ import annotations

import copy
import warnings

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever, MultiQueryRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool
from langchain_graphrag.agents import RetrieveMiddleware

QUESTION = "Who has the Keyring?"
ACME, OTHER = {"tenant": "acme"}, {"tenant": "umbrella"}
EVERYBODY = {"tenant": {"in": ["acme", "umbrella"]}}
TEXTS = {"acme": "The Keyring of Acme is green.", "umbrella": "The Keyring of Umbrella is secret."}
ATTACKS = [None, {}, OTHER, EVERYBODY]


def copied(retriever, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return retriever.copy(**options)


DERIVED = {
    "a call": lambda mine, it: mine.bind(k=9, filter=it).bind(where=it),
    "bind": lambda mine, it: mine.bind(filter=it, where=it),
    "bind twice": lambda mine, it: mine.bind(filter=OTHER).bind(filter=it),
    "with_filter": lambda mine, it: mine.with_filter(it),
    "model_copy": lambda mine, it: mine.model_copy(update={"filter": it}),
    "model_copy twice": lambda mine, it: mine.model_copy(update={"k": 3}).model_copy(update={"filter": it}),
    "deep model_copy": lambda mine, it: mine.model_copy(deep=True, update={"filter": it}),
    "copy of pydantic": lambda mine, it: copied(mine, update={"filter": it}),
    "copy.replace": lambda mine, it: mine.__replace__(filter=it),
    "with_config": lambda mine, it: mine.with_config(configurable={"filter": it}, metadata={"filter": it}),
    "with_retry": lambda mine, it: mine.with_retry().bind(filter=it),
    "with_fallbacks": lambda mine, it: mine.with_fallbacks([mine.bind(filter=it)]).bind(filter=it),
    "with_types": lambda mine, it: mine.with_types(input_type=str).bind(filter=it),
    "in a sequence": lambda mine, it: (mine | list).bind(filter=it),
}


@pytest.fixture(scope="module")
def everything():
    documents = [Document(id=name, page_content=text, metadata={"tenant": name}) for name, text in TEXTS.items()]
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever


@pytest.fixture
def mine(everything):
    return GraphRAGRetriever(index=everything.index, filter=ACME)


def tenants(documents):
    return {document.metadata["tenant"] for document in documents}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
async def test_what_is_made_of_a_tenants_retriever_finds_its_documents_alone(everything, derive):
    for other in ATTACKS:
        derived = derive(GraphRAGRetriever(index=everything.index, filter=ACME), other)
        for found in (
            derived.invoke(QUESTION),
            await derived.ainvoke(QUESTION),
            derived.invoke(QUESTION, filter=other, where=other),
            *derived.batch([QUESTION]),
            *await derived.abatch([QUESTION]),
            *derived.stream(QUESTION),
        ):
            assert "umbrella" not in tenants(found)


def test_a_copy_keeps_the_filter(mine):
    for copied_ in (mine.model_copy(), mine.model_copy(deep=True), copy.copy(mine), copy.deepcopy(mine)):
        assert copied_.scope == mine.scope
        assert tenants(copied_.invoke(QUESTION)) == {"acme"}


def test_the_filter_of_a_retriever_cannot_be_assigned_or_deleted(mine):
    for name in ("filter", "scope"):
        with pytest.raises((ValidationError, AttributeError)):
            setattr(mine, name, None)
        with pytest.raises((ValidationError, AttributeError)):
            delattr(mine, name)
    with pytest.raises(InputError, match="pass filter with the call"):
        mine.configurable_fields(filter="it")
    assert tenants(mine.invoke(QUESTION)) == {"acme"}


def test_filters_that_are_bound_one_after_another_are_joined(everything):
    for bound in (everything.bind(k=2, filter=ACME), everything.bind(k=2).bind(where=ACME)):
        assert tenants(bound.invoke(QUESTION, filter=EVERYBODY)) == {"acme"}
        assert [hit.chunk.id for hit in bound.search(QUESTION)] == ["acme"]
        assert bound.bind(filter=EVERYBODY).invoke(QUESTION, filter=OTHER) == []
    assert tenants(everything.invoke(QUESTION)) == {"acme", "umbrella"}


def test_filters_of_all_kinds_are_joined_and_shared_settings_stay(everything):
    own = everything.model_copy(update={"k": 7, "add_metadata": ["score"], "tags": ["handbook"]}).with_filter(ACME)
    assert (own.index is everything.index, own.cache is everything.cache) == (True, True)
    assert (own.settings.k, own.add_metadata, own.tags) == (7, ("score",), ["handbook"])
    assert own.with_filter(OTHER).invoke(QUESTION) == []
    assert own.with_filter({"tenant": {"in": ["acme"]}}).get(list(TEXTS))[0].id == "acme"
    assert own.delete(["umbrella"])["num_deleted"] == 0


async def test_a_filter_is_read_when_it_is_set(everything):
    where = {"and": [{"tenant": {"nin": ["umbrella"]}}]}
    mine = GraphRAGRetriever(index=everything.index, filter=where)
    copied_, bound = everything.model_copy(update={"filter": where}), everything.bind(filter=where)
    tool = create_memory_search_tool(everything, filter=where)
    where["and"][0]["tenant"]["nin"].clear()
    for retriever in (mine, copied_, bound):
        assert tenants(retriever.invoke(QUESTION)) == tenants(await retriever.ainvoke(QUESTION)) == {"acme"}
    assert "secret" not in tool.invoke({"query": QUESTION})


def test_documents_outside_of_the_filter_are_neither_returned_nor_deleted(mine, everything):
    assert [document.id for document in mine.get(["umbrella", "acme", "nobody", "umbrella#0", "acme"])] == ["acme"]
    assert mine.delete(["umbrella"])["num_deleted"] == 0
    assert len(everything.get(["umbrella", "acme"])) == 2


class Keeping(BaseDocumentCompressor):
    def compress_documents(self, documents, query, callbacks=None):
        return documents


class Model(GenericFakeChatModel):
    seen: list = []  # noqa: RUF012 - a field of pydantic

    def _generate(self, messages, *given, **settings):
        self.seen.append("".join(message.text for message in messages))
        return super()._generate(messages, *given, **settings)


async def test_what_takes_a_retriever_finds_the_documents_of_its_tenant(mine):
    own = mine.model_copy(update={"filter": EVERYBODY})
    llm = FakeListLLM(responses=["The Keyring of Umbrella?\nWhich Keyring is secret?"])
    for composed in (
        MultiQueryRetriever.from_llm(retriever=own, llm=llm),
        EnsembleRetriever(retrievers=[own, own.with_filter(EVERYBODY)]),
        ContextualCompressionRetriever(base_retriever=own, base_compressor=Keeping()),
    ):
        assert tenants(composed.invoke(QUESTION)) == {"acme"}
        assert tenants(await composed.ainvoke(QUESTION)) == {"acme"}
    for tool in (
        create_retriever_tool(own, "kb", "Looks things up."),
        create_memory_search_tool(own),
        create_memory_search_tool(own, filter=EVERYBODY),
    ):
        for given in ({"query": QUESTION}, {"query": QUESTION, "filter": OTHER, "where": OTHER}):
            assert "green" in str(tool.invoke(given))
            assert "secret" not in str(tool.invoke(given))
    for given in (None, EVERYBODY, lambda _: EVERYBODY):
        model = Model(messages=iter([AIMessage("Acme.")]), seen=[])
        agent = create_agent(model, middleware=[RetrieveMiddleware(own, filter=given)])
        agent.invoke({"messages": [("user", QUESTION)]})
        assert "green" in model.seen[0]
        assert "secret" not in model.seen[0]
