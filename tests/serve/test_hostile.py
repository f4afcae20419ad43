"""Requests, language models and key files that are broken or mean harm."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from contextlib import suppress

import httpx
import pytest
from serving import LIMIT, QUESTION, Gateway, client_of, index_of, keys_of, served, wait_until

from graphrag_apps.ask import ask, ask_stream
from graphrag_apps.config import load
from graphrag_apps.serve import Limits, create_app
from graphrag_apps.serve.errors import TimeLimit
from graphrag_apps.serve.tools import mcp_app
from graphrag_core import Document, GraphRetriever
from graphrag_core.deadline import check_deadline, deadline
from graphrag_core.errors import ConfigError, DeadlineExceeded, FilterError, InputError, LLMError

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


def test_a_filter_of_many_conditions_costs_nothing():
    """A read-only key must not keep the server busy: what is too much is refused before documents are looked up."""
    keys, headers = keys_of(a=({"tenant": "a"}, False))
    gateway = Gateway(index_of(OURS), keys=keys)
    key, listed = gateway.authenticate(headers["a"]["Authorization"].removeprefix("Bearer ")), []
    document_ids = gateway.index.engine.document_ids
    gateway.index.engine.document_ids = lambda *given: listed.append(given) or document_ids(*given)
    with pytest.raises(FilterError, match="20,000 conditions"):
        gateway.scope(key, {"or": [{"tenant": str(number)} for number in range(20_000)]})
    assert listed == []
    gateway.scope(key, {"or": [{"tenant": str(number)} for number in range(1_000)]})
    assert len(listed) == 1, "the field once"
    with pytest.raises(FilterError, match="200 different fields"):
        gateway.scope(key, {f"field {number}": 1 for number in range(200)})
    gateway.close()


def test_the_time_limit_ends_the_work():
    gateway, ended = Gateway(index_of(OURS), limits=Limits(seconds=0.1, workers=1)), threading.Event()

    def work():
        try:
            while True:
                check_deadline()
        finally:
            ended.set()

    async def run():
        with pytest.raises(TimeLimit):
            await gateway.run(work)

    asyncio.run(run())
    wait_until(ended.is_set)
    with deadline(time.monotonic() - 1), pytest.raises(DeadlineExceeded):
        gateway.retriever.retrieve("Who calls the Keyring?")
    gateway.close()


def test_work_that_ends_at_the_time_limit_is_a_time_limit():
    """It may end between the moment at which its time is up and the answer to its client."""
    gateway, release = Gateway(index_of(OURS), limits=Limits(seconds=0.1, workers=1)), threading.Event()
    submit = gateway._pool.submit

    def work():
        release.wait()
        check_deadline()

    def submit_and_end_on_cancel(function):
        job = submit(function)
        job.cancel = lambda: release.set() or wait_until(job.done)
        return job

    gateway._pool.submit = submit_and_end_on_cancel
    with pytest.raises(TimeLimit):
        asyncio.run(gateway.run(work))
    gateway.close()


def test_a_history_with_lone_surrogates_is_refused(client):
    body = json.dumps({"question": "Who is it?", "history": ["\ud800"]})
    found = client.post("/v1/query", content=body, headers={"Content-Type": "application/json"})
    assert found.status_code in (400, 422)
    with index_of(OURS) as index, pytest.raises(InputError, match="surrogate"):
        GraphRetriever(index).retrieve("Who is it?", history=["\ud800"])


@pytest.mark.parametrize(("headers", "status"), [({"Host": "["}, 421), ({"Origin": "http://["}, 403)])
def test_headers_that_are_no_addresses_are_refused(headers, status):
    with client_of(Gateway(index_of(OURS))) as client:
        assert client.get("/v1/stats", headers=headers).status_code == status


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


@pytest.mark.parametrize("piece", [" ", "\n", "**", "", "["])
def test_a_model_that_never_ends_is_ended_by_closing_the_answer(piece):
    model = Endless(piece)
    with index_of(OURS) as index:
        stream = ask_stream(GraphRetriever(index), "Who calls the Keyring?", model)
        reading = threading.Thread(target=lambda: [None for _ in stream], daemon=True)
        reading.start()
        wait_until(model.started.is_set)
        stream.close()
        wait_until(model.closed.is_set)
        reading.join()


def test_an_answer_without_end_is_an_error():
    with index_of(OURS) as index, pytest.raises(LLMError, match="does not stop"):
        ask(GraphRetriever(index), "Who calls the Keyring?", Endless("word " * 1_000))


@pytest.mark.parametrize(
    "text",
    [
        "cache = {entries = nan}", "cache = {entries = inf}", "k = 99999999999999999999",
        'fusion = {name = "weighted", alpha = nan}', "vector_weight = nan", "score_threshold = nan",
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_refused_in_the_configuration_file(tmp_path, text):
    file = tmp_path / "hybrid-graphrag.toml"
    file.write_text(f"[retriever]\n{text}\n")
    with pytest.raises(ConfigError):
        load(file)


def test_a_retriever_that_is_no_section_is_refused(tmp_path):
    file = tmp_path / "hybrid-graphrag.toml"
    file.write_text("retriever = 5\n")
    with pytest.raises(ConfigError, match="retriever is 5: input should be a valid dictionary"):
        load(file)


def test_a_number_of_passages_beyond_any_index_is_refused():
    with index_of(OURS) as index, pytest.raises(InputError, match="k"):
        GraphRetriever(index).retrieve("Who?", k=10**22)


def test_connections_without_a_request_are_closed():
    """Half-sent headers keep a connection for a time, and only so many of them."""
    gateway = Gateway(index_of(OURS), limits=Limits(connections=20, receive_seconds=60))
    with served(create_app(gateway), gateway) as url:
        slow = [socket.create_connection(address_of(url)) for _ in range(60)]
        for one in slow:
            with suppress(ConnectionError):  # it may be closed by now
                one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert httpx.get(f"{url}/health").json()["status"] == "ok"
        with suppress(ConnectionError):
            assert slow[0].recv(100) == b"", "the oldest is closed"
        slow[-1].sendall(b"1\r\n\r\n")
        assert slow[-1].recv(100).startswith(b"HTTP/1.1 200"), "the newest can go on"
        for one in slow:
            one.close()
    gateway = Gateway(index_of(OURS), limits=Limits(receive_seconds=0.2))
    with served(create_app(gateway), gateway) as url, socket.create_connection(address_of(url)) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\n")
        assert slow.recv(100) == b""


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_over_the_limit_is_answered(stated):
    gateway = Gateway(index_of(OURS), limits=Limits(body_bytes=100_000))
    pieces = [b"x" * 50_000] * 15
    with client_of(gateway) as client:
        found = client.post("/v1/query", content=b"".join(pieces) if stated else iter(pieces))
    assert (found.status_code, found.json()["error"]["type"]) == (413, "TooLarge")


def test_a_broken_request_after_a_whole_one_is_no_failure_of_the_server(caplog):
    gateway = Gateway(index_of(OURS))
    with served(create_app(gateway), gateway) as url, socket.create_connection(address_of(url)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2 + b"broken\r\n\r\n")
        while client.recv(1_000):
            pass
    assert not [record for record in caplog.records if record.exc_info]


def address_of(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


@pytest.mark.parametrize("make", [create_app, mcp_app])
def test_an_address_that_guesses_keys_is_refused_and_valid_keys_are_not(make):
    now = [0.0]
    keys, headers = keys_of(a=None)
    gateway = Gateway(index_of(), keys=keys, clock=lambda: now[0])
    path = "/v1/query" if make is create_app else "/mcp"
    with served(make(gateway), gateway) as url, httpx.Client(base_url=url, timeout=LIMIT) as client:

        def send(given: dict[str, str]) -> httpx.Response:
            return client.post(path, json={"question": QUESTION}, headers=given)

        guesses = [send({"X-API-Key": f"hgr_{at}"}) for at in range(62)]
        assert [guess.status_code for guess in guesses] == [401] * 60 + [429] * 2
        assert guesses[-1].headers["retry-after"] == "1"
        assert "unknown" in guesses[-1].json()["error"]["message"]
        assert send({}).status_code == 401, "no key is no guess"
        assert send(headers["a"]).status_code not in (401, 429)
        now[0] = 60.0
        assert send({"X-API-Key": "hgr_x"}).status_code == 401


@pytest.mark.parametrize("make", [create_app, mcp_app])
def test_a_compressed_body_is_refused_before_it_is_read(make):
    gateway = Gateway(index_of())
    bomb = gzip.compress(b'{"question": "' + b"a" * 5_000_000 + b'"}')
    with served(make(gateway), gateway) as url:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        for path in ("/v1/query", "/mcp"):
            refused = httpx.post(f"{url}{path}", content=bomb, headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (415, "Compressed")
            assert "uncompressed" in refused.json()["error"]["message"]
