"""The methods that LlamaIndex's own indexes have: documents, names of parameters, engines."""

from __future__ import annotations

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from llama_graphrag import GraphRAGRetriever

LONG = "Ada Lovelace wrote to Charles Babbage about the Analytical Engine. " * 8
SPLIT = [SentenceSplitter(chunk_size=40, chunk_overlap=0)]


def documents(*texts: str) -> list[Document]:
    return [Document(id_=f"doc{i}", text=text, metadata={"n": i}) for i, text in enumerate(texts)]


def test_updating_and_inserting_replace_the_nodes_of_a_document(model):
    retriever = GraphRAGRetriever.from_documents(documents(LONG, "Short."), model, transformations=SPLIT)
    assert retriever.update_ref_doc(*documents("Now it is short.")).replaced == 1
    assert retriever.index.document_ids() == ["doc0#0", "doc1#0"]
    model.asked.clear()
    assert retriever.insert(*documents("Now it is short."), insert_kwargs={}).unchanged == 1
    assert model.asked == []
    assert retriever.insert(Document(id_="more", text=LONG)).added > 2
    assert retriever.insert(Document(id_="more", text="Less.")).replaced == 1
    assert retriever.delete_ref_doc("more", delete_from_docstore=True) == 1
    assert retriever.delete_nodes(["doc0#0"], delete_from_docstore=True) == 1
    assert retriever.index.document_ids() == ["doc1#0"]
    assert retriever.index.verify()


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


OWNERS = [
    Document(text="The Tariff Engine is owned by Tomas Vael.", doc_id="tariff"),
    Document(text="The Quay Planner is owned by Rosa Millan.", doc_id="quay"),
    *(Document(text=f"An owner of things, number {at}, owns what it owns.", doc_id=f"{at}") for at in range(12)),
]


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_chat_engine_retrieves_with_the_conversation(model, awaited):
    with GraphRAGRetriever.from_documents(OWNERS, model, similarity_top_k=1) as retriever:

        def engine():
            memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
            return ContextChatEngine.from_defaults(retriever.with_memory(memory), llm=MockLLM(), memory=memory)

        talking = engine()
        for question in ("What is the Tariff Engine?", "Who owns it?"):
            answer = await talking.achat(question) if awaited else talking.chat(question)
            assert answer.source_nodes[0].node.ref_doc_id == "tariff"
        assert engine().chat("Who owns it?").source_nodes[0].node.ref_doc_id != "tariff"
