"""Build sdist and wheel, check them for PyPI, install the wheel into empty environments, and use it there.

The examples of the README for LangChain and LlamaIndex are run, too. ``python tests/wheel_smoke.py WHEEL`` installs and
uses a wheel that was built before, with nothing but pip.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
USE = """
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import MissingDependency
from graphrag_core.testing import HashEmbedder
from graphrag_apps.demo import sample_documents
from graphrag_core.embedders import WordLlama
with KnowledgeIndex.open("kb", HashEmbedder()) as index:
    index.add(sample_documents())
    assert index.verify() and len(index) > 30
    assert "<svg" in GraphRetriever(index).retrieve("What does the Auth Service need?").html()
    from graphrag_apps.explore import Explorer, static_page
    assert "Cytoscape Consortium" in static_page(Explorer(GraphRetriever(index)), entity="Auth Service")
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
from graphrag_apps.cli import main
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
from langchain_core.documents import Document
from graphrag_core.testing import HashEmbedder
documents = [Document("The Auth Service needs Redis."), Document("Redis is slow.")]
with GraphRAGRetriever.from_documents(documents, HashEmbedder(), path="kb-langchain") as retriever:
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
        use_wheel(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else build_wheel(folder), folder)


def build_wheel(folder: Path) -> Path:
    """Build sdist and wheel in a folder and check them; return the wheel."""
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]  # the wheel is built from the sdist
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    check_contents(wheel, sdist)
    return wheel


def use_wheel(wheel: Path, folder: Path) -> None:
    """Install a wheel into environments below a folder: alone, and with each framework; use it, run the examples."""
    python = _environment(folder / "bare", str(wheel))
    subprocess.run([python, "-c", USE], check=True, cwd=folder)
    for extra in WITH:
        subprocess.run([python, "-c", MISSING.format(extra=extra)], check=True, cwd=folder)
    for extra, use in WITH.items():
        python = _environment(folder / extra, f"{wheel}[{extra}]")
        subprocess.run([python, "-c", use], check=True, cwd=folder)
        for other in WITH.keys() - {extra}:
            subprocess.run([python, "-c", MISSING.format(extra=other)], check=True, cwd=folder)
        _install(python, f"{wheel}[{extra},wordllama]")
        subprocess.run(
            [python, "-c", readme_example(f"{extra}_graphrag")], check=True, cwd=folder / extra
        )  # no other kb


def readme_example(package: str) -> str:
    """Return the first Python block of the README that imports a package."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if f"from {package} import" in block)


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check that every file of the packages is in the wheel, and that the README for PyPI has no relative address."""
    expected = set()
    packages = ("core/graphrag_core", "core/graphrag_apps", "langchain_graphrag", "llama_graphrag")
    for package in (ROOT / name for name in packages):
        files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        expected |= {path.relative_to(package.parent).as_posix() for path in files}
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name) for name in names if name.endswith(".dist-info/METADATA"))
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == expected, packed ^ expected
    assert {f"{Path(name).name}/py.typed" for name in packages} <= packed
    message = message_from_bytes(metadata)
    readme = bytes(message.get_payload(decode=True)).decode("utf-8")
    relative = re.findall(r"\]\((?!https?:|#)[^)]*\)|(?:src|srcset)=\"(?!https?:)[^\"]*", readme)
    assert not relative, relative
    assert "<!--" not in readme
    shown = re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    assert re.findall(r"```.*?```", readme, re.DOTALL) == re.findall(r"```.*?```", shown, re.DOTALL)
    assert message["License-Expression"] == "MIT"
    assert len(message.get_all("Project-URL")) == 5
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "tests/conftest.py"} <= inside


def _environment(folder: Path, requirement: str) -> Path:
    venv.create(folder)  # without a pip of its own: the one of this environment installs into it
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    _install(python, requirement)
    return python


def _install(python: Path, requirement: str) -> None:
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--no-compile", requirement]
    subprocess.run(install, check=True)


if __name__ == "__main__":
    main()
