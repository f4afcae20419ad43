"""The public names are exactly these: adding or removing one is a decision."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

import graphrag_core

NAMES = {
    "graphrag_core": """
        Added Cache Chunk Chunker Combined Document Edit Entity Extraction Fact GraphRetriever Hit
        KnowledgeExtractor KnowledgeIndex LLMExtractor Mention OpenAIChat Result SearchSettings SentenceExtractor Stats
        __version__
    """,
    "graphrag_core.strategies": """
        Additive CitationGraph ContextFormat Expansion ExpansionQueries Fusion Gate
        GraphStrategy Linear Neighbourhood OwnScores PageRank Query ReciprocalRank Recogniser RelatedEntities Relevance
        Reranked Reranker Route Router Rule SpreadingActivation Weighted
    """,
    "graphrag_core.embedders": "OllamaEmbedder Onnx OpenAIEmbedder WordLlama",
    "graphrag_core.testing": """
        CHAIN CHAIN_QUESTION CountingEmbedder EmbedderSuite ExtractorSuite FixedExtractor FusionSuite
        HashEmbedder StrategySuite run_suite
    """,
    "langchain_graphrag": """
        GraphRAGRetriever
        compressor_reranker create_memory_search_tool llm_extractor
    """,
    "llama_graphrag": """
        GraphRAGRetriever
        GraphRAGVectorStore LocalEmbedding
        memory_search_tool
    """,
}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_exactly_its_public_names(package):
    module = pytest.importorskip(package, reason="its framework is not installed", exc_type=ImportError)
    assert sorted(module.__all__) == sorted(NAMES[package].split())
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_names_at_the_root_and_the_search_settings_stay_few():
    assert len(NAMES["graphrag_core"].split()) <= 25
    settings = dataclasses.fields(graphrag_core.SearchSettings)
    assert len(settings) <= 15
    assert not any(isinstance(getattr(graphrag_core.SearchSettings(), field.name), Mapping) for field in settings)


@pytest.mark.parametrize("package", ["langchain_graphrag", "llama_graphrag"])
def test_an_editor_shows_at_most_40_keywords(package):
    module = pytest.importorskip(f"{package}.retriever", reason="its framework is not installed", exc_type=ImportError)
    assert len(module.NewOptions.__annotations__) <= 40


def test_the_root_of_the_core_holds_what_users_import_and_what_all_layers_use():
    root = Path(graphrag_core.__file__).parent
    assert sorted(path.name for path in root.glob("*.py")) == sorted(
        ["__init__.py", "adapter.py", "communities.py", "deadline.py", "designs.py", "errors.py", "filters.py",
         "forks.py", "graph.py", "index.py", "key_sets.py", "lazy.py", "llm.py", "memory.py", "model.py",
         "ports.py", "remarks.py", "research.py", "result.py", "retriever.py", "strategies.py", "telemetry.py"]
    )  # fmt: skip


def test_every_package_says_what_it_is_for():
    root = Path(graphrag_core.__file__).parent
    for path in [*root.glob("*/__init__.py"), *root.glob("*/*/__init__.py")]:
        assert len(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "") > 80, path
