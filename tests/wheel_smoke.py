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
import llama_graphrag, langchain_graphrag
with KnowledgeIndex.open("kb", HashEmbedder()) as index:
    index.add(sample_documents())
    assert index.verify() and len(index) > 30
    assert "<svg" in GraphRetriever(index).retrieve("What does the Auth Service need?").html()
try:
    WordLlama()
except MissingDependency as error:
    assert "pip install 'hybrid-graphrag[cli]'" in str(error)
else:
    raise AssertionError("wordllama is not a dependency of the bare wheel")
from graphrag_core.cli import main
try:
    main(["--version"])
except SystemExit as error:
    assert "pip install 'hybrid-graphrag[cli]'" in str(error)
else:
    raise AssertionError("typer is not a dependency of the bare wheel")
print("the wheel works in an empty environment")
"""


def main() -> None:
    """Run it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, capture_output=True)
        subprocess.run([python, "-c", USE], check=True, cwd=folder)


if __name__ == "__main__":
    main()
