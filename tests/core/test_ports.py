"""Our own parts pass the compliance suites that we ship, and the public names are these."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest
from engine_suite import EngineSuite

from graphrag_core import (
    Combined,
    KnowledgeExtractor,
    KnowledgeIndex,
    LLMExtractor,
    SearchSettings,
    SentenceExtractor,
    adapter,
)
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.strategies import (
    ExpansionQueries,
    Neighbourhood,
    OwnScores,
    PageRank,
    ReciprocalRank,
    RelatedEntities,
    SpreadingActivation,
    Weighted,
)
from graphrag_core.testing import (
    EmbedderSuite,
    ExtractorSuite,
    FusionSuite,
    HashEmbedder,
    StrategySuite,
    TokenCounterSuite,
)
from graphrag_core.text import estimate_tokens


class TestEngineInMemory(EngineSuite):
    def make(self):
        return IndexEngine()


class TestEngineInAFolder(EngineSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folders = (tmp_path / str(number) for number in range(10))

    def make(self):
        return IndexEngine(next(self.folders))


class TestPageRank(StrategySuite):
    def make(self):
        return PageRank()


class TestExactPageRank(StrategySuite):
    def make(self):
        return PageRank(tolerance=0)


class TestNeighbourhood(StrategySuite):
    def make(self):
        return Neighbourhood(hops=2)


class TestExpansionQueries(StrategySuite):
    def make(self):
        return ExpansionQueries()


class TestSpreadingActivation(StrategySuite):
    def make(self):
        return SpreadingActivation()


class TestRelatedEntities(StrategySuite):
    def make(self):
        return RelatedEntities()


class TestOwnScores(FusionSuite):
    def make(self):
        return OwnScores()


class TestWeighted(FusionSuite):
    def make(self):
        return Weighted()


class TestReciprocalRank(FusionSuite):
    def make(self):
        return ReciprocalRank()


class TestHashEmbedder(EmbedderSuite):
    def make(self):
        return HashEmbedder()


class TestWordLlama(EmbedderSuite):
    def make(self):
        return WordLlama()

    def test_vectors_are_those_of_the_library(self):
        # The first numbers of what wordllama 0.4 returns.
        expected = {
            "Auth Service": [-0.00261324, 0.06519611, 0.15094553, 0.05720085],
            "the": [0.00285498, 0.1008504, 0.03495427, 0.11080427],
            "": [0, 0, 0, 0],
            "a  b <s> c": [-0.12615861, 0.01672408, 0.00738928, 0.11830474],
            "東京 is Tokyo 🦊": [0.00686048, 0.0545427, 0.04403574, -0.01265636],
            "word " * 1_100: [-0.106287, -0.02582475, -0.03487319, 0.00372028],
        }
        vectors = self.make().embed_documents(list(expected))
        np.testing.assert_allclose(vectors[:, :4], list(expected.values()), atol=1e-6)

    def test_token_ids_are_in_order_and_make_the_vectors_of_texts(self):
        embedder = self.make()
        texts = ["a b b a", "", "<s> the", "word " * 1_100, *(f"number {count}" for count in range(1_100))]
        ids = embedder.token_ids(texts)
        assert len(ids) == len(texts)
        assert all(own.dtype == np.uint16 for own in ids)
        assert [len(own) for own in ids[:2]] == [4, 0]
        assert embedder.token_ids([]) == []
        tokens = [embedder._tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        assert [own.tolist() for own in ids] == tokens
        vectors = embedder.embed_tokens(np.array([*map(len, ids)]), np.concatenate(ids))
        np.testing.assert_allclose(vectors, embedder.embed_documents(texts), atol=1e-6)

    def test_the_vector_of_a_token_is_the_start_of_the_vector_of_its_word(self):
        embedder = self.make()
        (ids,) = embedder.token_ids(["the"])
        (token,), (word,) = embedder.token_vectors(ids), embedder.embed_documents(["the"])[:, :64]
        np.testing.assert_allclose(token, word / np.linalg.norm(word), atol=1e-6)
        every = embedder.token_vectors(np.arange(len(embedder._weights)))
        norms = np.linalg.norm(every, axis=1)
        np.testing.assert_allclose(norms[norms > 0], 1, atol=1e-5)
        assert embedder.token_vectors(ids[:0]).shape == (0, 64)

    def test_a_vector_does_not_depend_on_the_other_texts(self):
        texts = ["word " * (count % 40) for count in range(1_100)]  # more than one batch
        embedder = self.make()
        alone = np.stack([embedder.embed_query(text) for text in texts])
        np.testing.assert_array_equal(embedder.embed_documents(texts), alone)


class TestOnnx(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _model(self, shared):
        self.folder = shared / "models" / "minilm"

    def make(self):
        return Onnx(self.folder)


class TestSentences(ExtractorSuite):
    def make(self):
        return SentenceExtractor()


class TestTriples(ExtractorSuite):
    def make(self):
        return KnowledgeExtractor(knowledge={"1": [("Auth Service", "depends on", "OAuth Provider"), ("", "x", "y")]})


class TestLanguageModel(ExtractorSuite):
    def make(self):
        answer = '{"entities": [{"name": "IBM"}], "relations": []}'
        return Combined(SentenceExtractor(), LLMExtractor(lambda prompt: answer, progress=False))


class TestEstimate(TokenCounterSuite):
    def make(self):
        return estimate_tokens


def test_the_embedded_embedder_does_not_import_wordllama():
    code = """
import sys
from graphrag_core.embedders import WordLlama
WordLlama()
print("wordllama" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_options_of_the_adapters_are_those_of_settings_and_index():
    fields = {one.name for one in dataclasses.fields(SearchSettings)}
    index = set(inspect.signature(KnowledgeIndex).parameters) - {"embedder", "engine"}
    of_retriever = {"settings", "add_metadata", "cache", "refresh_every"}
    in_settings = {"gate", "recogniser", "router", "candidates"}  # typed code passes them in settings
    of_each = {"k", "progress"}  # LlamaIndex has its own words for them
    assert set(adapter.Options.__annotations__) >= (fields | index | of_retriever) - in_settings - of_each
