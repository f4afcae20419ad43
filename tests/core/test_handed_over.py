"""What the core hands to those who embed elsewhere, or put hits into a framework's metadata."""

from __future__ import annotations

import json

import pytest
from support import SERVICES

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import DocumentError
from graphrag_core.query.account import account
from graphrag_core.testing import HashEmbedder


class Notes(HashEmbedder):
    def __init__(self):
        super().__init__()
        self.asked = []

    def embed_documents(self, texts):
        self.asked += texts
        return super().embed_documents(texts)


@pytest.mark.parametrize("embeds", [True, False])
def test_the_texts_told_are_those_embedded(embeds):
    embedder = Notes()
    with KnowledgeIndex(embedder, embed_facts=embeds, embed_names=embeds) as index:
        told = index.to_embed(SERVICES)
        assert embedder.asked == []
        assert len(index) == 0
        assert len(told) == len(set(told))
        index.add(SERVICES)
        assert set(told) == set(embedder.asked)

        assert index.to_embed(SERVICES) == []
        embedder.asked.clear()
        changed = [Document("auth", SERVICES[0].text + " It is new.", "Auth Service"), *SERVICES[1:]]
        told = index.to_embed(changed)
        index.add(changed)
        assert set(told) == set(embedder.asked)
        assert all("It is new" in text for text in told)


def test_a_document_that_cannot_be_added_is_told_before_it_is_embedded():
    with KnowledgeIndex(HashEmbedder()) as index, pytest.raises(DocumentError, match="'x': the text is empty"):
        index.to_embed([Document("x", " ")])


def test_a_hit_as_plain_data_has_everything_but_text_metadata_and_score(services):
    result = GraphRetriever(services).retrieve("Who runs the OAuth Provider?")
    hit = result.hits[0]
    told = account(result, hit)
    assert json.loads(json.dumps(told)) == told
    assert told["document_id"] == hit.chunk.document_id
    assert told["entities"] == ["OAuth Provider"]
    assert told["channels"]["vector"]["rank"] == hit.channels["vector"].rank
    assert [step["text"] for step in told["path"]] == [step.text for step in hit.path]
    assert (told["method"], told["confidence"], told["origin"]) == ("hybrid", result.confidence, hit.origin)
    told["path"].clear()
    assert account(result, hit)["path"]
