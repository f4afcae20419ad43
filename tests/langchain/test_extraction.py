"""Entities and relations from chat models and from graph documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, llm_extractor

ANSWER = json.dumps(
    {
        "entities": [{"name": "Keyring", "type": "vendor", "description": "Sells vaults."}, {"name": "Harbour"}],
        "relations": [{"source": "Keyring", "target": "Harbour", "type": "sells_to", "strength": 8}],
    }
)
TEXT = "they have done business for years."


class TestChatModels:
    def test_read_entities_and_relations(self):
        llm = FakeListChatModel(responses=[ANSWER])
        with GraphRAGRetriever.from_texts([TEXT], HashEmbedder(), llm=llm) as retriever:
            assert retriever.index.graph.entity("keyring").type == "vendor"
            assert retriever.index.graph.entity("keyring").description == "Sells vaults."
            (fact,) = [fact for fact in retriever.index.graph.facts("Keyring") if fact.relation]
            assert (fact.relation, fact.entities, fact.weight) == ("sells_to", ("keyring", "harbour"), 8)
            assert [entity.name for entity in retriever.search("What of Keyring?").entities] == ["Keyring"]

    def test_may_answer_in_blocks_or_plain_text(self):
        blocks = AIMessage(content=[{"type": "text", "text": ANSWER[:40]}, {"type": "text", "text": ANSWER[40:]}])
        for llm in (GenericFakeChatModel(messages=iter([blocks])), RunnableLambda(lambda prompt: ANSWER)):
            with GraphRAGRetriever.from_texts([TEXT], HashEmbedder(), llm=llm) as retriever:
                assert retriever.index.graph.entity("Harbour") is not None

    def test_are_models(self):
        with pytest.raises(InputError, match="str is not a chat model"):
            GraphRAGRetriever.from_texts([TEXT], HashEmbedder(), llm="gpt")
        with pytest.raises(InputError, match="either llm or extractor"):
            GraphRAGRetriever.from_texts(
                [TEXT],
                HashEmbedder(),
                llm=FakeListChatModel(responses=[]),
                extractor=llm_extractor(RunnableLambda(str)),
            )


# The shapes that LangChain's graph transformers return; the packages that have them are not needed.
@dataclass
class Node:
    id: str | int
    type: str = "Node"
    properties: dict = field(default_factory=dict)


@dataclass
class Relationship:
    source: Node
    target: Node
    type: str
    properties: dict = field(default_factory=dict)


@dataclass
class GraphDocument:
    nodes: list[Node]
    relationships: list[Relationship]
    source: Document


ADA = Node("Ada Lovelace", "Person", {"born": "1815", "field": "mathematics"})
ENGINE = Node("Analytical Engine", "Machine", {"description": "A computer of brass."})
BYRON = Node("Lord Byron", "Person")
WORK = Document(id="work", page_content="she wrote the first program for it.", metadata={"page": 3})
SAID = "Byron was Ada's father."
FAMILY = Document(id="family", page_content="he never knew her.")


def graphs() -> list[GraphDocument]:
    return [
        GraphDocument([ADA, ENGINE], [Relationship(ADA, ENGINE, "WROTE_PROGRAMS_FOR")], WORK),
        GraphDocument([BYRON], [Relationship(BYRON, ADA, "father of", {"description": SAID})], FAMILY),
    ]


class TestGraphDocuments:
    def test_become_typed_entities_and_facts(self):
        with GraphRAGRetriever.from_graph_documents(graphs(), HashEmbedder(), k=2, method="graph") as retriever:
            index = retriever.index
            assert index.graph.entity("ada lovelace").type == "person"
            assert index.graph.entity("ada lovelace").description == "born: 1815; field: mathematics"
            assert index.graph.entity("Analytical Engine").description == "A computer of brass."
            facts = {fact.relation: fact for fact in index.graph.facts("Ada Lovelace") if fact.relation}
            assert facts.keys() == {"WROTE_PROGRAMS_FOR", "father of"}
            assert facts["WROTE_PROGRAMS_FOR"].text == "Ada Lovelace wrote programs for Analytical Engine"
            assert facts["WROTE_PROGRAMS_FOR"].chunk_id == "work"
            assert facts["father of"].text == SAID
            found = retriever.search("Which machine had to do with the child of Lord Byron?")
            (work,) = [hit for hit in found if hit.chunk.id == "work"]
            assert retriever.get(["work"])[0].metadata["page"] == 3
            assert [step.text for step in work.path][1:4] == ["Lord Byron", SAID, "Ada Lovelace"]

    def test_stay_in_the_folder(self, tmp_path):
        for _ in range(2):  # the second time nothing changes
            made = GraphRAGRetriever.from_graph_documents(graphs(), HashEmbedder(), path=tmp_path / "kb")
            generation = made.index.stats().generation
            made.close()
        with GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder()) as retriever:
            assert retriever.index.stats().generation == generation == 1
            assert retriever.index.graph.entity("Lord Byron").type == "person"

    def test_of_one_source_are_joined(self):
        both = [GraphDocument([ADA], [], WORK), GraphDocument([ENGINE], [], WORK)]
        with GraphRAGRetriever.from_graph_documents(both, HashEmbedder()) as retriever:
            assert len(retriever.index) == 1
            assert retriever.index.graph.entity("Ada Lovelace").mentions == 1
            assert retriever.index.graph.entity("Analytical Engine").mentions == 1
