"""Streamed answers: events, a language model that fails, a client that goes away or does not read, and the shutdown."""

from __future__ import annotations

import socket
from contextlib import contextmanager

import pytest
from serving import DOCUMENTS, LIMIT, QUESTION, client_of, events_of, index_of, keys_of

from graphrag_apps.serve import Gateway, Limits
from graphrag_core import Document
from graphrag_core.llm import OpenAIChat


def test_an_answer_is_streamed_piece_by_piece_and_ends_with_its_citations(model, llm):
    with client_of(Gateway(index_of(), llm=llm)) as client:
        with client.stream("POST", "/v1/ask", json={"question": QUESTION, "stream": True}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = list(events_of(response))
        assert [name for name, _ in events] == ["piece", "piece", "answer"]
        assert "".join(value["text"] for _, value in events[:2]) == events[-1][1]["text"] == "".join(model.pieces)
        assert [one["document_id"] for one in events[-1][1]["citations"]] == ["oauth"]
        whole = client.post("/v1/ask", json={"question": QUESTION}).json()
        assert whole == events[-1][1]
        assert whole["kind"] == "llm"
        assert whole["cited"]


@pytest.mark.parametrize(
    ("mode", "restricted"),
    [("refused", True), (500, False), (401, True), ("break", True), ("stall", False)],
)
def test_a_broken_language_model_is_502_and_nothing_leaks(model, mode, restricted, request):
    url = "http://127.0.0.1:9/v1" if mode == "refused" else model.url
    # The first piece must come in time, also on a busy machine; only a model that stalls makes the test wait so long.
    llm = OpenAIChat("m", url, api_key="", timeout=3)
    request.addfinalizer(llm.close)
    model.mode = mode
    documents = [Document(one.id, one.text, one.title, {"tenant": "a"}) for one in DOCUMENTS]
    keys, headers = keys_of(a={"tenant": "a"} if restricted else None)
    gateway = Gateway(index_of(documents), keys=keys, llm=llm)
    with client_of(gateway, headers=headers["a"]) as client:
        failed = client.post("/v1/ask", json={"question": QUESTION})
        assert failed.status_code == 502
        assert failed.json()["error"]["type"] in ("LLMError", "LLMUnreachable")
        assert ("127.0.0.1" in failed.text) is not restricted
        if mode == "refused":  # the client of the model waits before it tries again: once is enough
            return
        with client.stream("POST", "/v1/ask", json={"question": QUESTION, "stream": True}) as response:
            if mode in ("break", "stall"):  # the status was sent with the first piece
                (first, _), (last, value) = events_of(response)
                assert (response.status_code, first, last) == (200, "piece", "error")
                assert ("127.0.0.1" in str(value)) is not restricted
            else:
                assert response.status_code == 502
        assert client.post("/v1/query", json={"question": QUESTION}).status_code == 200
        model.release.set()


def test_a_client_that_goes_away_ends_the_answer(model, llm):
    model.mode = "stall"
    model.pieces = ["a "] * 2_000_000  # never ends by itself
    with client_of(Gateway(index_of(), llm=llm, limits=Limits(answers=1))) as client:
        with asked(client):
            assert model.stalled.wait(LIMIT)
        model.release.set()
        assert model.ended.acquire(timeout=LIMIT), "the connection to the language model was closed"
        model.pieces, model.mode = ["It is Mara Lindqvist [1]."], "ok"
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 200


def test_a_client_that_does_not_read_keeps_nobody_waiting(model, llm):
    model.pieces = ["x" * 10_000] * 90
    with client_of(Gateway(index_of(), llm=llm, limits=Limits(workers=1, answers=1))) as client, asked(client):
        model.pieces = ["Mara Lindqvist [1]."]
        assert client.post("/v1/query", json={"question": QUESTION}).status_code == 200
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 200


@contextmanager
def asked(client):
    """A connection on which an answer is streamed that nobody reads."""
    url, slow = client.base_url, socket.socket()
    with slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((url.host, url.port))
        body = f'{{"question": "{QUESTION}", "stream": true}}'.encode()
        head = f"POST /v1/ask HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        slow.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        yield


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_a_time_limit(model, llm, stream):
    model.mode, model.pieces = "slow", ["a "] * 2_000
    with client_of(Gateway(index_of(), llm=llm, limits=Limits(answer_seconds=0.3))) as client:
        failed = client.post("/v1/ask", json={"question": QUESTION, "stream": stream})
        assert "TimeLimit" in failed.text
        assert failed.status_code == (200 if stream else 504)
