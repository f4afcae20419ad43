"""Our own parts pass the compliance suites that we ship, and the public names are these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import wordllama

from graphrag_core import (
    Anchored,
    Combined,
    ExpansionQueries,
    KnowledgeExtractor,
    LLMExtractor,
    Neighbourhood,
    OwnScores,
    PageRank,
    ReciprocalRank,
    RelatedEntities,
    SentenceExtractor,
    SpreadingActivation,
    Weighted,
)
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.engine.embedded import EmbeddedEngine
from graphrag_core.testing import (
    EmbedderSuite,
    EngineSuite,
    ExtractorSuite,
    FusionSuite,
    HashEmbedder,
    StrategySuite,
    TokenCounterSuite,
)
from graphrag_core.text import estimate_tokens


class TestEngineInMemory(EngineSuite):
    def make(self):
        return EmbeddedEngine()


class TestEngineInAFolder(EngineSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folders = (tmp_path / str(number) for number in range(10))

    def make(self):
        return EmbeddedEngine(next(self.folders))


class TestPageRank(StrategySuite):
    def make(self):
        return PageRank()


class TestExactPageRank(StrategySuite):
    def make(self):
        return PageRank(tolerance=0)


class TestNeighbourhood(StrategySuite):
    def make(self):
        return Neighbourhood(min_graph_score=0.1, hops=2)


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


class TestAnchored(FusionSuite):
    def make(self):
        return Anchored()


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
        library = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
        texts = ["Auth Service", "the", "", "a  b <s> c", "東京 is Tokyo 🦊", *("word " * n for n in range(1, 1_100))]
        raw = np.nan_to_num(library.embed(texts, norm=False))
        unit = raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12)
        np.testing.assert_allclose(WordLlama().embed_documents(texts), unit, atol=1e-6)


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


def test_the_embedded_embedder_does_not_change_logging():
    code = """
import logging
from graphrag_core.embedders import WordLlama
WordLlama()
print(logging.getLogger().level == logging.WARNING, logging.getLogger().handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"
