"""Entities and relations from chat models."""

from __future__ import annotations

import json

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
TEXT = Document("they have done business for years.")


class TestChatModels:
    def test_read_entities_and_relations(self):
        llm = FakeListChatModel(responses=[ANSWER])
        with GraphRAGRetriever.from_documents([TEXT], HashEmbedder(), llm=llm) as retriever:
            assert retriever.index.graph.entity("keyring").type == "vendor"
            assert retriever.index.graph.entity("keyring").description == "Sells vaults."
            (fact,) = [fact for fact in retriever.index.graph.facts("Keyring") if fact.relation]
            assert (fact.relation, fact.entities, fact.weight) == ("sells_to", ("keyring", "harbour"), 8)
            assert [entity.name for entity in retriever.search("What of Keyring?").entities] == ["Keyring"]

    def test_may_answer_in_blocks_or_plain_text(self):
        blocks = AIMessage(content=[{"type": "text", "text": ANSWER[:40]}, {"type": "text", "text": ANSWER[40:]}])
        for llm in (GenericFakeChatModel(messages=iter([blocks])), RunnableLambda(lambda prompt: ANSWER)):
            with GraphRAGRetriever.from_documents([TEXT], HashEmbedder(), llm=llm) as retriever:
                assert retriever.index.graph.entity("Harbour") is not None

    def test_are_models(self):
        with pytest.raises(InputError, match="str is not a chat model"):
            GraphRAGRetriever.from_documents([TEXT], HashEmbedder(), llm="gpt")
        with pytest.raises(InputError, match="either llm or extractor"):
            GraphRAGRetriever.from_documents(
                [TEXT],
                HashEmbedder(),
                llm=FakeListChatModel(responses=[]),
                extractor=llm_extractor(RunnableLambda(str)),
            )
