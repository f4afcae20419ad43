"""``index --llm``: API keys, unreachable servers, interruption and resumption."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest
from files import DOCUMENTS
from model_server import ChatServer

from graphrag_core import Chunk, KnowledgeIndex, LLMExtractor, OpenAIChat
from graphrag_core.errors import InputError, LLMError, LLMUnreachable
from graphrag_core.llm import parse_llm


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


def test_a_rejected_api_key_is_one_line(run, docs, server):
    server.status = [401]
    result = run("index", docs, "--llm", f"{server.url}/tiny")
    assert result.exit_code == 1
    assert result.stderr == f"✗ {server.url} needs an API key (HTTP 401): set OPENAI_API_KEY\n"


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_openai_is_not_asked_without_a_key(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key or "")
    model = OpenAIChat("gpt-4o-mini", api_key=key)
    monkeypatch.setattr(model, "_client", None)  # nothing is sent
    for ask in (model, model.stream, lambda _: model.check()):
        with pytest.raises(LLMUnreachable, match=r"openai\.com/v1 needs an API key: set OPENAI_API_KEY"):
            list(ask([{"role": "user", "content": "Where?"}]) or ())


def test_a_refused_key_is_not_tried_again_and_named_for_each_passage(server):
    server.status = [401] * 9
    with closing(OpenAIChat("tiny", server.url, api_key="sk-old\n")) as model:
        with pytest.raises(LLMUnreachable, match=r"refused the API key \(HTTP 401\): check OPENAI_API_KEY"):
            model.check()
        extractor = LLMExtractor(model, concurrency=1, progress=False)
        found = extractor.extract([Chunk(f"{at}", f"{at}", f"Passage {at} about Bergen.") for at in range(5)])
    assert all("refused the API key (HTTP 401): check OPENAI_API_KEY" in one.problem for one in found)
    assert len(server.bodies) == 3, "once for a passage; then the server counts as unreachable"


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


def test_a_busy_server_is_retried_and_a_dead_one_is_not_called_again(server):
    model = OpenAIChat("tiny", server.url)
    server.status = [429, 503]
    assert "Bergen" in model("Where?")
    assert len(server.bodies) == 3
    server.status = [400]
    with pytest.raises(LLMError, match="returned HTTP 400"):
        model("Where?")
    server.status = [500] * 12
    for _ in range(3):
        with pytest.raises(LLMUnreachable, match="returned HTTP 500"):
            model("Where?")
    before = len(server.bodies)
    with pytest.raises(LLMUnreachable, match="has stopped answering"):
        model("Where?")
    assert len(server.bodies) == before


def test_a_server_that_writes_nothing_has_a_time_limit(server):
    model = OpenAIChat("tiny", server.url, timeout=0.2)
    server.hold_after = 0
    for ask in (model, lambda prompt: list(model.stream([{"role": "user", "content": prompt}]))):
        with pytest.raises(LLMUnreachable, match="did not answer in time: raise timeout"):
            ask("Where?")
    server.release.set()


def test_no_authorization_header_is_sent_without_an_api_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    OpenAIChat("tiny", server.url)("Where?")
    OpenAIChat("tiny", server.url, api_key="sk-test")("Where?")
    assert server.keys == ["", "Bearer sk-test"]


@pytest.mark.parametrize("content", ["{}", '{"choices": []}', "<html>Sign in</html>", "[1]"])
def test_an_answer_that_is_no_chat_completion_is_one_clear_error(server, content):
    server.body = content
    with pytest.raises(LLMError, match="did not return a chat completion"):
        OpenAIChat("tiny", server.url)("Where?")


def test_a_missing_openai_package_is_one_line_with_the_command_that_installs_it(
    run, docs, server, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "openai", None)
    result = run("index", docs, "--llm", f"{server.url}/tiny")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "✗ --llm needs 'openai': pip install 'hybrid-graphrag[openai]'\n"
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize("value", ["http://", "https:///v1/x", "http://host/v1/", ""])
def test_invalid_urls_are_rejected(value):
    with pytest.raises(InputError, match="give a model"):
        parse_llm(value, None)


def test_ctrl_c_keeps_finished_work_and_the_next_run_continues(server, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(60):
        (docs / f"{number:02}.md").write_text(f"# Note {number}\n\nThe Tide Feed has note {number}.")
    server.hold_after = 40  # inside the second batch of 25
    command = [sys.executable, "-m", "graphrag_apps", "index", "docs", "--llm", f"{server.url}/tiny"]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        assert server.holding.wait(120), process.communicate(timeout=120)
        process.send_signal(signal.SIGINT)
        server.hold_after = None
        server.release.set()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted: 25 documents are in the index and stay, 25 of them new; run the same command again" in errors
    assert "Traceback" not in errors
    with KnowledgeIndex.open(tmp_path / "kb") as index:
        assert len(index) == 25
        assert index.verify()
    paid = len(server.bodies)
    done = subprocess.run(command, cwd=tmp_path, env=environment, **pipes, check=True)
    assert "35 added, 0 changed, 0 removed, 25 unchanged" in done.stdout
    assert len(server.bodies) <= 60 + 4, "only calls in flight may be repeated"
    assert paid >= 41


def test_a_server_that_is_not_there_is_named_whichever_http_library_openai_uses(nobody, monkeypatch):
    import openai

    used = openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
    for name in {"httpx", "httpx2"} - {used}:
        monkeypatch.setitem(sys.modules, name, None)  # not installed
    with pytest.raises(LLMUnreachable, match="start the server"):
        OpenAIChat("tiny", nobody)("x")
