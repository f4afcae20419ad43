"""Our own parts pass the compliance suites that we ship."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from graphrag_core import (
    Combined,
    KnowledgeExtractor,
    LLMExtractor,
    SentenceExtractor,
)
from graphrag_core.embedders import Onnx, WordLlama
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
)


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


def test_the_embedded_embedder_does_not_import_wordllama():
    code = """
import sys
from graphrag_core.embedders import WordLlama
WordLlama()
print("wordllama" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
