"""For callers that embed elsewhere, or put hits into a framework's metadata."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import SERVICES, snapshot, vector_search

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.errors import DocumentError, EmbedderError
from graphrag_core.ingest.embedding import CheckedEmbedder, unit_vector
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


def test_texts_that_were_not_embedded_before_are_embedded():
    embedder = CountingEmbedder()
    with (
        KnowledgeIndex(embedder, embed_names=False) as index,
        KnowledgeIndex(CountingEmbedder()) as plain,
    ):
        texts = index.to_embed(SERVICES)
        known = {text: HashEmbedder().embed_query(text) for text in texts[1:3]}
        index.add(SERVICES, embeddings=known)
        assert embedder.texts == [texts[0], *texts[3:]]
        plain.add(SERVICES)
        assert vector_search(index, "tokens", 4) == vector_search(plain, "tokens", 4)


@pytest.mark.parametrize("vector", [[1.0, 2.0], [float("nan")] * 64, "text", None])
def test_a_vector_computed_before_is_checked_like_the_embedders(vector):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(SERVICES[:1])
        before = snapshot(index)
        text = index.to_embed(SERVICES[1:])[0]
        with pytest.raises(EmbedderError, match="hash-64"):
            index.add(SERVICES[1:], embeddings={text: vector})
        assert snapshot(index) == before


def test_a_document_that_cannot_be_added_is_refused_before_it_is_embedded():
    with KnowledgeIndex(HashEmbedder()) as index, pytest.raises(DocumentError, match="'x': the text is empty"):
        index.to_embed([Document("x", " ")])


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


def test_a_unit_vector_stays_as_it_is_however_it_comes():
    """A question that is embedded by the core, by the caller or normalised twice has the same vector."""
    embedder = CheckedEmbedder(HashEmbedder())
    for text in ("Ada Lovelace met Lord Byron in Vienna", "a red fox", "東京は日本の首都です", "x y z " * 9):
        vector = embedder.query(text)
        assert np.array_equal(unit_vector(vector.tolist(), None), vector)
        assert np.array_equal(unit_vector(unit_vector(HashEmbedder().embed_query(text), None), None), vector)
        assert np.allclose(unit_vector(3 * vector, None), vector)
        assert np.array_equal(embedder.documents([text, "other"], ["a", "b"])[0], vector)


def test_token_ids_are_optional_and_checked():
    class Large(HashEmbedder):
        vector_weight = "high"

        def token_ids(self, texts):
            return [np.array([70_000]) for _ in texts]

        def embed_tokens(self, counts, ids):
            raise AssertionError("not asked for")

        def token_vectors(self, ids):
            raise ConnectionError("no connection")

    llama, plain, large = CheckedEmbedder(WordLlama()), CheckedEmbedder(HashEmbedder()), CheckedEmbedder(Large())
    assert (llama.has_tokens, plain.has_tokens, large.has_tokens) == (True, False, True)
    assert (llama.vector_weight, plain.vector_weight, large.vector_weight) == (0.4, 0.5, 0.5)
    (ids,) = llama.token_ids(["a red fox"])
    assert np.array_equal(llama.token_vectors(ids), WordLlama().token_vectors(ids))
    with pytest.raises(EmbedderError, match="more than 65,536 tokens"):
        large.token_ids(["a red fox"])
    with pytest.raises(EmbedderError, match="ConnectionError on 1 tokens"):
        large.token_vectors(ids[:1])
