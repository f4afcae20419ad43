"""Embedders by name, and the classes that call a server, against a real HTTP server."""

from __future__ import annotations

import pickle
import sys
from contextlib import closing

import numpy as np
import pytest
from model_server import EMBEDDER, EmbeddingServer

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import OllamaEmbedder, OpenAIEmbedder, openai
from graphrag_core.errors import EmbedderError, EmbedderMismatch, InputError, MissingDependency
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


def test_a_batch_is_limited_by_characters_too(embedder, server, monkeypatch):
    monkeypatch.setattr(openai, "_BATCH_CHARACTERS", 10)
    embedder.embed_documents(["12345678", "12", "345"])
    assert sorted(server.sizes) == [1, 2]


def test_blank_texts_are_not_sent(embedder, server):
    assert len(embedder.embed_documents(["", " ", "x"])) == 3
    assert all(text.strip() for text in server.bodies[0]["input"])


def test_a_busy_server_is_asked_again(embedder, server):
    server.status = [429, 500]
    assert np.allclose(embedder.embed_query("who?"), EMBEDDER.embed_query("who?"))
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (401, "refused the API key .*: check OPENAI_API_KEY"),
        (404, "check the name of the model, 'small'"),
        (429, "rate limit"),
        (400, "check the model"),
    ],
)
def test_an_error_says_what_to_do(embedder, server, code, advice):
    server.status = [code] * 3
    with pytest.raises(EmbedderError, match=advice) as error:
        embedder.embed_query("who?")
    assert f"HTTP {code}" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1/", "https://eu.api.openai.com/v1"])
@pytest.mark.parametrize("key", [None, "", " \n"])
def test_openai_is_not_asked_without_a_key(monkeypatch, url, key):
    """It was asked six times, and the error said to check the network."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", key or "")
    embedder = OpenAIEmbedder("small", base_url=url, api_key=key, retries=0)
    for embed in (embedder.embed_query, lambda text: embedder.embed_documents([text] * 300)):
        with pytest.raises(EmbedderError, match=r"openai\.com/v1 needs an API key: set OPENAI_API_KEY"):
            embed("who?")
    assert embedder._client is None, "nothing was sent"


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


@pytest.mark.parametrize(
    "answer",
    [{"object": "list", "data": [], "model": "m"}, {"data": [{"index": 0}]}, {"hello": "world"}, ["no"]],
)
def test_what_is_no_embedding_is_refused(embedder, server, answer):
    server.value = answer
    with pytest.raises(EmbedderError):
        embedder.embed_query("who?")


def test_no_server_is_an_error_that_names_the_address():
    lost = OpenAIEmbedder("small", base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbedderError, match=r"no answer from http://127.0.0.1:9/v1 .*start the server"):
        lost.embed_query("who?")
    lost.close()
    lost = OllamaEmbedder("nomic", base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbedderError, match="ollama serve"):
        lost.embed_query("who?")
    lost.close()


def test_settings_are_checked_and_read_from_the_environment(monkeypatch):
    for bad in ("ftp://x", "nonsense", "http://user:pw@host/v1"):
        with pytest.raises(InputError, match="base URL"):
            OpenAIEmbedder("small", base_url=bad)
    with pytest.raises(InputError, match="name one"):
        OpenAIEmbedder("")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one.example/v1/")
    assert OpenAIEmbedder("small").base_url == "http://one.example/v1"
    for host, url in [
        ("", "http://localhost:11434/v1"),
        ("0.0.0.0:5", "http://localhost:5/v1"),
        ("box", "http://box:11434/v1"),
    ]:
        monkeypatch.setenv("OLLAMA_HOST", host)
        assert OllamaEmbedder("nomic").base_url == url
    assert OpenAIEmbedder("small", dimensions=8, query_prefix="q: ").identity == "openai:small 8 dimensions q:"


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


def test_without_openai_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingDependency, match=r"hybrid-graphrag\[openai\]"):
        OpenAIEmbedder("small")


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


def test_a_failing_embedder_indexes_nothing_and_says_why(run, docs, server):
    server.status = [401] * 20
    result = run("index", docs / "tide.md", "--embedder", "openai:small", "--embedder-url", server.url)
    assert result.exit_code == 1
    assert "HTTP 401" in result.stderr
    assert "set OPENAI_API_KEY" in result.stderr


def test_the_command_names_the_variable_of_a_missing_key(run, docs):
    result = run("index", docs / "tide.md", "--embedder", "openai:small")
    assert result.exit_code == 1
    assert "https://api.openai.com/v1 needs an API key: set OPENAI_API_KEY" in result.stderr


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


def test_another_model_of_the_same_server_is_a_mismatch(server, tmp_path):
    one, two = (OpenAIEmbedder(name, base_url=server.url) for name in ("a", "b"))
    with KnowledgeIndex.open(tmp_path / "kb", one) as index:
        index.add([Document("1", "The Auth Service.")])
    with pytest.raises(EmbedderMismatch, match="built with openai:a, not with openai:b"):
        KnowledgeIndex.open(tmp_path / "kb", two)
    one.close()


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
