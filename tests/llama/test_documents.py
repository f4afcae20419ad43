"""The methods that LlamaIndex's own indexes have: documents, names of parameters, async twins, engines."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_support import QUESTION, Hashed, ids

from llama_graphrag import GraphRAGRetriever

LONG = "Ada Lovelace wrote to Charles Babbage about the Analytical Engine. " * 8
SPLIT = [SentenceSplitter(chunk_size=40, chunk_overlap=0)]


def documents(*texts: str) -> list[Document]:
    return [Document(id_=f"doc{i}", text=text, metadata={"n": i}) for i, text in enumerate(texts)]


@pytest.fixture(params=["sync", "async"])
def call(request):
    """Call a method, or its async twin on an event loop."""

    def run(owner, name, *args, **kwargs):
        if request.param == "sync":
            return getattr(owner, name)(*args, **kwargs)
        return asyncio.run(getattr(owner, f"a{name}")(*args, **kwargs))

    return run


# -- documents


def test_refreshing_tells_what_changed_as_llama_index_does(model, call):
    retriever = GraphRAGRetriever.from_documents(documents(LONG, "Short."), model, transformations=SPLIT)
    plain = VectorStoreIndex.from_documents(documents(LONG, "Short."), embed_model=Hashed(), transformations=SPLIT)
    before = retriever.index.document_ids()
    model.asked.clear()
    rounds = [
        documents(LONG, "Short."),
        documents(LONG, "Short, and changed.", "New."),
        [*documents(LONG), Document(id_="doc1", text="Short, and changed.", metadata={"n": 7})],
        [*documents("First."), *documents("Then."), *documents("Then.")],
    ]
    for at, given in enumerate(rounds):
        assert call(retriever, "refresh_ref_docs", given) == plain.refresh_ref_docs(given)
        if at == 0:
            assert model.asked == []
            assert retriever.index.document_ids() == before
    assert retriever.ref_doc_info.keys() == {"doc0", "doc1", "doc2"}
    assert [document.text for document in retriever.index.documents()] == ["Then.", "Short, and changed.", "New."]
    assert retriever.index.verify()


def test_updating_and_inserting_replace_the_nodes_of_a_document(model, call):
    retriever = GraphRAGRetriever.from_documents(documents(LONG, "Short."), model, transformations=SPLIT)
    assert call(retriever, "update_ref_doc", *documents("Now it is short.")).replaced == 1
    assert retriever.ref_doc_info["doc0"].node_ids == ["doc0#0"]
    assert call(retriever, "insert", Document(id_="more", text=LONG)).added > 2
    assert call(retriever, "insert", Document(id_="more", text="Less.")).replaced == 1
    assert retriever.ref_doc_info["more"].node_ids == ["more#0"]
    assert retriever.delete_ref_doc("more", delete_from_docstore=True) == 1
    assert retriever.delete_nodes(["doc0#0"], delete_from_docstore=True) == 1
    assert list(retriever.ref_doc_info) == ["doc1"]
    assert retriever.ref_doc_info["doc1"].metadata == {"n": 1}


def test_the_arguments_of_llama_indexs_indexes_are_accepted(retriever, call):
    document = Document(id_="d", text="A fox.")
    call(retriever, "update_ref_doc", document, insert_kwargs={}, delete_kwargs={"delete_from_docstore": True})
    call(retriever, "refresh_ref_docs", [document], update_kwargs={"delete_kwargs": {"delete_from_docstore": True}})


# -- names


def test_every_constructor_takes_a_folder_and_settings(nodes, model, tmp_path):
    index = VectorStoreIndex(nodes, embed_model=model)
    filters = MetadataFilters(filters=[MetadataFilter(key="tenant", value="acme")])
    settings = {"similarity_top_k": 2, "filters": filters}
    makers = {
        "from_nodes": (nodes, model),
        "from_documents": (documents(LONG), model),
        "from_index": (index,),
        "from_property_graph": (SimplePropertyGraphStore(), model),
    }
    for method, arguments in makers.items():
        folder = tmp_path / method
        with getattr(GraphRAGRetriever, method)(*arguments, path=folder, **settings) as retriever:
            assert (retriever.similarity_top_k, retriever.filters) == (2, filters)
        with GraphRAGRetriever.from_persist_dir(folder, model, **settings) as retriever:
            assert (retriever.similarity_top_k, retriever.filters) == (2, filters)


# -- engines


@pytest.mark.parametrize("mode", ["condense_plus_context", "context", "condense_question", "best", ChatMode.CONTEXT])
def test_a_chat_engine_in_one_call(retriever, mode):
    memory = ChatMemoryBuffer.from_defaults(token_limit=3000)  # the default leaves a database open
    answer = retriever.as_chat_engine(mode, llm=MockLLM(), memory=memory).chat(QUESTION)
    assert "keyring" in ids(answer.source_nodes)


OWNERS = [
    Document(text="The Tariff Engine is owned by Tomas Vael.", doc_id="tariff"),
    Document(text="The Quay Planner is owned by Rosa Millan.", doc_id="quay"),
    *(Document(text=f"An owner of things, number {at}, owns what it owns.", doc_id=f"{at}") for at in range(12)),
]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("mode", ["context", "condense_plus_context"])
async def test_a_chat_engine_retrieves_with_the_conversation(model, mode, awaited):
    with GraphRAGRetriever.from_documents(OWNERS, model, similarity_top_k=1) as retriever:
        given = {"skip_condense": True} if mode == "condense_plus_context" else {}
        memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
        engine = retriever.as_chat_engine(mode, llm=MockLLM(), memory=memory, **given)
        for question in ("What is the Tariff Engine?", "Who owns it?"):
            answer = await engine.achat(question) if awaited else engine.chat(question)
            assert answer.source_nodes[0].node.ref_doc_id == "tariff"
        alone = retriever.as_chat_engine(mode, llm=MockLLM(), memory=ChatMemoryBuffer.from_defaults(), **given)
        assert alone.chat("Who owns it?").source_nodes[0].node.ref_doc_id != "tariff"


def test_a_storage_context_may_hold_both(nodes, model, tmp_path):
    """A folder of this package beside the folder of a storage context: neither disturbs the other."""
    index = VectorStoreIndex(nodes, embed_model=model, storage_context=StorageContext.from_defaults())
    index.storage_context.persist(str(tmp_path))
    with GraphRAGRetriever.from_index(index, path=tmp_path / "graphrag"):
        pass
    StorageContext.from_defaults(persist_dir=str(tmp_path))
    assert len(GraphRAGRetriever.from_persist_dir(tmp_path / "graphrag", model).index) == 5
