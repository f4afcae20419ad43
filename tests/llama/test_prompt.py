"""``GraphContextPostprocessor``: facts of the graph in any query engine's prompt."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import MetadataMode, TextNode
from pydantic import Field

from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphContextPostprocessor, GraphRAGRetriever

QUESTION = "Which services does the Harbour Team have?"


class RecordingLLM(CustomLLM):
    """An LLM that keeps its prompts."""

    prompts: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.prompts.append(prompt)
        return CompletionResponse(text="answer")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def retriever():
    nodes = [
        TextNode(id_="auth", text="The Auth Service calls the Keyring.", metadata={"owner": "Harbour Team"}),
        TextNode(id_="key", text="The Keyring is sold by Solheim.", metadata={"owner": "Harbour Team"}),
        TextNode(id_="vendor", text="Solheim is based in Bergen."),
    ]
    retriever = GraphRAGRetriever.from_nodes(
        nodes, HashEmbedder(), similarity_top_k=3, edges=["owner"], add_metadata=["graphrag"]
    )
    retriever.index.graph.add_relation("Keyring", "replaces", "Old Vault", metadata={"scope": "told"})
    return retriever


@pytest.mark.parametrize("mode", ["compact", "tree_summarize", "simple_summarize"])
def test_a_query_engine_sees_every_fact_once(retriever, mode):
    llm = RecordingLLM(prompts=[])
    engine = RetrieverQueryEngine(
        retriever=retriever,
        response_synthesizer=get_response_synthesizer(llm=llm, response_mode=mode),
        node_postprocessors=[GraphContextPostprocessor(max_tokens=300)],
    )
    response = engine.query(QUESTION)
    assert str(response) == "answer"
    (prompt,) = llm.prompts
    assert "Knowledge graph:" in prompt
    lines = [line for line in prompt.replace("\\n", "\n").splitlines() if line.startswith("- ")]
    assert lines
    assert len(lines) == len(set(lines))


def test_nodes_keep_their_text_and_the_embedding_does_not_see_the_note(retriever):
    found = retriever.retrieve(QUESTION)
    changed = GraphContextPostprocessor().postprocess_nodes(found, query_str=QUESTION)
    assert not any("knowledge_graph" in one.node.metadata for one in found)
    assert [one.node.get_content(MetadataMode.NONE) for one in changed] == [
        one.node.get_content(MetadataMode.NONE) for one in found
    ]
    noted = [one.node for one in changed if "knowledge_graph" in one.node.metadata]
    assert noted
    for node in noted:
        assert "Knowledge graph:" in node.get_content(MetadataMode.LLM)
        assert "Knowledge graph:" not in node.get_content(MetadataMode.EMBED)
