"""``index --llm``: API keys, unreachable servers, interruption and resumption."""

from __future__ import annotations

import socket

import pytest
from files import DOCUMENTS
from model_server import ChatServer


@pytest.fixture
def server():
    with ChatServer() as running:
        yield running


@pytest.fixture
def nobody():
    """A URL where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def test_an_llm_adds_typed_facts_and_is_not_called_twice(run, docs, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    result = run("index", docs, "--llm", f"{server.url}/tiny")
    assert result.exit_code == 0
    assert len(server.bodies) == DOCUMENTS
    assert set(server.keys) == {"Bearer sk-test"}
    assert f"tiny: {DOCUMENTS} calls, about " in result.stdout
    assert "serves (11)" in run("stats").stdout
    again = run("index", docs)
    assert f"{DOCUMENTS} unchanged" in again.stdout, "the model is stored with the index, and has nothing to read"
    assert len(server.bodies) == DOCUMENTS
    (docs / "tide.md").write_text("# Tide Feed\n\nThe Tide Feed moved to Oslo.")
    run("index", docs)
    assert len(server.bodies) == DOCUMENTS + 1


def test_the_api_key_is_not_stored(run, docs, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    run("index", docs, "--llm", f"{server.url}/tiny")
    for path in (tmp_path / "kb").rglob("*"):
        if path.is_file():
            assert b"sk-very-secret" not in path.read_bytes(), path


def test_an_unreachable_server_is_one_line_and_nothing_is_indexed(run, docs, nobody, tmp_path):
    result = run("index", docs, "--llm", f"{nobody}/tiny")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"✗ no answer from {nobody} (Connection refused): start the server, and try again\n"
    assert not (tmp_path / "kb").exists()


def test_documents_without_llm_facts_are_indexed_and_retried_in_the_next_run(run, docs, server):
    server.content = "I would rather not."
    result = run("index", docs, "--llm", f"{server.url}/tiny")
    assert result.exit_code == 1
    assert f"{DOCUMENTS} added" in result.stdout
    assert f"{DOCUMENTS} documents lack facts from the LLM" in result.stdout
    server.content = '{"entities": [{"name": "Bergen"}], "relations": []}'
    again = run("index", docs)
    assert again.exit_code == 0
    assert f"{DOCUMENTS} changed" in again.stdout
