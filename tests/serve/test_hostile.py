"""Requests, language models and key files that are broken or mean harm."""

from __future__ import annotations

import gzip
import json
import threading
import time

import httpx
import pytest
from serving import Gateway, client_of, connect, index_of, keys_of, served

from graphrag_apps.ask import ask
from graphrag_apps.serve import create_app, mcp_app
from graphrag_core import Document, GraphRetriever
from graphrag_core.deadline import deadline
from graphrag_core.errors import DeadlineExceeded, FilterError, LLMError

OURS = [Document("a1", "The Auth Service calls the Keyring.", "Auth Service", {"tenant": "a"})]


def nested(depth: int) -> dict:
    where: dict = {"tenant": "a"}
    for _ in range(depth):
        where = {"not": where}
    return where


@pytest.fixture(scope="module")
def client():
    keys, headers = keys_of(a=({"tenant": "a"}, True))
    with client_of(Gateway(index_of(OURS), keys=keys, write=True), headers=headers["a"]) as client:
        yield client


@pytest.mark.parametrize("path", ["/v1/query", "/v1/explain", "/v1/ask", "/explore/api/question"])
@pytest.mark.parametrize(
    "where",
    [
        {"\ud800": 1}, {"tenant": "\ud800"}, {"__id__": "\ud800"}, {"a\x00": {"exists": True}},
    ],
    ids=["key", "value", "id", "nul"],
)  # fmt: skip
def test_a_filter_that_no_database_takes_is_refused(client, path, where):
    body = {"where": where, "text" if "explore" in path else "question": "Who calls the Keyring?"}
    found = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (found.status_code, found.json()["error"]["type"]) == (400, "FilterError")
    assert "disk" not in found.text


def test_a_filter_that_is_nested_too_deeply_is_refused():
    with index_of(OURS) as index:
        with pytest.raises(FilterError, match="nested deeper than 20 levels"):
            list(index.document_ids(nested(40)))
        many = {"or": [{"tenant": str(number)} for number in range(600)]}
        assert not GraphRetriever(index).retrieve("Keyring", where=many).hits
        assert GraphRetriever(index).retrieve("Keyring", where=nested(18)).hits


def test_a_filter_of_many_conditions_is_refused(client):
    for where, said in (
        ({"or": [{"tenant": str(number)} for number in range(20_000)]}, "20,000 conditions"),
        ({f"field {number}": 1 for number in range(200)}, "200 different fields"),
    ):
        refused = client.post("/v1/query", json={"question": "Who?", "where": where})
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "FilterError")
        assert said in refused.text
    many = {"or": [{"tenant": str(number)} for number in range(1_000)]}
    assert client.post("/v1/query", json={"question": "Who?", "where": many}).status_code == 200


def test_the_time_limit_ends_the_work():
    with index_of(OURS) as index, deadline(time.monotonic() - 1), pytest.raises(DeadlineExceeded):
        GraphRetriever(index).retrieve("Who calls the Keyring?")


class Endless:
    """A language model that writes the same without end, until it is closed."""

    def __init__(self, piece: str) -> None:
        self.piece = piece
        self.closed = threading.Event()
        self.started = threading.Event()

    def stream(self, _):
        try:
            while True:
                self.started.set()
                yield self.piece
        finally:
            self.closed.set()


def test_an_answer_without_end_is_an_error():
    with index_of(OURS) as index, pytest.raises(LLMError, match="does not stop"):
        ask(GraphRetriever(index), "Who calls the Keyring?", Endless("word " * 1_000))


def test_a_broken_request_after_a_whole_one_is_no_failure_of_the_server(caplog):
    gateway = Gateway(index_of(OURS))
    with served(create_app(gateway)) as url, connect(url) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2 + b"broken\r\n\r\n")
        while client.recv(1_000):
            pass
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("make", [create_app, mcp_app])
def test_a_compressed_body_is_not_expanded(make):
    bomb = gzip.compress(b'{"question": "' + b"a" * 5_000_000 + b'"}')
    with served(make(Gateway(index_of()))) as url:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        for path in ("/v1/query", "/mcp"):
            assert 400 <= httpx.post(f"{url}{path}", content=bomb, headers=headers).status_code < 500
