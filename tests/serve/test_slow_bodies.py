"""Bodies that arrive slowly, never end or are not wanted, and answers that are not taken: they hold nobody else up."""

from __future__ import annotations

import http.client
import json
import select
import socket
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from serving import DOCUMENTS, LIMIT, QUESTION, connect, index_of, keys_of, process, served, wait_until

from graphrag_apps.serve import ApiKeys, Gateway, Limits, create_app, mcp_app
from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder

BODY = json.dumps({"question": QUESTION}).encode()
LARGE = "/docs/assets/swagger-ui-bundle.js"  # 1.5 MB, for everybody


def head(verb: str = "POST", path: str = "/v1/query", length: int | None = 9_000_000, **headers: str) -> bytes:
    """The head of a request with a body; one of unknown length if no length is given."""
    body = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    lines = {"Host": "127.0.0.1", "Content-Type": "application/json", **body, **headers}
    return (
        f"{verb} {path} HTTP/1.1\r\n".encode() + b"".join(f"{a}: {b}\r\n".encode() for a, b in lines.items()) + b"\r\n"
    )


def get(path: str = LARGE, **headers: str) -> bytes:
    """A request without a body."""
    return head("GET", path, 0, **headers)


def answer(connection: socket.socket, reader=None) -> tuple[int, http.client.HTTPMessage]:
    """Read one response whole; return its status and headers."""
    reader = reader or connection.makefile("rb")
    status = int(reader.readline().split()[1])
    headers = http.client.parse_headers(reader)
    reader.read(int(headers["Content-Length"]))
    return status, headers


def was_closed(connection: socket.socket, *, wait: bool = True) -> bool:
    """Whether the server closed a connection without an answer."""
    connection.settimeout(LIMIT if wait else 0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@contextmanager
def serving(app=create_app, *, keys=None, **limits):
    gateway = Gateway(index_of(), keys=keys, limits=Limits(**limits))
    with served(app(gateway)) as url:
        yield url


@pytest.fixture
def kb(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), progress=False) as index:
        index.add(DOCUMENTS)
    return tmp_path / "kb"


def answered(verb, url, **more):
    """Send a request; again if its connection came before many others of them, and was closed."""
    client = httpx.Client(transport=httpx.HTTPTransport(retries=3), timeout=LIMIT)
    with client:
        while True:
            with suppress(httpx.TransportError):
                return client.request(verb, url, **more)


@contextmanager
def limited(kb, *options, **limits):
    """The command in a process, with limits of connections."""
    given = [part for name, value in limits.items() for part in ("--limit", f"{name}={value}")]
    with process(kb, "serve", "--port", "0", *given, *options) as (server, url, _):
        yield server, url


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of open files of another process is set")
@pytest.mark.parametrize("request_of", [lambda key: head(**key) + b"{", lambda key: get(**key)], ids=["body", "answer"])
def test_bodies_that_never_end_and_answers_that_are_not_taken_keep_nobody_out(kb, tmp_path, request_of):
    """With and without a key, and more of them than the server may have open files."""
    import resource

    key, secret = ApiKeys.generate("a")
    ApiKeys.append(tmp_path / "keys.toml", key, None)
    valid = {"Authorization": f"Bearer {secret}"}
    with limited(kb, "--keys", tmp_path / "keys.toml", connections=50) as (server, url), ExitStack() as stack:
        files = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (files + 100, files + 100))
        slow = []
        for number in range(150):
            slow.append(stack.enter_context(connect(url, taken=4_096)))
            slow[-1].sendall(request_of(valid if number % 2 else {}))
            with suppress(OSError):  # a byte more on one that is open
                slow[len(slow) // 2].sendall(b" ")
        assert answered("GET", f"{url}/health").json()["status"] == "ok"
        found = answered("POST", f"{url}/v1/query", json={"question": QUESTION}, headers=valid)
        assert found.json()["hits"][0]["document_id"] == "oauth"
        assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) <= files + 60


