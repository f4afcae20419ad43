"""Build the wheel, install it into an empty environment, and use it there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
USE = """
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import MissingDependency
from graphrag_core.testing import HashEmbedder
from graphrag_core.demo import sample_documents
from graphrag_core.embedders import WordLlama
with KnowledgeIndex.open("kb", HashEmbedder()) as index:
    index.add(sample_documents())
    assert index.verify() and len(index) > 30
    assert "<svg" in GraphRetriever(index).retrieve("What does the Auth Service need?").html()
try:
    WordLlama()
except MissingDependency as error:
    assert "pip install 'hybrid-graphrag[wordllama]'" in str(error)
else:
    raise AssertionError("wordllama is not a dependency of the bare wheel")
try:
    KnowledgeIndex.open("postgresql://localhost/kb")
except MissingDependency as error:
    assert "pip install 'hybrid-graphrag[postgres]'" in str(error)
else:
    raise AssertionError("psycopg is not a dependency of the bare wheel")
from graphrag_core.cli import main
try:
    main(["--version"])
except SystemExit as error:
    assert "pip install 'hybrid-graphrag[cli]'" in str(error)
else:
    raise AssertionError("typer is not a dependency of the bare wheel")
print("the wheel works in an empty environment")
"""
WITH = {
    "langchain": """
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool
from graphrag_core.testing import HashEmbedder
texts = ["The Auth Service needs Redis.", "Redis is slow."]
with GraphRAGRetriever.from_texts(texts, HashEmbedder(), path="kb-langchain") as retriever:
    assert len(create_memory_search_tool(retriever).invoke({"query": "What does the Auth Service need?"})) > 20
print("the wheel works with the extra langchain alone")
""",
    "llama": """
from llama_index.core.schema import TextNode
from llama_graphrag import GraphRAGRetriever, memory_search_tool
from graphrag_core.testing import HashEmbedder
nodes = [TextNode(text="The Auth Service needs Redis."), TextNode(text="Redis is slow.")]
with GraphRAGRetriever.from_nodes(nodes, HashEmbedder(), path="kb-llama") as retriever:
    assert len(memory_search_tool(retriever).call(query="What does the Auth Service need?").raw_output) == 2
print("the wheel works with the extra llama alone")
""",
}
"""What each adapter does when its extra, and nothing else, is installed."""

MISSING = """
from graphrag_core.errors import MissingDependency
try:
    import {extra}_graphrag
except MissingDependency as error:
    assert "pip install 'hybrid-graphrag[{extra}]'" in str(error), error
else:
    raise AssertionError("{extra}_graphrag was imported without what it needs")
"""


def main() -> None:
    """Run it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        python = _environment(folder / "bare", str(wheel))
        subprocess.run([python, "-c", USE], check=True, cwd=folder)
        for extra in WITH:
            subprocess.run([python, "-c", MISSING.format(extra=extra)], check=True, cwd=folder)
        for extra, use in WITH.items():
            python = _environment(folder / extra, f"{wheel}[{extra}]")
            subprocess.run([python, "-c", use], check=True, cwd=folder)
            for other in WITH.keys() - {extra}:
                subprocess.run([python, "-c", MISSING.format(extra=other)], check=True, cwd=folder)


def _environment(folder: Path, requirement: str) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True, capture_output=True)
    return python


if __name__ == "__main__":
    main()
