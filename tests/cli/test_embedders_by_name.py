"""Embedders by name, and the classes that call a server, against a real HTTP server."""

from __future__ import annotations

import pickle
from contextlib import closing

import numpy as np
import pytest
from model_server import EMBEDDER, EmbeddingServer

from graphrag_core.embedders import OllamaEmbedder, OpenAIEmbedder
from graphrag_core.errors import EmbedderError
from graphrag_core.testing import EmbedderSuite


@pytest.fixture
def server():
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def embedder(server):
    made = OpenAIEmbedder("small", base_url=server.url, api_key="secret", batch_size=3, retries=2)
    yield made
    made.close()


class TestSuite(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def make(self):
        return OpenAIEmbedder("small", base_url=self.server.url, batch_size=2)


def test_texts_are_sent_in_batches_and_come_back_in_order(embedder, server):
    texts = [f"text number {number}" for number in range(8)]
    assert np.allclose(embedder.embed_documents(texts), EMBEDDER.embed_documents(texts))
    assert sorted(server.sizes) == [2, 3, 3]
    assert set(server.keys) == {"Bearer secret"}
    assert embedder.embed_documents([]).shape == (0, 0)
    assert np.allclose(embedder.embed_queries(texts), EMBEDDER.embed_documents(texts))


def test_a_busy_server_is_asked_again(embedder, server):
    server.status = [429, 500]
    assert np.allclose(embedder.embed_query("who?"), EMBEDDER.embed_query("who?"))
    assert len(server.bodies) == 3


def test_a_refused_key_is_not_tried_again(server, embedder):
    server.status = [401] * 9
    with pytest.raises(EmbedderError, match=r"refused the API key \(HTTP 401\): check OPENAI_API_KEY"):
        embedder.embed_query("who?")
    assert len(server.bodies) == 1
    with (
        closing(OpenAIEmbedder("small", base_url=server.url, api_key="")) as keyless,
        pytest.raises(EmbedderError, match=r"needs an API key \(HTTP 401\): set OPENAI_API_KEY"),
    ):
        keyless.embed_query("who?")
    assert len(server.bodies) == 2


def test_no_server_is_an_error_that_names_the_address():
    lost = OpenAIEmbedder("small", base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbedderError, match=r"no answer from http://127.0.0.1:9/v1 .*start the server"):
        lost.embed_query("who?")
    lost.close()
    lost = OllamaEmbedder("nomic", base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbedderError, match="ollama serve"):
        lost.embed_query("who?")
    lost.close()


def test_a_key_is_in_no_pickle_and_no_repr(embedder):
    assert b"secret" not in pickle.dumps(embedder)
    assert "secret" not in repr(embedder)
    copy = pickle.loads(pickle.dumps(embedder))
    assert np.allclose(copy.embed_query("a b"), embedder.embed_query("a b"))
    copy.close()


def test_ollama_gets_no_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    local = OllamaEmbedder("nomic", base_url=server.url, query_prefix="search_query: ")
    local.embed_query("who?")
    local.close()
    assert server.keys == [""]
    assert server.bodies[0]["input"] == ["search_query: who?"]


def test_an_index_remembers_its_embedder_and_server(run, docs, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    made = run(
        "index", docs / "tide.md", docs / "planner.txt", "--embedder", "openai:small", "--embedder-url", server.url
    )
    assert made.exit_code == 0, made.output
    server.bodies.clear()
    found = run("query", "Who reads the Tide Feed?", "--json")
    assert found.exit_code == 0, found.output
    assert server.bodies[-1]["input"] == ["Who reads the Tide Feed?"]
    assert "openai:small" in run("stats").stdout
    assert not any(b"secret" in path.read_bytes() for path in (tmp_path / "kb").rglob("*") if path.is_file())
    assert run("index", docs / "tide.md").exit_code == 0
    for other in ("hash", "openai:large"):
        (tmp_path / "hybrid-graphrag.toml").write_text(f"embedder = '{other}'")
        refused = run("query", "Who?")
        assert refused.exit_code == 1
        assert "was built with openai:small" in refused.stderr
        assert "index the documents again into another folder" in refused.stderr


def test_a_name_that_is_none_is_refused(run, docs, tmp_path, server):
    for name, url, said in (
        ("opanai:m", None, "onnx:FOLDER"),
        ("hash", server.url, "is for openai:MODEL"),
        (f"onnx:{tmp_path}", None, "has no model"),
    ):
        result = run("index", docs, "--embedder", name, *(["--embedder-url", url] if url else []))
        assert result.exit_code == 1
        assert said in result.stderr
    assert not (tmp_path / "kb").exists()


def test_a_server_that_only_the_index_names_is_not_trusted(docs, run, server, tmp_path):
    url = server.url.replace("127.0.0.1", "127.1")  # the same address, by a name that is not one of this machine
    assert run("index", docs / "tide.md", "--embedder", "openai:small", "--embedder-url", url).exit_code == 0
    server.bodies.clear()
    result = run("query", "tide")
    assert result.exit_code == 1
    assert f"embedder-url = {url!r} in hybrid-graphrag.toml" in result.stderr
    assert server.bodies == []
    (tmp_path / "hybrid-graphrag.toml").write_text(f"embedder-url = {url!r}\n")
    assert run("query", "tide").exit_code == 0
    assert server.bodies