def test_connections_without_a_request_are_closed(kb):
    """Half-sent headers keep a connection for a time, and only so many of them."""
    with limited(kb, connections=20) as (_, url), ExitStack() as stack:
        slow = [stack.enter_context(connect(url)) for _ in range(60)]
        for one in slow:
            with suppress(ConnectionError):  # it may be closed by now
                one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert httpx.get(f"{url}/health").json()["status"] == "ok"
        assert was_closed(slow[0]), "the oldest is closed"
        slow[-1].sendall(b"1\r\n\r\n")
        assert slow[-1].recv(100).startswith(b"HTTP/1.1 200"), "the newest can go on"
    with limited(kb, receive_seconds=0.2) as (_, url), connect(url) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\n")
        assert was_closed(slow)


@pytest.mark.parametrize("length", [950_000, None], ids=["declared", "chunked"])
def test_all_bodies_that_arrive_share_the_memory(length):
    """Large ones beyond it are refused."""
    chunk = b"x" * 100_000
    piece = chunk if length else b"%x\r\n%b\r\n" % (len(chunk), chunk)
    with ExitStack() as stack:
        url = stack.enter_context(serving(body_bytes=1_000_000, unread_bytes=4_000_000))
        slow = [stack.enter_context(connect(url)) for _ in range(10)]
        for one in slow:
            one.sendall(head(length=length))
        for _ in range(9):
            for one in slow:
                one.sendall(piece)
        wait_until(lambda: len(select.select(slow, [], [], 0.1)[0]) >= 5)
        refused = select.select(slow, [], [], 0)[0]
        answers = [answer(one) for one in refused]
        assert {status for status, _ in answers} == {503}
        assert all(int(headers["Retry-After"]) > 0 for _, headers in answers)
        assert httpx.post(f"{url}/v1/query", json={"question": QUESTION}, timeout=LIMIT).status_code == 200


REFUSED = {
    "no key": (head(), 401),
    "wrong key": (head(Authorization="Bearer guessed"), 401),
    "wrong key, chunked": (head(length=None, Authorization="Bearer guessed"), 401),
    "unknown path": (head(path="/v1/nothing"), 401),
    "explorer": (head(path="/explore/api/question"), 401),
    "mcp": (head(path="/mcp"), 401),
}


@pytest.mark.parametrize("app", [create_app, mcp_app])
def test_what_the_head_shows_is_refused_before_the_body_arrives(app):
    keys, headers = keys_of(a=None)
    too_long = head(length=10_000_001, Expect="100-continue", **headers["a"])
    with serving(app, keys=keys) as url:
        for request, status in [*REFUSED.values(), *([(too_long, 413)] if app is create_app else [])]:
            with connect(url) as connection:
                connection.sendall(request)
                assert answer(connection)[0] == status, request


def test_a_body_has_a_time_limit():
    """Each byte is in time, but not all of them."""
    with serving(receive_seconds=1.0) as url, connect(url) as connection:
        arrived = threading.Event()

        def trickle():
            end = time.monotonic() + LIMIT
            with suppress(OSError):
                while not arrived.wait(0.05) and time.monotonic() < end:
                    connection.sendall(b" ")

        connection.sendall(head() + b"{")
        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            assert answer(connection)[0] == 408
        finally:
            arrived.set()
            thread.join()


UNREAD = {
    "a file": get(),
    "the last answer": get(Connection="close"),
    "many answers": get("/docs") * 1_000,
}


@pytest.mark.skipif(sys.platform != "linux", reason="the open files of another process are counted")
def test_an_answer_that_is_not_taken_has_a_time_limit(kb):
    with limited(kb, receive_seconds=0.5) as (server, url):
        files = Path(f"/proc/{server.pid}/fd")
        before = len(list(files.iterdir()))
        for requests in UNREAD.values():
            with connect(url, taken=4_096) as connection:
                connection.sendall(requests)
                wait_until(lambda to=connection: select.select([to], [], [], 0)[0])
                wait_until(lambda: len(list(files.iterdir())) <= before)


def test_a_slow_client_that_takes_an_answer_gets_all_of_it(kb):
    """Longer than the time limit, which holds for each part."""
    with limited(kb, receive_seconds=2.0) as (_, url), connect(url, taken=65_536) as connection:
        connection.sendall(get())
        reader = connection.makefile("rb")
        assert reader.readline().split()[1] == b"200"
        left = int(http.client.parse_headers(reader)["Content-Length"])
        start = time.monotonic()
        while left and (data := reader.read(min(left, 50_000))):
            left -= len(data)
            time.sleep(0.1)
        assert left == 0
        assert time.monotonic() - start > 2.0
