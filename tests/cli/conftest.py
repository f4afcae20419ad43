"""A folder with a file of every format, and a function that runs the command line."""

from __future__ import annotations

import pytest
from files import write_samples
from typer.testing import CliRunner

from graphrag_apps.cli import demo, options
from graphrag_apps.cli.app import app
from graphrag_apps.demo import FOLDER
from graphrag_core.embedders import WordLlama


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
    return WordLlama()


@pytest.fixture(scope="session")
def indexed(tmp_path_factory, wordllama):
    """An index of the sample documents, created once by the command line."""
    folder = tmp_path_factory.mktemp("indexed") / "kb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "WordLlama", lambda: wordllama)
        assert CliRunner().invoke(app, ["index", str(FOLDER), "--kb", str(folder)]).exit_code == 0
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch, wordllama):
    """Run a command in an empty folder, without color, in 100 columns."""
    for module in (options, demo):
        monkeypatch.setattr(module, "WordLlama", lambda: wordllama)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HYBRID_GRAPHRAG_KB"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments, stdin=None):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def retriever_settings(tmp_path):
    """A function that writes the section [retriever] of a settings file."""

    def write(text):
        (tmp_path / "hybrid-graphrag.toml").write_text(f"[retriever]\n{text}\n", "utf-8")

    return write
