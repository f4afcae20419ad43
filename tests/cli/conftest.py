"""A folder with a file of every format, and a function that runs the command line."""

from __future__ import annotations

import pytest
from commands import run_command
from files import write_samples

from graphrag_apps.demo import FOLDER
from graphrag_core import embedders


@pytest.fixture
def docs(tmp_path):
    """Nine files of nine formats."""
    folder = tmp_path / "docs"
    folder.mkdir()
    write_samples(folder)
    return folder


@pytest.fixture(scope="session")
def wordllama():
    """One model for all runs: loading it takes longer than most tests."""
    return embedders.WordLlama()


@pytest.fixture(scope="session")
def indexed(tmp_path_factory, wordllama):
    """An index of the sample documents, created once by the command line."""
    folder = tmp_path_factory.mktemp("indexed") / "kb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedders, "WordLlama", lambda: wordllama)
        assert run_command("index", FOLDER, "--kb", folder).exit_code == 0
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch, wordllama):
    """Run a command in an empty folder, without color, in 100 columns."""
    monkeypatch.setattr(embedders, "WordLlama", lambda: wordllama)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HYBRID_GRAPHRAG_KB"):
        monkeypatch.delenv(name, raising=False)
    return run_command
