"""For callers that embed elsewhere, or put hits into a framework's metadata."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import SERVICES, snapshot

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import EmbedderError
from graphrag_core.testing import CountingEmbedder, HashEmbedder


@pytest.mark.parametrize("embeds", [True, False])
def test_to_embed_returns_the_texts_that_add_embeds(embeds):
    embedder = CountingEmbedder()
    with KnowledgeIndex(embedder, embed_names=embeds) as index:
        texts = index.to_embed(SERVICES)
        assert embedder.texts == []
        assert len(index) == 0
        assert len(texts) == len(set(texts))
        index.add(SERVICES)
        assert set(texts) == set(embedder.texts)

        assert index.to_embed(SERVICES) == []
        embedder.texts.clear()
        changed = [Document("auth", SERVICES[0].text + " It is new.", "Auth Service"), *SERVICES[1:]]
        texts = index.to_embed(changed)
        index.add(changed)
        assert set(texts) == set(embedder.texts)
        assert all("It is new" in text for text in texts)


@pytest.mark.parametrize("embeds", [True, False])
def test_to_embed_leaves_out_documents_whose_vectors_are_known(embeds):
    embedder = CountingEmbedder()
    vectors = {document.id: HashEmbedder().embed_query(document.text) for document in SERVICES[:2]}
    with KnowledgeIndex(embedder, embed_names=embeds) as index:
        texts = index.to_embed(SERVICES, vectors)
        index.add(SERVICES, vectors=vectors)
        assert set(texts) == set(embedder.texts)


def test_vectors_may_be_filled_in_while_the_documents_are_read(capsys):
    class Source:
        """Holds the vectors of one batch at a time; its length is known."""

        def __init__(self) -> None:
            self.vectors: dict[str, np.ndarray] = {}

        def __len__(self) -> int:
            return len(SERVICES)

        def __iter__(self):
            for document in SERVICES:
                if len(self.vectors) == 2:
                    self.vectors.clear()
                self.vectors[document.id] = HashEmbedder().embed_query(document.text)
                yield document

    embedder, source = CountingEmbedder(), Source()
    with KnowledgeIndex(embedder, embed_names=False, batch_size=2, progress=True) as index:
        index.add(source, vectors=source.vectors)
        assert len(index) == len(SERVICES)
        assert embedder.texts == []
    assert f"/{len(SERVICES)}" in capsys.readouterr().err


@pytest.mark.parametrize("embeds", [True, False])
def test_texts_embedded_before_are_not_embedded_again(embeds):
    embedder = CountingEmbedder()
    with (
        KnowledgeIndex(embedder, embed_names=embeds) as index,
        KnowledgeIndex(HashEmbedder(), embed_names=embeds) as plain,
    ):
        texts = index.to_embed(SERVICES)
        vectors = [[2.0 * number for number in vector] for vector in HashEmbedder().embed_documents(texts).tolist()]
        index.add(SERVICES, embeddings={**dict(zip(texts, vectors, strict=True)), "another text": [1.0]})
        plain.add(SERVICES)
        assert embedder.texts == []
        assert snapshot(index) == snapshot(plain)


@pytest.mark.parametrize("vector", [[1.0, 2.0], [float("nan")] * 64, "text", None])
def test_a_vector_computed_before_is_checked_like_the_embedders(vector):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(SERVICES[:1])
        before = snapshot(index)
        text = index.to_embed(SERVICES[1:])[0]
        with pytest.raises(EmbedderError, match="hash-64"):
            index.add(SERVICES[1:], embeddings={text: vector})
        assert snapshot(index) == before


def test_a_hit_as_plain_data_has_everything_but_text_metadata_and_score(services):
    result = GraphRetriever(services).retrieve("Who runs the OAuth Provider?")
    hit = result.hits[0]
    told = result.details(hit)
    assert json.loads(json.dumps(told)) == told
    assert told["document_id"] == hit.chunk.document_id
    assert told["entities"] == ["OAuth Provider"]
    assert told["channels"]["vector"]["rank"] == hit.channels["vector"].rank
    assert [step["text"] for step in told["path"]] == [step.text for step in hit.path]
    assert (told["method"], told["decided"], told["origin"]) == ("hybrid", result.decided, hit.origin)
    told["path"].clear()
    assert result.details(hit)["path"]
