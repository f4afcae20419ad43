"""Public names, imports, and the error without LlamaIndex."""

from __future__ import annotations

import subprocess
import sys

import llama_graphrag


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_are_these():
    assert sorted(llama_graphrag.__all__) == [
        "GraphContextPostprocessor", "GraphRAGInsertEvent", "GraphRAGMemoryBlock", "GraphRAGRetrievalEvent",
        "GraphRAGRetriever", "GraphRAGVectorStore",
        "LocalEmbedding", "memory_search_tool", "memory_tools", "postprocessor_reranker",
    ]  # fmt: skip
    assert all(hasattr(llama_graphrag, name) for name in llama_graphrag.__all__)


def test_without_llama_index_the_import_says_what_to_install():
    code = """
import sys
sys.modules["llama_index"] = None
from graphrag_core.errors import MissingDependency
try:
    import llama_graphrag
except MissingDependency as error:
    print(error)
"""
    assert "pip install 'hybrid-graphrag[llama]'" in python(code)


def test_the_import_loads_no_library_that_only_an_index_needs():
    code = """
import sys, warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of LlamaIndex's dependencies
    import llama_index.core
before = set(sys.modules)
import llama_graphrag
heavy = {"faiss", "igraph", "jinja2", "json_repair", "markdown_it", "psycopg", "scipy", "tantivy"}
print(heavy & (sys.modules.keys() - before))
"""
    assert python(code).strip() == "set()"


def test_nothing_of_langchain_is_imported():
    code = """
import sys, warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of LlamaIndex's dependencies
    import llama_index.core
before = {name for name in sys.modules if name.startswith("langchain")}
from llama_index.core import Document
from llama_graphrag import GraphRAGRetriever
from graphrag_core.testing import HashEmbedder
GraphRAGRetriever.from_documents([Document(text="A fox.")], HashEmbedder()).retrieve("fox")
print({name for name in sys.modules if name.startswith("langchain")} - before)
"""
    assert python(code).strip() == "set()"
