"""The commands serve and key, in a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from commands import run_command
from serving import DOCUMENTS, LIMIT, QUESTION, StreamingModel, process

import graphrag_core
from graphrag_apps.serve import ApiKeys
from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kb(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        index.add(DOCUMENTS)
    return tmp_path / "kb"


def run(*arguments):
    return run_command(*arguments)


def test_serve_with_keys_writes_ends_gracefully_and_starts_again(kb, tmp_path):
    keys = tmp_path / "keys.toml"
    secrets = {
        name: run("key", "new", "--keys", keys, "--name", name, *more).stdout.strip()
        for name, more in {"identity": ["--filter", "team=identity", "--write"], "all": []}.items()
    }
    with (
        process(kb, "serve", "--port", "0", "--keys", keys, "--write") as (_, url, log),
        httpx.Client(base_url=url, timeout=LIMIT) as client,
    ):
        assert client.get("/v1/stats").status_code == 401
        headers = {name: {"Authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
        assert client.get("/v1/stats", headers=headers["all"]).json()["documents"] == 3
        assert client.get("/v1/stats", headers=headers["identity"]).json()["documents"] == 2
        body = {"documents": [{"id": "new", "text": "Keyring stores secrets."}]}
        assert client.post("/v1/documents", json=body, headers=headers["all"]).status_code == 403
        assert client.post("/v1/documents", json=body, headers=headers["identity"]).status_code == 200
        client.post("/v1/query", json={"question": QUESTION}, headers=headers["all"])
    told = log.read_text("utf-8")
    assert re.search(r"POST /v1/query 200 \d+ ms all", told)
    assert "OAuth" not in told
    assert not any(secret in told for secret in secrets.values())
    with process(kb, "serve", "--port", "0") as (_, url, _):
        assert httpx.get(f"{url}/v1/documents/new", timeout=LIMIT).json()["metadata"] == {"team": "identity"}
        refused = httpx.post(f"{url}/v1/documents", json=body, timeout=LIMIT)
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "NotAllowed")


def test_serve_finishes_an_answer_before_it_ends(kb):
    model = StreamingModel()
    model.mode = "stall"
    try:
        with process(kb, "serve", "--port", "0", "--llm", f"{model.url}/m") as (started, url, _):
            body = {"question": QUESTION, "stream": True}
            with httpx.stream("POST", f"{url}/v1/ask", json=body, timeout=LIMIT) as response:
                assert model.stalled.wait(LIMIT)
                started.send_signal(signal.SIGTERM)
                model.release.set()
                text = response.read().decode()
            assert "event: answer" in text
    finally:
        model.close()


def test_a_server_for_a_network_needs_keys(kb, tmp_path):
    refused = run("serve", "--kb", kb, "--embedder", "hash", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert refused.exit_code == 1
    assert "--no-auth" in refused.stderr
    assert "key new" in refused.stderr
    empty = tmp_path / "empty.toml"
    empty.write_text("", "utf-8")
    assert "has no keys" in run("serve", "--kb", kb, "--keys", empty).stderr
    assert "no index" in run("serve", "--kb", tmp_path / "nothing").stderr
    assert "no index" in run("mcp", "--kb", tmp_path / "nothing", "--write").stderr
    assert run("mcp", "--kb", kb, "--keys", empty).exit_code == 2


def test_a_key_is_made(tmp_path):
    keys = tmp_path / "keys.toml"
    made = run("key", "new", "--keys", keys, "--name", "a", "--filter", "tenant=a", "--filter", "year>=2020")
    assert made.exit_code == 0
    assert ApiKeys.load(keys).authenticate(made.stdout.strip()).restricted
    assert run("key", "new", "--keys", keys, "--name", "a").exit_code == 1


def test_server_json_and_the_dockerfile_name_what_exists():
    server = json.loads((ROOT / "server.json").read_text("utf-8"))
    package = server["packages"][0]
    assert server["version"] == package["version"] == graphrag_core.__version__
    assert len(server["description"]) <= 100
    assert f"mcp-name: {server['name']}" in (ROOT / "README.md").read_text("utf-8")
    help_text = run("mcp", "--help").stdout
    for argument in package["packageArguments"]:
        assert argument.get("name", "") in help_text
    extras = (ROOT / "pyproject.toml").read_text("utf-8")
    for extra in ("serve", "mcp"):
        assert f"\n{extra} = [" in extras
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    assert "HEALTHCHECK" in docker
    assert "USER graphrag" in docker


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_a_command_without_its_extra_names_that_extra(command):
    missing = dict.fromkeys(("fastapi", "mcp", "starlette", "uvicorn"))
    code = f"import sys; sys.modules.update({missing}); from graphrag_apps.cli import main; main([{command!r}])"
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT / "core")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f": pip install 'hybrid-graphrag[{command}]'")
