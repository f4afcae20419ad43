"""Public names, imports, and the error without LlamaIndex."""

from __future__ import annotations

import subprocess
import sys


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
