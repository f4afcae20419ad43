"""Our own parts run the suites that we give to others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import wordllama

from graphrag_core import Combined, LLMExtractor, SentenceExtractor, TripleExtractor
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.stores.graph import IgraphGraph
from graphrag_core.stores.keywords import TantivyKeywords
from graphrag_core.stores.vectors import FaissVectors
from graphrag_core.testing import (
    EmbedderSuite,
    ExtractorSuite,
    GraphStoreSuite,
    HashEmbedder,
    KeywordStoreSuite,
    TokenCounterSuite,
    VectorStoreSuite,
)
from graphrag_core.text import estimate_tokens


class TestFlatVectors(VectorStoreSuite):
    def make(self):
        return FaissVectors(self.dim)


class TestInvertedLists(VectorStoreSuite):
    def make(self):
        return FaissVectors(self.dim, approximate_from=40)


class TestTantivy(KeywordStoreSuite):
    def make(self, folder):
        return TantivyKeywords(folder)


class TestIgraph(GraphStoreSuite):
    def make(self):
        return IgraphGraph()


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
        return TripleExtractor(triples={"1": [("Auth Service", "depends on", "OAuth Provider"), ("", "x", "y")]})


class TestLanguageModel(ExtractorSuite):
    def make(self):
        answer = '{"entities": [{"name": "IBM"}], "relations": []}'
        return Combined(SentenceExtractor(), LLMExtractor(lambda prompt: answer, progress=False))


class TestEstimate(TokenCounterSuite):
    def make(self):
        return estimate_tokens


def test_the_embedded_embedder_leaves_logging_as_it_was():
    code = """
import logging
from graphrag_core.embedders import WordLlama
WordLlama()
print(logging.getLogger().level == logging.WARNING, logging.getLogger().handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"
