"""The retriever in LlamaIndex's query engines, fusion, routers and ingestion pipelines."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_support import QUESTION, ids

from llama_graphrag import GraphRAGRetriever


def test_a_query_engine_answers_from_it(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    in_one_call = retriever.as_query_engine(llm=MockLLM())
    for response in (engine.query(QUESTION), in_one_call.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert "keyring" in ids(response.source_nodes)
        assert "Keyring is a company from Tallinn." in str(response)
        assert "graphrag" not in str(response), "the report is not for the model"


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "simple"])
def test_fusion_takes_it_beside_another_and_knows_their_nodes_for_the_same(nodes, model, mode):
    index = VectorStoreIndex(nodes, embed_model=model)
    both = [GraphRAGRetriever.from_index(index), index.as_retriever(similarity_top_k=5)]
    before = both[0].retrieve(QUESTION)[0].score
    fusion = QueryFusionRetriever(both, llm=MockLLM(), num_queries=1, mode=mode, similarity_top_k=5, use_async=False)
    for found in (fusion.retrieve(QUESTION), asyncio.run(fusion.aretrieve(QUESTION))):
        assert sorted(ids(found)) == ["auth", "keyring", "lunch", "oauth", "secret"]
        assert found[0].node_id == "auth"
    assert both[0].retrieve(QUESTION)[0].score == before, "fusion writes scores into its own answers"


# -- the rest of the framework around it

ENGINE = "# Ada\n\n" + " ".join(f"Ada Lovelace wrote note {i} about the Analytical Engine." for i in range(40))


@pytest.mark.filterwarnings("ignore:docstore_strategy")  # without a vector store it only leaves out known documents
def test_an_ingestion_pipeline_with_a_docstore_feeds_it(model):
    """The pipeline returns the nodes of new and changed documents; ``drop_stale`` removes their old nodes."""
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=60, chunk_overlap=0), model],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
    )
    retriever = GraphRAGRetriever.from_nodes(
        pipeline.run(documents=[Document(id_="a", text=ENGINE), Document(id_="b", text="Babbage lived in London.")]),
        model,
    )
    before = len(retriever.index)
    model.asked.clear()
    changed = [Document(id_="a", text=ENGINE), Document(id_="b", text="Babbage lived in Devon.")]
    nodes = pipeline.run(documents=changed)
    retriever.insert_nodes(nodes)
    assert retriever.drop_stale(nodes) == 1
    assert len(retriever.index) == before
    assert model.texts == ["Babbage lived in Devon."], "embedded by the pipeline, once"
